// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// patience is for one wait; none should take a quarter of it.
const patience = time.Minute

// fail ends the story; only the first failure counts.
func (s *story) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format, args...)
	}
}

func (s *story) expect(ok bool, format string, args ...any) {
	if !ok {
		s.fail(format, args...)
	}
}

// until waits, and says what for. ask tells what is not yet so.
func (s *story) until(ctx context.Context, what string, ask func(context.Context) error) {
	if s.err != nil {
		return
	}
	began := time.Now()
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		last = ask(ctx)
		return last == nil, nil
	})
	if err != nil {
		s.fail("waiting until %s: %w; last seen: %w", what, err, last)
		return
	}
	s.out.note("%s, after %.1f s", what, time.Since(began).Seconds())
}

// sees checks what was shown, against what is stored.
func (s *story) sees(ctx context.Context, ask func(context.Context) error) {
	if s.err != nil {
		return
	}
	if err := ask(ctx); err != nil {
		s.fail("what was shown is not what was promised: %w", err)
	}
}

// The questions.

func (s *story) rollout(ctx context.Context) (*v1beta1.Rollout, error) {
	r := &v1beta1.Rollout{}
	return r, s.client.Get(ctx, key(rolloutName), r)
}

func (s *story) healthy(ctx context.Context) error {
	r, err := s.rollout(ctx)
	if err == nil && r.Status.Phase != v1beta1.PhaseHealthy {
		err = fmt.Errorf("the Rollout is %s: %s", r.Status.Phase, r.Status.Message)
	}
	return err
}

// doing wants the release to be in a state, by the reason of its condition.
func (s *story) doing(ctx context.Context, reason string) (*v1beta1.Rollout, error) {
	r, err := s.rollout(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range r.Status.Conditions {
		if c.Type == "Progressing" && c.Reason == reason {
			return r, nil
		}
	}
	return nil, fmt.Errorf("the Rollout is not %s: %s", reason, r.Status.Message)
}

func (s *story) waitsAt(step int32) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := s.doing(ctx, "InRolling")
		if err != nil {
			return err
		}
		if c := r.Status.Canary; c == nil || c.CurrentStepIndex != step || c.State != "StepPaused" {
			return fmt.Errorf("step %d does not wait for approval: %s", step, r.Status.Message)
		}
		return nil
	}
}

func (s *story) aborted(ctx context.Context) error {
	_, err := s.doing(ctx, "Aborted")
	return err
}

func (s *story) held(ctx context.Context) error {
	d := &appsv1.Deployment{}
	err := s.client.Get(ctx, key(appName), d)
	if err == nil && !d.Spec.Paused {
		err = errors.New("the Deployment is not paused")
	}
	return err
}

// pods wants so many ready pods of the version, and so many of all others.
func (s *story) pods(version string, want, others int32) func(context.Context) error {
	return func(ctx context.Context) error {
		var list appsv1.ReplicaSetList
		if err := s.client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return err
		}
		ready := map[bool]int32{}
		for i := range list.Items {
			rs := &list.Items[i]
			if rs.Status.Replicas != *rs.Spec.Replicas {
				return fmt.Errorf("%s has %d of %d pods", rs.Name, rs.Status.Replicas, *rs.Spec.Replicas)
			}
			ready[rs.Spec.Template.Spec.Containers[0].Env[0].Value == version] += rs.Status.ReadyReplicas
		}
		if ready[true] != want || ready[false] != others {
			return fmt.Errorf("%d ready pods of %s and %d others, want %d and %d", ready[true], version, ready[false], want, others)
		}
		return nil
	}
}

// weight wants the canary Ingress to have a weight; an empty one means no canary Ingress.
func (s *story) weight(want string) func(context.Context) error {
	return func(ctx context.Context) error {
		ingress := &networkingv1.Ingress{}
		err := s.client.Get(ctx, key(appName+"-canary"), ingress)
		if apierrors.IsNotFound(err) && want == "" {
			return nil
		}
		if got := ingress.Annotations["nginx.ingress.kubernetes.io/canary-weight"]; err == nil && got != want {
			err = fmt.Errorf("the canary Ingress has weight %q, want %q", got, want)
		}
		return err
	}
}

// served wants the Service to select pods of the version, and none of another.
func (s *story) served(version string) func(context.Context) error {
	return func(ctx context.Context) error {
		service := &corev1.Service{}
		if err := s.client.Get(ctx, key(appName), service); err != nil {
			return err
		}
		var list corev1.PodList
		if err := s.client.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels(service.Spec.Selector)); err != nil {
			return err
		}
		for i := range list.Items {
			if got := list.Items[i].Spec.Containers[0].Env[0].Value; got != version {
				return fmt.Errorf("the Service selects a pod of %s", got)
			}
		}
		if len(list.Items) == 0 {
			return errors.New("the Service selects no pod")
		}
		return nil
	}
}

// world is what Weir touches of the application.
type world struct {
	deployment appsv1.Deployment
	service    corev1.Service
	ingress    networkingv1.Ingress
}

func (s *story) remember(ctx context.Context) world {
	var w world
	for _, o := range []client.Object{&w.deployment, &w.service, &w.ingress} {
		if err := s.client.Get(ctx, key(appName), o); err != nil {
			s.fail("reading the application: %w", err)
		}
	}
	return w
}

// unrouted wants the Service and the Ingress as they were, and nothing beside them.
func (s *story) unrouted(ctx context.Context) error {
	was, is := s.before, s.remember(ctx)
	if !equality.Semantic.DeepEqual(is.service.Spec, was.service.Spec) || traces(is.service.Annotations) || traces(is.service.Labels) {
		return errors.New("the Service is not what it was")
	}
	if !equality.Semantic.DeepEqual(is.ingress.Spec, was.ingress.Spec) || !maps.Equal(is.ingress.Annotations, was.ingress.Annotations) {
		return errors.New("the Ingress is not what it was")
	}
	if err := s.client.Get(ctx, key(appName+"-canary"), &corev1.Service{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("the canary Service should be gone: %w", err)
	}
	return s.weight("")(ctx)
}

// traceless wants the application as it was before Weir, but for its version
// and the label by which admission sees it.
func (s *story) traceless(ctx context.Context) error {
	was, is := s.before.deployment, s.remember(ctx).deployment
	is.Spec.Template = was.Spec.Template
	labels := maps.Clone(was.Labels)
	labels["rollouts.kruise.io/workload-type"] = "deployment"
	if !equality.Semantic.DeepEqual(is.Spec, was.Spec) {
		return errors.New("the Deployment's spec is not what it was")
	}
	if !maps.Equal(is.Labels, labels) || traces(is.Annotations) {
		return fmt.Errorf("something of Weir stayed on the Deployment: %v %v", is.Labels, is.Annotations)
	}
	return s.unrouted(ctx)
}

func traces(m map[string]string) bool {
	for k := range m {
		if strings.Contains(k, "kruise.io") {
			return true
		}
	}
	return false
}

func key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: name}
}
