// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The possible answers of admission: a refusal, or success without the dangerous part of the change.
var (
	refused              = []int{http.StatusForbidden, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity}
	refusedOrNeutralized = append([]int{http.StatusOK, http.StatusCreated}, refused...)
)

// answered checks that every answer has one of these status codes.
func (a *app) answered(codes ...int) {
	a.t.Helper()
	if len(a.answers) == 0 {
		a.t.Error("no request was sent")
	}
	wrong := 0
	for _, got := range a.answers {
		if !slices.Contains(codes, got.code) {
			if wrong++; wrong < 4 {
				a.t.Errorf("got %s; want one of %v", got, codes)
			}
		}
		if slices.Contains(refused, got.code) && !strings.Contains(got.body, `"message":`) {
			a.t.Errorf("got %s; want a message", got)
		}
	}
	if wrong > 3 {
		a.t.Errorf("and %d more of %d", wrong-3, len(a.answers))
	}
}

// atMost checks that a version never had more pods than the plan allows.
func (a *app) atMost(n int, version string) {
	a.t.Helper()
	if got := a.monitor.peak(version); got > n {
		a.t.Errorf("there were %d pods of %s, but at most %d were approved; %s", got, version, n, a.monitor)
	}
}

// checkNoLateHold checks that nothing was held late, which only happens if admission was bypassed.
func (a *app) checkNoLateHold() {
	a.t.Helper()
	r, err := a.getRollout(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	for _, c := range r.Status.Conditions {
		if c.Type == "AdmissionBypassed" && c.Status == metav1.ConditionTrue {
			a.t.Errorf("admission was bypassed: %s: %s", c.Reason, c.Message)
		}
	}
}

// checkUnchanged checks that the objects are as before the attack.
func (a *app) checkUnchanged() {
	a.t.Helper()
	if diff := cmp.Diff(a.before, a.facts(), cmp.AllowUnexported(facts{})); diff != "" {
		a.t.Errorf("objects have changed (-before +now):\n%s", diff)
	}
}

// checkNextRelease releases another version with authorized users. Delayed effects of the attack
// have occurred by then, and must not block the release.
func (a *app) checkNextRelease() {
	a.t.Helper()
	const version = "v9"
	a.mustSend(testEnv.admin, patch(a.path(), change{version: version, template: removePodTemplateHashLabel}.body()))
	a.eventually("the first pod of "+version+" waits for approval", func(ctx context.Context) error {
		if err := a.waitsAtStep(1)(ctx); err != nil {
			return err
		}
		pods, err := a.pods(ctx)
		if err == nil && pods[version] != 1 {
			err = fmt.Errorf("runs %v", pods)
		}
		return err
	})
	a.verb(testEnv.admin, "promote", `{"full":true}`)
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.eventually(version+" serves", a.runs(versions{version: 3}))
}

// gateHolds expects that, whatever the answers were, v2 and v3 never had more pods than the first
// step allows, and that an approved release continues.
func gateHolds(a *app) {
	a.t.Helper()
	a.answered(refusedOrNeutralized...)
	a.eventually("the attack is over", a.isIdle)
	a.t.Logf("the highest counts were %s", a.monitor)
	a.checkNoLateHold()
	a.atMost(1, "v2")
	a.atMost(1, "v3")
	a.checkNextRelease()
	a.atMost(1, "v2")
	a.atMost(1, "v3")
}

// isDenied expects that every request is refused and changes nothing.
func isDenied(a *app) {
	a.t.Helper()
	a.answered(refused...)
	a.checkUnchanged()
	gateHolds(a)
}

// isForbidden expects that every request is refused with 403.
func isForbidden(a *app) {
	a.t.Helper()
	a.answered(http.StatusForbidden)
	isDenied(a)
}

// checkAbortEnds checks that an abort ends with every pod running v1 again.
func (a *app) checkAbortEnds() {
	a.t.Helper()
	a.eventually("the release is aborted", a.isAborted)
	a.eventually("all pods run v1 again", a.runs(versions{"v1": 3}))
}
