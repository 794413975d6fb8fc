// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// versions counts ready pods by version.
type versions map[string]int32

// getRollout reads the Rollout.
func (a *app) getRollout(ctx context.Context) (*v1beta1.Rollout, error) {
	r := &v1beta1.Rollout{}
	return r, testEnv.client.Get(ctx, a.key(a.rollout), r)
}

func (a *app) getDeployment(ctx context.Context) (*appsv1.Deployment, error) {
	d := &appsv1.Deployment{}
	return d, testEnv.client.Get(ctx, a.key(name), d)
}

func (a *app) replicaSets(ctx context.Context) ([]appsv1.ReplicaSet, error) {
	var list appsv1.ReplicaSetList
	err := testEnv.client.List(ctx, &list, client.InNamespace(a.namespace))
	return list.Items, err
}

func (a *app) isHealthy(ctx context.Context) error {
	r, err := a.getRollout(ctx)
	if err == nil && r.Status.Phase != v1beta1.PhaseHealthy {
		err = fmt.Errorf("the Rollout is %s: %s", r.Status.Phase, r.Status.Message)
	}
	return err
}

// reason returns the reason of the condition Progressing.
func reason(r *v1beta1.Rollout) string {
	for _, c := range r.Status.Conditions {
		if c.Type == "Progressing" {
			return c.Reason
		}
	}
	return ""
}

// isAtStage returns a check that the release is at a stage of a step.
func (a *app) isAtStage(step int32, state v1beta1.StepState) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := a.getRollout(ctx)
		if err != nil {
			return err
		}
		c := r.Status.Canary
		if r.Status.Phase != v1beta1.PhaseProgressing || reason(r) != "InRolling" || c == nil || c.CurrentStepIndex != step || c.State != state {
			return fmt.Errorf("not at step %d %s: %s", step, state, describe(r))
		}
		return nil
	}
}

func describe(r *v1beta1.Rollout) string {
	s := fmt.Sprintf("%s %s %q", r.Status.Phase, reason(r), r.Status.Message)
	if c := r.Status.Canary; c != nil {
		s += fmt.Sprintf(" step %d %s %s", c.CurrentStepIndex, c.State, c.FinalisingStep)
	}
	return s
}

func (a *app) waitsAtStep(step int32) func(context.Context) error {
	return a.isAtStage(step, "StepPaused")
}

// hasProgressingReason returns a check of the reason of the condition Progressing.
func (a *app) hasProgressingReason(want string) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := a.getRollout(ctx)
		if err == nil && reason(r) != want {
			err = fmt.Errorf("not %s: %s", want, describe(r))
		}
		return err
	}
}

func (a *app) isAborted(ctx context.Context) error { return a.hasProgressingReason("Aborted")(ctx) }

func (a *app) isHeld(ctx context.Context) error {
	d, err := a.getDeployment(ctx)
	if err == nil && !d.Spec.Paused {
		err = errors.New("the Deployment is not paused")
	}
	return err
}

// runs returns a check that exactly these pods exist, that all of them are ready, and that no
// ReplicaSet is scaling.
func (a *app) runs(want versions) func(context.Context) error {
	return func(ctx context.Context) error {
		sets, err := a.replicaSets(ctx)
		if err != nil {
			return err
		}
		got := versions{}
		for i := range sets {
			rs := &sets[i]
			if *rs.Spec.Replicas == 0 && rs.Status.Replicas == 0 {
				continue
			}
			if *rs.Spec.Replicas != rs.Status.ReadyReplicas || rs.Status.Replicas != rs.Status.ReadyReplicas || rs.Status.ObservedGeneration < rs.Generation {
				return fmt.Errorf("%s of %s: %d desired, %d existing, %d ready", rs.Name, versionOf(&rs.Spec.Template.Spec),
					*rs.Spec.Replicas, rs.Status.Replicas, rs.Status.ReadyReplicas)
			}
			got[versionOf(&rs.Spec.Template.Spec)] += rs.Status.ReadyReplicas
		}
		maps.DeleteFunc(want, func(_ string, n int32) bool { return n == 0 })
		if !maps.Equal(got, want) {
			return fmt.Errorf("runs %v, want %v", got, want)
		}
		return nil
	}
}

func versionOf(spec *corev1.PodSpec) string {
	image := spec.Containers[0].Image
	return image[strings.LastIndex(image, ":")+1:]
}

// hasCanaryWeight returns a check of the weight of the canary Ingress; "" means that there is no
// canary Ingress.
func (a *app) hasCanaryWeight(want string) func(context.Context) error {
	return func(ctx context.Context) error {
		ingress := &networkingv1.Ingress{}
		err := testEnv.client.Get(ctx, a.key(name+"-canary"), ingress)
		if apierrors.IsNotFound(err) && want == "" {
			return nil
		}
		if got := ingress.Annotations["nginx.ingress.kubernetes.io/canary-weight"]; err == nil && got != want {
			err = fmt.Errorf("the canary Ingress has weight %q, want %q", got, want)
		}
		return err
	}
}

