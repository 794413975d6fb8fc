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

// beside is a plan in the canary style, with an extra Deployment.
func beside() plan {
	p := usual()
	p.steps = []v1beta1.Step{with(manual("1"), "20%"), with(manual("50%"), "50%")}
	p.change = func(r *v1beta1.Rollout) {
		r.Spec.Strategy.Canary.EnableExtraWorkloadForCanary = new(true)
		r.Spec.Strategy.Canary.PatchPodTemplateMetadata = &v1beta1.PodTemplateMetadata{Labels: map[string]string{"track": "canary"}}
	}
	return p
}

// extra wants an extra Deployment of so many pods, or none at all.
func (a *app) extra(want int32) func(context.Context) error {
	return func(ctx context.Context) error {
		var list appsv1.DeploymentList
		if err := here.client.List(ctx, &list, client.InNamespace(a.namespace), client.MatchingLabels{"rollouts.kruise.io/canary-deployment": name}); err != nil {
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

// A canary release: an extra Deployment takes its share while the Deployment
// stays as it is, follows its size upwards, and goes when the native controller
// has rolled the Deployment.
func TestCanary(t *testing.T) {
	t.Parallel()
	a := start(t, beside())
	a.release("v2")
	a.until("step 1 waits", a.waitsAt(1))
	a.until("its pods are there", a.runs(versions{"v1": 6, "v2": 1}))
	a.sees(a.extra(1))
	a.sees(a.weight("20"))
	a.sees(a.serves(name, versions{"v1": 6}))
	a.sees(a.serves(name+"-canary", versions{"v2": 1}))
	a.promote(1)
	a.until("step 2 waits", a.waitsAt(2))
	a.until("its pods are there", a.runs(versions{"v1": 6, "v2": 3}))
	a.scale(8)
	a.until("the extra one follows", a.extra(4))
	a.until("all pods are there", a.runs(versions{"v1": 8, "v2": 4}))
	a.guard.atLeast(7)
	a.promote(2)
	a.until("the Rollout is Healthy", a.healthy)
	a.sees(a.extra(0))
	a.settled(versions{"v2": 8})
	a.traceless(workloadType)
}

// An abort takes the traffic back and then the extra pods; a retry brings them
// again; a rollback leaves nothing behind.
func TestCanaryAbort(t *testing.T) {
	t.Parallel()
	a := start(t, beside())
	a.release("v2")
	a.until("step 1 waits", a.waitsAt(1))
	a.abort()
	a.isBack("v1")
	a.post(here.admin, "retry", "", http.StatusCreated)
	a.until("step 1 waits again", a.waitsAt(1))
	a.until("its pods are there", a.runs(versions{"v1": 6, "v2": 1}))
	a.release("v3")
	a.until("v3 waits at step 1", a.runs(versions{"v1": 6, "v3": 1}))
	a.until("step 1 waits", a.waitsAt(1))
	a.post(here.admin, "rollback", "", http.StatusCreated)
	a.until("the Rollout is Healthy", a.healthy)
	a.settled(versions{"v1": 6})
	a.sees(a.extra(0))
	a.traceless(workloadType)
}

// Deleted in the middle, the native controller takes the version to the end.
func TestCanaryDelete(t *testing.T) {
	t.Parallel()
	a := start(t, beside())
	a.release("v2")
	a.until("step 1 waits", a.waitsAt(1))
	r := a.newRollout()
	r.Namespace = a.namespace
	if err := here.client.Delete(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	a.until("the Rollout is gone", a.gone(&v1beta1.Rollout{}, name))
	a.settled(versions{"v2": 6})
	a.sees(a.extra(0))
	a.traceless()
}
