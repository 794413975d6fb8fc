// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// ordinalsFrom is a spec with another first ordinal.
func ordinalsFrom(at int) object { return object{"ordinals": object{"start": at}} }

// ordinalCells change the ordinals of the pods of a StatefulSet.
var ordinalCells = []cell{
	{who: patcher, what: skip, how: "moves the ordinals of a held StatefulSet", admission: true, scenario: scenario{kind: statefulSets, at: atStep1},
		attack: patches(change{spec: ordinalsFrom(1)}, change{spec: ordinalsFrom(2)}), expect: ordinalsAreUnchanged},
	{who: patcher, what: skip, how: "moves the ordinals of a held StatefulSet with another template", admission: true, scenario: scenario{kind: statefulSets, at: atStep1},
		attack: patches(change{spec: ordinalsFrom(1), version: "v3"}), expect: ordinalsAreUnchanged},
	{who: patcher, what: skip, how: "moves the ordinals of a held StatefulSet after another template", admission: true, scenario: scenario{kind: statefulSets, at: atStep1},
		attack: patches(change{version: "v3"}, change{spec: ordinalsFrom(1)}), expect: ordinalsAreUnchanged},
	{who: patcher, what: ship, how: "moves the ordinals of a StatefulSet together with a template", admission: true, scenario: scenario{kind: statefulSets},
		attack: patches(change{version: "v2", spec: ordinalsFrom(1)}), expect: gateHolds},
	{who: patcher, what: ship, how: "moves the ordinals of a StatefulSet before a template", admission: true, scenario: scenario{kind: statefulSets},
		attack: patches(change{spec: ordinalsFrom(1)}, change{version: "v2"}), expect: gateHolds},
	{who: patcher, what: ship, how: "moves the ordinals of a StatefulSet after a template", admission: true, scenario: scenario{kind: statefulSets},
		attack: patches(change{version: "v2"}, change{spec: ordinalsFrom(1)}), expect: gateHolds},
	{who: patcher, what: undoAbort, how: "moves the ordinals of an aborted StatefulSet", admission: true, scenario: scenario{kind: statefulSets, at: aborted},
		attack: patches(change{spec: ordinalsFrom(1)}, change{spec: ordinalsFrom(3)}), expect: ordinalsAreUnchanged},
}

// scaledToOneCells scale a StatefulSet to one pod and up again. Its native controller takes a
// version as the current one when all pods run it, regardless of the partition, and creates all
// later pods with it.
var scaledToOneCells = []cell{
	{who: patcher, what: ship, how: "scales a StatefulSet to one pod and up while a step waits", admission: true, scenario: scenario{kind: statefulSets, at: atStep1},
		attack: scalesToOneThen(change{spec: object{"replicas": 1}}), expect: oneNewPodRemains},
	{who: patcher, what: ship, how: "scales a StatefulSet to one pod together with a template, and scales up", admission: true, scenario: scenario{kind: statefulSets},
		attack: scalesToOneThen(change{version: "v2", spec: object{"replicas": 1}}), expect: oneNewPodRemains},
}

// scalesToOneThen scales to one pod, and makes another change when the step is paused and both
// controllers have observed the one pod.
func scalesToOneThen(to change) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		a.attackWith(u, patch(a.path(), to.body()))
		a.eventually("one pod runs", a.hasOnePod)
		a.eventually("step 1 waits", a.waitsAtStep(1))
		a.attackWith(u, patch(a.path()+"/scale", `{"spec":{"replicas":8}}`))
	}
}

func (a *app) hasOnePod(ctx context.Context) error {
	b := &v1beta1.BatchRelease{}
	o, _, err := a.liveWorkload(ctx)
	if err == nil {
		err = testEnv.client.Get(ctx, a.key(a.name), b)
	}
	if err != nil {
		return err
	}
	s := o.(*appsv1.StatefulSet).Status
	native := s.Replicas == 1 && s.ReadyReplicas == 1 && s.ObservedGeneration == o.GetGeneration() && (s.UpdatedReplicas == 0 || s.CurrentRevision == s.UpdateRevision)
	if ready := b.Status.CanaryStatus.BatchState == v1beta1.BatchReady && b.Status.ObservedWorkloadReplicas == 1; !native || !ready {
		return fmt.Errorf("the status is %+v, and that of the batch %+v", s, b.Status)
	}
	return nil
}

// oneNewPodRemains expects one pod of the new version, as the step has.
func oneNewPodRemains(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK)
	a.eventually("eight pods run", func(ctx context.Context) error {
		pods, err := a.pods(ctx)
		if err == nil && pods["v1"]+pods["v2"] != 8 {
			err = fmt.Errorf("runs %v", pods)
		}
		return err
	})
	a.atMost(1, "v2")
	a.mustSend(testEnv.admin, patch(a.path()+"/scale", `{"spec":{"replicas":3}}`))
	a.eventually("three pods are left", a.runs(versions{"v1": 2, "v2": 1}))
	gateHolds(a)
}

// ordinalsAreUnchanged expects that the pods have their previous names.
func ordinalsAreUnchanged(a *app) {
	a.t.Helper()
	o, _, err := a.liveWorkload(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	if s := o.(*appsv1.StatefulSet); s.Spec.Ordinals != nil {
		a.t.Errorf("the ordinals begin at %d", s.Spec.Ordinals.Start)
	}
	gateHolds(a)
}

// refusedTemplateCells send verbs while blue-green refuses a third template.
var refusedTemplateCells = []cell{
	{who: manager, what: skip, how: "resumes while another template is refused", scenario: scenario{blueGreen: true, at: atStep1}, attack: resumesWhileRefused, expect: verbsReportRefusal},
	{who: promoter, what: skip, how: "promotes while another template is refused", long: true, scenario: scenario{blueGreen: true, at: atStep1}, attack: promotesRefused, expect: verbsReportRefusal},
	{who: manager, what: skip, how: "resumes while another template is refused, with traffic", long: true, scenario: scenario{blueGreen: true, withTraffic: true, at: atStep1},
		attack: resumesWhileRefused, expect: verbsReportRefusal},
}

func promotesRefused(a *app, u *user) {
	a.t.Helper()
	a.setVersion("v3")
	a.eventually("the Rollout refuses the template", a.isStalledFor("RevisionRefused"))
	for _, body := range words("", `{"full":true}`, `{"expect":{"step":1}}`) {
		a.attackWith(u, post(a.api()+"/promote", body))
	}
}

func resumesWhileRefused(a *app, u *user) {
	a.t.Helper()
	promotesRefused(a, u)
	for _, body := range words(`{"step":1}`, `{"step":2}`, `{"step":3}`) {
		a.attackWith(u, post(a.api()+"/jump", body))
	}
	a.attackWith(u, post(a.api()+"/retry", ""))
}

// verbsReportRefusal expects that each verb reports the refused template, and that the release is
// as before when the template is reverted.
func verbsReportRefusal(a *app) {
	a.t.Helper()
	a.answered(http.StatusConflict)
	for _, got := range a.answers {
		if !strings.Contains(got.body, "template") {
			a.t.Errorf("%s does not report the reason", got)
		}
	}
	a.atMost(0, "v3")
	a.setVersion("v2")
	a.eventually("step 1 waits", func(ctx context.Context) error {
		if err := a.isStalledFor("RevisionRefused")(ctx); err == nil {
			return errors.New("the template is still refused")
		}
		return a.waitsAtStep(1)(ctx)
	})
	a.checkUnchanged()
	releaseCompletes(a)
	a.checkNextRelease()
}
