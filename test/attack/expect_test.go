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

// What a door may answer: it refuses, or lets pass what it has taken the sting from.
var (
	refused              = []int{http.StatusForbidden, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity}
	refusedOrNeutralized = append([]int{http.StatusOK, http.StatusCreated}, refused...)
)

// answered wants every answer to be one of these.
func (a *app) answered(codes ...int) {
	a.t.Helper()
	if len(a.answers) == 0 {
		a.t.Error("nothing was tried")
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

// atMost wants no more pods of a version than the plan gives it, at any time.
func (a *app) atMost(n int, version string) {
	a.t.Helper()
	if got := a.seen.peak(version); got > n {
		a.t.Errorf("there were %d pods of %s, and nobody has approved more than %d; %s", got, version, n, a.seen)
	}
}

// checkNoLateHold wants nothing to have been held late, which a door that is open does not need.
func (a *app) checkNoLateHold() {
	a.t.Helper()
	r, err := a.getRollout(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	for _, c := range r.Status.Conditions {
		if c.Type == "AdmissionBypassed" && c.Status == metav1.ConditionTrue {
			a.t.Errorf("a door was passed: %s: %s", c.Reason, c.Message)
		}
	}
}

// checkUnchanged wants the world to be as before, but for what is named.
func (a *app) checkUnchanged() {
	a.t.Helper()
	if diff := cmp.Diff(a.before, a.facts(), cmp.AllowUnexported(facts{})); diff != "" {
		a.t.Errorf("something was changed (-before +now):\n%s", diff)
	}
}

// checkNextRelease has a version released by those who may. What an attack has set off has
// come out by then, and nothing of it may be in the way.
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

// gateHolds wants the gate to have held: whatever was answered, no more pods of v2 (or
// v3) were there than the first step has, and a release that is approved goes on.
func gateHolds(a *app) {
	a.t.Helper()
	a.answered(refusedOrNeutralized...)
	a.eventually("the attack is over", a.isIdle)
	a.t.Logf("at most there were %s", a.seen)
	a.checkNoLateHold()
	a.atMost(1, "v2")
	a.atMost(1, "v3")
	a.checkNextRelease()
	a.atMost(1, "v2")
	a.atMost(1, "v3")
}

// isDenied wants every request to be refused, and nothing to be changed by it.
func isDenied(a *app) {
	a.t.Helper()
	a.answered(refused...)
	a.checkUnchanged()
	gateHolds(a)
}

// isForbidden wants every request to be refused for want of permission.
func isForbidden(a *app) {
	a.t.Helper()
	a.answered(http.StatusForbidden)
	isDenied(a)
}

// checkAbortEnds wants an abort to end, with every pod of v1 again.
func (a *app) checkAbortEnds() {
	a.t.Helper()
	a.eventually("it is aborted", a.isAborted)
	a.eventually("v1 is back", a.runs(versions{"v1": 3}))
}
