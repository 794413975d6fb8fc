// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// canaryPlan is the default plan in the canary style, with an extra Deployment.
func canaryPlan() plan {
	p := defaultPlan()
	p.steps = []v1beta1.Step{withTraffic(manualStep("1"), "20%"), withTraffic(manualStep("50%"), "50%")}
	p.customizeRollout = func(r *v1beta1.Rollout) {
		r.Spec.Strategy.Canary.EnableExtraWorkloadForCanary = new(true)
		r.Spec.Strategy.Canary.PatchPodTemplateMetadata = &v1beta1.PodTemplateMetadata{Labels: map[string]string{"track": "canary"}}
	}
	return p
}

// hasExtraDeployment returns a check that the extra Deployment has this many ready pods; 0 means
// that it must not exist.
func (a *app) hasExtraDeployment(want int32) func(context.Context) error {
	return func(ctx context.Context) error {
		var list appsv1.DeploymentList
		if err := testEnv.client.List(ctx, &list, client.InNamespace(a.namespace), client.MatchingLabels{"rollouts.kruise.io/canary-deployment": name}); err != nil {
			return err
		}
		switch {
		case len(list.Items) > 1:
			return fmt.Errorf("there are %d extra Deployments", len(list.Items))
		case len(list.Items) == 0 && want > 0:
			return errors.New("there is no extra Deployment")
		case len(list.Items) == 1 && want == 0:
			return errors.New("there is still an extra Deployment")
		case want == 0:
			return nil
		}
		d := list.Items[0]
		if *d.Spec.Replicas != want || d.Status.ReadyReplicas != want || d.Spec.Template.Labels["track"] != "canary" {
			return fmt.Errorf("%d of %d pods are ready, labels %v, want %d", d.Status.ReadyReplicas, *d.Spec.Replicas, d.Spec.Template.Labels, want)
		}
		return nil
	}
}

// TestCanary releases in the canary style. The extra Deployment gets its share of pods and grows
// with the Deployment, which stays unchanged. The extra Deployment is deleted when the native
// controller has rolled the Deployment.
func TestCanary(t *testing.T) {
	t.Parallel()
	a := start(t, canaryPlan())
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.eventually("the pods of the step run", a.runs(versions{"v1": 6, "v2": 1}))
	a.checkNow(a.hasExtraDeployment(1))
	a.checkNow(a.hasCanaryWeight("20"))
	a.checkNow(a.serviceSelects(name, versions{"v1": 6}))
	a.checkNow(a.serviceSelects(name+"-canary", versions{"v2": 1}))
	a.promote(1)
	a.eventually("step 2 waits", a.waitsAtStep(2))
	a.eventually("the pods of the step run", a.runs(versions{"v1": 6, "v2": 3}))
	a.scale(8)
	a.eventually("the extra Deployment is scaled up", a.hasExtraDeployment(4))
	a.eventually("all pods run", a.runs(versions{"v1": 8, "v2": 4}))
	a.guard.atLeast(7)
	a.promote(2)
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.checkNow(a.hasExtraDeployment(0))
	a.awaitPods(versions{"v2": 8})
	a.checkRestored(workloadTypeLabel)
}

// TestCanaryAbort checks that an abort removes the traffic before the extra pods, that a retry
// creates them again, and that a rollback leaves nothing behind.
func TestCanaryAbort(t *testing.T) {
	t.Parallel()
	a := start(t, canaryPlan())
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.abort()
	a.checkAborted("v1")
	a.post(testEnv.admin, "retry", "", http.StatusCreated)
	a.eventually("step 1 waits again", a.waitsAtStep(1))
	a.eventually("the pods of the step run", a.runs(versions{"v1": 6, "v2": 1}))
	a.release("v3")
	a.eventually("v3 waits at step 1", a.runs(versions{"v1": 6, "v3": 1}))
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.post(testEnv.admin, "rollback", "", http.StatusCreated)
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.awaitPods(versions{"v1": 6})
	a.checkNow(a.hasExtraDeployment(0))
	a.checkRestored(workloadTypeLabel)
}

// TestCanaryDelete deletes the Rollout during a release. The native controller completes the
// rolling update.
func TestCanaryDelete(t *testing.T) {
	t.Parallel()
	a := start(t, canaryPlan())
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	r := a.newRollout()
	r.Namespace = a.namespace
	if err := testEnv.client.Delete(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	a.eventually("the Rollout is gone", a.isGone(&v1beta1.Rollout{}, name))
	a.awaitPods(versions{"v2": 6})
	a.checkNow(a.hasExtraDeployment(0))
	a.checkRestored()
}