// serviceSelects returns a check that a Service selects ready pods of these versions.
func (a *app) serviceSelects(service string, want versions) func(context.Context) error {
	return func(ctx context.Context) error {
		s := &corev1.Service{}
		if err := testEnv.client.Get(ctx, a.key(service), s); err != nil {
			return err
		}
		var pods corev1.PodList
		if err := testEnv.client.List(ctx, &pods, client.InNamespace(a.namespace), client.MatchingLabels(s.Spec.Selector)); err != nil {
			return err
		}
		got := versions{}
		for i := range pods.Items {
			if ready(&pods.Items[i]) {
				got[versionOf(&pods.Items[i].Spec)]++
			}
		}
		if !maps.Equal(got, want) {
			return fmt.Errorf("Service %s selects %v, want %v", service, got, want)
		}
		return nil
	}
}

// originalObjects are the objects that Weir changes during a release, as their owner created them.
type originalObjects struct {
	deployment appsv1.Deployment
	service    corev1.Service
	ingress    networkingv1.Ingress
}

func (a *app) readOriginals() originalObjects {
	a.t.Helper()
	var o originalObjects
	objects := []client.Object{&o.deployment}
	if a.plan.withTraffic {
		objects = append(objects, &o.service, &o.ingress)
	}
	for _, object := range objects {
		if err := testEnv.client.Get(a.t.Context(), a.key(name), object); err != nil {
			a.t.Fatal(err)
		}
	}
	return o
}

// checkRestored checks that the objects of the owner are as before the release. Only the version,
// the size and, while the Rollout exists, the label by which admission finds the Deployment may
// differ.
func (a *app) checkRestored(left ...string) {
	a.t.Helper()
	was, is := a.before, a.readOriginals()
	is.deployment.Spec.Template = was.deployment.Spec.Template
	is.deployment.Spec.Replicas = was.deployment.Spec.Replicas
	labels := maps.Clone(was.deployment.Labels)
	for _, key := range left {
		labels[key] = "deployment"
	}
	a.checkEqual("the Deployment's spec", was.deployment.Spec, is.deployment.Spec)
	a.checkEqual("the Deployment's labels", labels, is.deployment.Labels)
	a.checkEqual("the Deployment's annotations", was.deployment.Annotations, is.deployment.Annotations)
	a.checkEqual("the Service", was.service.Spec, is.service.Spec)
	a.checkEqual("the Service's annotations", was.service.Annotations, is.service.Annotations)
	a.checkEqual("the Ingress", was.ingress.Spec, is.ingress.Spec)
	a.checkEqual("the Ingress' annotations", was.ingress.Annotations, is.ingress.Annotations)
	a.eventually("no objects of the release are left", a.hasNoReleaseObjects)
}

// workloadTypeLabel is the label that a Deployment has while a Rollout references it.
const workloadTypeLabel = "rollouts.kruise.io/workload-type"

func (a *app) checkEqual(what string, was, is any) {
	a.t.Helper()
	clean := cmp.FilterPath(func(p cmp.Path) bool {
		return strings.Contains(p.GoString(), `["deployment.kubernetes.io/revision"]`)
	}, cmp.Ignore())
	if diff := cmp.Diff(was, is, clean); diff != "" {
		a.t.Errorf("%s should be as before (-before +now):\n%s", what, diff)
	}
}

// hasNoReleaseObjects returns an error if objects or annotations of a release still exist.
func (a *app) hasNoReleaseObjects(ctx context.Context) error {
	for _, o := range []client.Object{&corev1.Service{}, &networkingv1.Ingress{}} {
		if err := testEnv.client.Get(ctx, a.key(name+"-canary"), o); !apierrors.IsNotFound(err) {
			return fmt.Errorf("%T %s-canary should be gone: %w", o, name, err)
		}
	}
	var batches v1beta1.BatchReleaseList
	err := testEnv.client.List(ctx, &batches, client.InNamespace(a.namespace))
	if client.IgnoreNotFound(err) != nil || len(batches.Items) > 0 { // not found where the API is no longer served
		return fmt.Errorf("%d BatchReleases are left: %w", len(batches.Items), err)
	}
	sets, err := a.replicaSets(ctx)
	for i := range sets {
		for key := range sets[i].Annotations {
			if strings.Contains(key, "kruise.io") {
				return fmt.Errorf("annotation %s is left on %s", key, sets[i].Name)
			}
		}
	}
	return err
}

// messageContains returns a check that the message of the Rollout contains these words.
func (a *app) messageContains(words ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := a.getRollout(ctx)
		if err != nil {
			return err
		}
		for _, word := range words {
			if !strings.Contains(r.Status.Message, word) {
				return fmt.Errorf("the message should contain %q: %s", word, r.Status.Message)
			}
		}
		return nil
	}
}

func (a *app) isDisabled(ctx context.Context) error {
	r, err := a.getRollout(ctx)
	if err == nil && r.Status.Phase != v1beta1.PhaseDisabled {
		err = fmt.Errorf("the Rollout is %s: %s", r.Status.Phase, r.Status.Message)
	}
	return err
}
