// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// TestChecks has two steps with checks. Step 1 gets traffic when the job of a suspended CronJob has
// succeeded. The gate of step 2 has no endpoint and stays closed: an approval is refused, and an
// override passes the gate.
func TestChecks(t *testing.T) {
	t.Parallel()
	p := defaultPlan()
	p.customizeRollout = func(r *v1beta1.Rollout) {
		r.Spec.Strategy.Canary.Analysis = &v1beta1.Analysis{Checks: []v1beta1.Check{
			{Name: "smoke", At: v1beta1.AtBeforeTraffic, Steps: []int32{1}, Job: &v1beta1.JobCheck{CronJob: "web-smoke"}},
			{Name: "ticket", At: v1beta1.AtBeforeTraffic, Steps: []int32{2}, Gate: new(true), HTTP: &v1beta1.HTTPCheck{Service: "tickets"}},
		}}
	}
	a := start(t, p)
	a.create(&batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "web-smoke"}, Spec: batchv1.CronJobSpec{
		Schedule: "0 0 1 1 *", Suspend: new(true),
		JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "smoke", Image: "smoke:1"}},
		}}}},
	}})
	a.create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "tickets"}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": "tickets"}, Ports: []corev1.ServicePort{{Port: 80}},
	}})

	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.eventually("the job has succeeded", a.checkHasResult("smoke", v1beta1.CheckPassed))
	a.jobRanOnce()
	a.post(testEnv.admin, "promote", `{"expect":{"step":1}}`, http.StatusCreated)
	a.eventually("the gate is closed", a.checkHasResult("ticket", v1beta1.CheckRunning))
	a.post(testEnv.admin, "promote", `{"expect":{"step":2}}`, http.StatusConflict)
	a.post(testEnv.admin, "promote", `{"expect":{"step":2},"override":true,"reason":"the ticket is open"}`, http.StatusCreated)
	a.eventually("step 2 waits", a.waitsAtStep(2))
	a.eventually("the gate was passed", a.checkHasResult("ticket", v1beta1.CheckSkipped))
	a.promoteAll()
	a.eventually("the Rollout is Healthy", a.isHealthy)
}

// checkHasResult returns a check that an analysis check has this result.
func (a *app) checkHasResult(check string, want v1beta1.CheckResult) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := a.getRollout(ctx)
		if err != nil {
			return err
		}
		if r.Status.Analysis == nil {
			return fmt.Errorf("the status has no checks: %s", r.Status.Message)
		}
		for _, c := range r.Status.Analysis.Checks {
			if c.Name == check && c.Result == want {
				return nil
			}
		}
		return fmt.Errorf("the checks are %+v", r.Status.Analysis.Checks)
	}
}

// jobRanOnce checks that there is one job, which is owned by the Rollout and labelled with its
// step.
func (a *app) jobRanOnce() {
	a.t.Helper()
	r, err := a.getRollout(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	var all batchv1.JobList
	if err := testEnv.client.List(a.t.Context(), &all, client.InNamespace(a.namespace)); err != nil {
		a.t.Fatal(err)
	}
	var got []string
	for _, j := range all.Items {
		owner, env := j.OwnerReferences[0], map[string]string{}
		for _, v := range j.Spec.Template.Spec.Containers[0].Env {
			env[v.Name] = v.Value
		}
		got = append(got, fmt.Sprintf("%s %t %s %s %t", owner.Kind, owner.UID == r.UID, env["WEIR_NEW_SERVICE"], env["WEIR_STEP"], env["WEIR_REVISION"] == r.Status.Canary.PodTemplateHash))
	}
	a.checkEqual("the jobs", []string{"Rollout true web-canary 1 true"}, got)
}
