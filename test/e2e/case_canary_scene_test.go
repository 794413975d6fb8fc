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

// weightStep is a step with a traffic weight that waits for approval.
func weightStep(weight int32) v1alpha1.Step { return v1alpha1.Step{Weight: &weight} }

// withDuration makes a step pass after some seconds.
func withDuration(s v1alpha1.Step, seconds int32) v1alpha1.Step {
	s.Pause = &v1alpha1.Pause{Duration: &seconds}
	return s
}

// withReplicas sets the number of pods of a step, which is otherwise the share of the traffic.
func withReplicas(s v1alpha1.Step, replicas int32) v1alpha1.Step {
	s.Replicas = new(intstr.FromInt32(replicas))
	return s
}

// newV1alpha1Rollout is a Rollout in the canary style, which is the default of v1alpha1.
func newV1alpha1Rollout(steps ...v1alpha1.Step) *v1alpha1.Rollout {
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

func v1alpha1Scenario(replicas int32, steps ...v1alpha1.Step) scenario {
	return scenario{replicas: replicas, routed: true, rollout: newV1alpha1Rollout(steps...)}
}

// defaultV1alpha1Steps pass after some seconds, except for the first one.
func defaultV1alpha1Steps() []v1alpha1.Step {
	return []v1alpha1.Step{weightStep(20), withDuration(weightStep(40), 1), withDuration(weightStep(60), 1), withDuration(weightStep(80), 1), withDuration(weightStep(100), 0)}
}

// extraDeployment reads the extra Deployment.
func (c *kruiseClient) extraDeployment() *appsv1.Deployment {
	c.t.Helper()
	var list appsv1.DeploymentList
	err := testEnv.client.List(c.t.Context(), &list, client.InNamespace(c.namespace), client.MatchingLabels{"rollouts.kruise.io/canary-deployment": name})
	if err != nil {
		c.t.Fatal(err)
	}
	list.Items = slices.DeleteFunc(list.Items, func(d appsv1.Deployment) bool { return d.DeletionTimestamp != nil })
	if len(list.Items) != 1 {
		c.t.Fatalf("there are %d extra Deployments", len(list.Items))
	}
	return &list.Items[0]
}

// awaitExtraPods waits for ready pods of a version in the extra Deployment, checks that the
// Deployment is unchanged, and returns the revisions of both.
func (c *kruiseClient) awaitExtraPods(version string, pods int32) (stable, hash string) {
	c.t.Helper()
	d := c.extraDeployment()
	if *d.Spec.Replicas != pods || d.Status.ReadyReplicas != pods || d.Status.AvailableReplicas != pods || versionOf(&d.Spec.Template.Spec) != version {
		c.t.Errorf("of %d extra pods of %s %d are ready, want %d of %s",
			*d.Spec.Replicas, versionOf(&d.Spec.Template.Spec), d.Status.ReadyReplicas, pods, version)
	}
	c.eventually("the Deployment stays paused at the old version", c.isPausedAtOldVersion)
	if at := c.readRollout().releaseStatus(); at.Canary != pods || at.CanaryReady != pods {
		c.t.Errorf("the Rollout counts %d/%d pods, want %d", at.CanaryReady, at.Canary, pods)
	}
	extra, own := c.activeReplicaSets(d.Name), c.activeReplicaSets(name)
	if len(extra) != 1 || len(own) != 1 {
		c.t.Fatalf("revisions %v and %v, want one each", own, extra)
	}
	return own[0], extra[0]
}

// hasReadyExtraPods returns a check that the extra Deployment has this many ready pods.
func (c *kruiseClient) hasReadyExtraPods(pods int32) func(context.Context) error {
	return func(context.Context) error {
		if s := c.extraDeployment().Status; s.ReadyReplicas != pods || s.Replicas != pods {
			return fmt.Errorf("%d of %d are ready", s.ReadyReplicas, s.Replicas)
		}
		return nil
	}
}

// canaryServiceMatches returns an error unless the canary Service has the labels and annotations of
// the stable Service.
func (c *kruiseClient) canaryServiceMatches(ctx context.Context) error {
	var one, other corev1.Service
	if err := errors.Join(testEnv.client.Get(ctx, c.key(name), &one), testEnv.client.Get(ctx, c.key(extraName), &other)); err != nil {
		return err
	}
	c.checkEqual("the labels", one.Labels, other.Labels)
	c.checkEqual("the annotations", one.Annotations, other.Annotations)
	return nil
}
