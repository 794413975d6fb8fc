// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
)

// weighs is a step that waits for approval.
func weighs(weight int32) v1alpha1.Step { return v1alpha1.Step{Weight: &weight} }

// lasts makes it pass by itself.
func lasts(s v1alpha1.Step, seconds int32) v1alpha1.Step {
	s.Pause = &v1alpha1.Pause{Duration: &seconds}
	return s
}

// sized says how many pods it has, where that is not the share of the traffic.
func sized(s v1alpha1.Step, replicas int32) v1alpha1.Step {
	s.Replicas = new(intstr.FromInt32(replicas))
	return s
}

// oldRollout is in the canary style, since nothing says otherwise.
func oldRollout(steps ...v1alpha1.Step) *v1alpha1.Rollout {
	return &v1alpha1.Rollout{
		ObjectMeta: metav1.ObjectMeta{Name: "rollouts-demo"},
		Spec: v1alpha1.RolloutSpec{
			ObjectRef: v1alpha1.TargetRef{WorkloadRef: &v1alpha1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: name}},
			Strategy: v1alpha1.Strategy{Canary: &v1alpha1.Release{Steps: steps, TrafficRoutings: []v1alpha1.TrafficRoutingRef{{
				Service: name, GracePeriodSeconds: new(int32(1)), Ingress: &v1alpha1.IngressRef{Name: name},
			}}}},
		},
	}
}

func oldScene(replicas int32, steps ...v1alpha1.Step) scene {
	return scene{replicas: replicas, routed: true, rollout: oldRollout(steps...)}
}

// usualSteps pass but for the first.
func usualSteps() []v1alpha1.Step {
	return []v1alpha1.Step{weighs(20), lasts(weighs(40), 1), lasts(weighs(60), 1), lasts(weighs(80), 1), lasts(weighs(100), 0)}
}

// companion is the extra Deployment.
func (c *outsider) companion() *appsv1.Deployment {
	c.t.Helper()
	var list appsv1.DeploymentList
	err := here.client.List(c.t.Context(), &list, client.InNamespace(c.namespace), client.MatchingLabels{"rollouts.kruise.io/canary-deployment": name})
	if err != nil {
		c.t.Fatal(err)
	}
	list.Items = slices.DeleteFunc(list.Items, func(d appsv1.Deployment) bool { return d.DeletionTimestamp != nil })
	if len(list.Items) != 1 {
		c.t.Fatalf("there are %d extra Deployments", len(list.Items))
	}
	return &list.Items[0]
}

// beside wants so many ready pods of a version beside the Deployment, which is
// as it was, and returns the revision of either.
func (c *outsider) beside(version string, pods int32) (stable, hash string) {
	c.t.Helper()
	d := c.companion()
	if *d.Spec.Replicas != pods || d.Status.ReadyReplicas != pods || d.Status.AvailableReplicas != pods || versionOf(&d.Spec.Template.Spec) != version {
		c.t.Errorf("of %d extra pods of %s %d are ready, want %d of %s",
			*d.Spec.Replicas, versionOf(&d.Spec.Template.Spec), d.Status.ReadyReplicas, pods, version)
	}
	c.until("it holds still", c.holdsStill)
	if at := c.looks().at(); at.Canary != pods || at.CanaryReady != pods {
		c.t.Errorf("the Rollout tells of %d/%d pods, want %d", at.CanaryReady, at.Canary, pods)
	}
	extra, own := c.active(d.Name), c.active(name)
	if len(extra) != 1 || len(own) != 1 {
		c.t.Fatalf("revisions %v and %v, want one each", own, extra)
	}
	return own[0], extra[0]
}

// extraReady wants so many extra pods to be ready.
func (c *outsider) extraReady(pods int32) func(context.Context) error {
	return func(context.Context) error {
		if s := c.companion().Status; s.ReadyReplicas != pods || s.Replicas != pods {
			return fmt.Errorf("%d of %d are ready", s.ReadyReplicas, s.Replicas)
		}
		return nil
	}
}

// twin wants the canary Service to be labelled as the Service is.
func (c *outsider) twin(ctx context.Context) error {
	var one, other corev1.Service
	if err := errors.Join(here.client.Get(ctx, c.key(name), &one), here.client.Get(ctx, c.key(extraName), &other)); err != nil {
		return err
	}
	c.same("the labels", one.Labels, other.Labels)
	c.same("the annotations", one.Annotations, other.Annotations)
	return nil
}
