// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	weir "github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
)

// source creates a MetricSource whose server answers each query with the same number.
func (a *app) source(name string) *atomic.Int32 {
	a.t.Helper()
	number := &atomic.Int32{}
	metrics := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answerNumber(w, r, number.Load())
	}))
	a.t.Cleanup(metrics.Close)
	a.createClusterScoped(&weir.MetricSource{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: weir.MetricSourceSpec{
		Prometheus: &weir.Prometheus{URL: metrics.URL}, LagSeconds: new(int32(0)), RawQueries: new(true),
	}})
	return number
}

// TestFailedCheckNeedsOverride fails the check of step 1. A release manager who may also edit
// Rollouts and Checks, but may not override checks, tries every way to release more pods, without
// success. A user with the permission jumps to the last step, and the record names the checks.
func TestFailedCheckNeedsOverride(t *testing.T) {
	t.Parallel()
	p := planWithoutTraffic()
	p.customizeRollout = func(r *v1beta1.Rollout) {
		r.Spec.Strategy.Canary.Analysis = &v1beta1.Analysis{
			EverySeconds: new(int32(1)), AtLeastSeconds: new(int32(0)), OnFail: v1beta1.OnFailWait,
			Checks: []v1beta1.Check{{Name: "orders", Use: &v1beta1.CheckRef{Kind: "Check", Name: "orders"}}},
		}
	}
	a := start(t, p)
	a.source("e2e-override")
	a.create(&weir.Check{ObjectMeta: metav1.ObjectMeta{Name: "orders"}, Spec: weir.CheckSpec{Query: &v1beta1.QueryCheck{Source: "e2e-override", PromQL: "orders", Min: new("1")}}})
	rita, bruce := a.userWithClusterRole("override-rita", "weir-release-manager"), a.userWithClusterRole("override-bruce", "weir-release-manager")
	a.userWithClusterRole(rita.name, "edit")
	a.userWithClusterRole(bruce.name, "weir-breakglass")

	a.release("v2")
	a.eventually("the check has failed", a.checkHasResult("orders", v1beta1.CheckFailed))
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.guard.atMost("v2", 2)
	r, err := a.getRollout(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	digest := r.Status.Canary.UpdateTemplate

	const failed = "orders failed: "
	for _, way := range []struct {
		verb, body string
		code       int
		says       string
	}{
		{"promote", `{}`, http.StatusConflict, failed},
		{"promote", `{"full":true}`, http.StatusConflict, failed},
		{"promote", `{"override":true,"reason":"r"}`, http.StatusForbidden, "permission to create rollouts/override"},
		{"promote", `{"full":true,"override":true,"reason":"r"}`, http.StatusForbidden, "permission to create rollouts/override"},
		{"jump", `{"step":2}`, http.StatusConflict, failed},
		{"jump", `{"step":3}`, http.StatusConflict, "kubectl weir jump web 3 --override"},
		{"jump", `{"step":3,"override":true,"reason":"r"}`, http.StatusForbidden, "permission to create rollouts/override"},
	} {
		a.post(rita, way.verb, way.body, way.code, way.says)
	}
	status := func(body string) []string {
		return []string{"patch", "rollout", "web", "--subresource=status", "--type=merge", "-p", `{"status":{"canaryStatus":` + body + `}}`}
	}
	edit := func(op string) []string {
		return []string{"patch", "rollout", "web", "--type=json", "-p", "[" + op + "]"}
	}
	decide := func(text string) []string {
		return []string{"annotate", "rollout", "web", "rollouts.kruise.io/decide=" + text}
	}
	const analysis = "/spec/strategy/canary/analysis"
	for _, way := range []struct {
		args []string
		says string
	}{
		{status(`{"currentStepState":"StepReady"}`), failed},
		{status(`{"nextStepIndex":3}`), failed},
		{status(`{"currentStepIndex":3}`), "not written"},
		{status(`{"currentStepIndex":3,"currentStepState":"StepUpgrade"}`), "not written"},
		{decide("promote " + digest + " 1 @1"), failed},
		{decide("promote " + digest + " full @2"), failed},
		{decide("jump " + digest + " 3 @3"), failed},
		{edit(`{"op":"add","path":"/spec/strategy/canary/steps/0/pause","value":{"duration":0}}`), failed},
		{edit(`{"op":"remove","path":"` + analysis + `"}`), failed},
		{edit(`{"op":"remove","path":"` + analysis + `/checks/0"}`), failed},
		{edit(`{"op":"replace","path":"` + analysis + `/checks/0/name","value":"other"}`), failed},
		{edit(`{"op":"replace","path":"` + analysis + `/onFail","value":"Report"}`), failed},
		{edit(`{"op":"add","path":"` + analysis + `/checks/0/steps","value":[3]}`), failed},
		{edit(`{"op":"replace","path":"/spec/strategy/canary/steps/0/replicas","value":"100%"}`), failed},
		{edit(`{"op":"replace","path":"/spec/strategy/canary/steps/1/replicas","value":"100%"}`), failed},
		{edit(`{"op":"add","path":"/spec/disabled","value":true}`), failed},
	} {
		line := strings.Join(way.args, " ")
		// The aggregation of Weir's rules into the cluster's role edit takes a moment.
		a.eventually(line, func(context.Context) error {
			if got := rita.kubectl(a, way.args...); !strings.Contains(got.out, way.says) {
				return fmt.Errorf("the output of kubectl %s is %q", line, got.out)
			}
			return nil
		})
	}
	// The step begins again, and the check is still failed.
	a.post(rita, "jump", `{"step":1}`, http.StatusCreated)
	a.eventually("step 1 waits again", a.waitsAtStep(1))
	a.post(rita, "promote", `{}`, http.StatusConflict, failed)

	// She relaxes the shared Check. The failed result stays.
	rita.kubectl(a, "patch", "check.weir-rollouts.io", "orders", "--type=merge", "-p", `{"spec":{"query":{"min":"-1"}}}`).mustSucceed("patched")
	a.consistently("the check has failed", a.checkHasResult("orders", v1beta1.CheckFailed))
	a.post(rita, "promote", `{}`, http.StatusConflict, failed)
	a.checkNow(a.waitsAtStep(1))

	a.guard.atMost("v2", 100)
	a.post(bruce, "jump", `{"step":3,"override":true}`, http.StatusUnprocessableEntity, "reason")
	a.post(bruce, "jump", `{"step":3,"override":true,"reason":"the metric is broken"}`, http.StatusCreated)
	a.eventually("the last step waits", a.waitsAtStep(3))
	a.post(bruce, "promote", `{"override":true,"reason":"the metric is broken"}`, http.StatusCreated)
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.eventually("the history names the checks", func(ctx context.Context) error {
		var all v1alpha1.RolloutHistoryList
		if err := testEnv.client.List(ctx, &all, client.InNamespace(a.namespace)); err != nil {
			return err
		}
		for _, h := range all.Items {
			for _, d := range h.Status.Decisions {
				if d.User == bruce.name && d.Verb == "jump" && d.Reason == "the metric is broken" && len(d.OverriddenChecks) > 1 && d.OverriddenChecks[0] == (v1alpha1.OverriddenCheck{Name: "orders", Step: 1, Result: "Failed"}) {
					return nil
				}
			}
		}
		return fmt.Errorf("the histories are %+v", all.Items)
	})
}

// TestRetryIsJudgedAgain retries a release that its check has aborted. No override is needed, and
// the check runs again. An edit of the check after it has passed is reported while the step waits
// for approval.
func TestRetryIsJudgedAgain(t *testing.T) {
	t.Parallel()
	p := planWithoutTraffic()
	p.customizeRollout = func(r *v1beta1.Rollout) {
		r.Spec.Strategy.Canary.Analysis = &v1beta1.Analysis{EverySeconds: new(int32(1)), AtLeastSeconds: new(int32(0)), Checks: []v1beta1.Check{
			{Name: "orders", Use: &v1beta1.CheckRef{Kind: "Check", Name: "orders"}},
		}}
	}
	a := start(t, p)
	number := a.source("e2e-retry")
	a.create(&weir.Check{ObjectMeta: metav1.ObjectMeta{Name: "orders"}, Spec: weir.CheckSpec{Query: &v1beta1.QueryCheck{Source: "e2e-retry", PromQL: "orders", Min: new("1")}}})
	rita := a.userWithClusterRole("retry-rita", "weir-release-manager")
	a.release("v2")
	a.eventually("the check has aborted the release", a.isAborted)
	a.post(rita, "retry", `{}`, http.StatusCreated)
	a.eventually("the check has aborted the release again", func(ctx context.Context) error {
		got, err := a.decisions(ctx)
		if err == nil && len(got) < 3 {
			err = fmt.Errorf("the decisions are %v", got)
		}
		return err
	})
	a.eventually("all pods run the stable version", a.isAborted)
	number.Store(1)
	a.post(rita, "retry", `{}`, http.StatusCreated)
	a.eventually("the check has passed", a.checkHasResult("orders", v1beta1.CheckPassed))
	a.eventually("step 1 waits", a.waitsAtStep(1))
	testEnv.admin.kubectl(a, "patch", "check.weir-rollouts.io", "orders", "--type=merge", "-p", `{"spec":{"query":{"min":"-1"}}}`).mustSucceed("patched")
	a.eventually("the edit is reported", func(ctx context.Context) error {
		r, err := a.getRollout(ctx)
		if err == nil && !strings.Contains(r.Status.Message, "check orders has passed after it was changed at ") {
			err = fmt.Errorf("the message is %q", r.Status.Message)
		}
		return err
	})
	a.promoteAll()
	a.eventually("the Rollout is Healthy", a.isHealthy)
}
