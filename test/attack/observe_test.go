// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/test/patience"
)

func (a *app) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: a.namespace, Name: name}
}

func (a *app) getRollout(ctx context.Context) (*v1beta1.Rollout, error) {
	r := &v1beta1.Rollout{}
	return r, testEnv.client.Get(ctx, a.key(a.name), r)
}

// liveWorkload reads the workload and its template.
func (a *app) liveWorkload(ctx context.Context) (client.Object, corev1.PodTemplateSpec, error) {
	switch a.scene.kind {
	case statefulSets:
		o := &appsv1.StatefulSet{}
		err := testEnv.client.Get(ctx, a.key(a.name), o)
		return o, o.Spec.Template, err
	case daemonSets:
		o := &appsv1.DaemonSet{}
		err := testEnv.client.Get(ctx, a.key(a.name), o)
		return o, o.Spec.Template, err
	}
	if _, custom := customKinds[a.scene.kind]; custom {
		return a.liveCustom(ctx)
	}
	o := &appsv1.Deployment{}
	err := testEnv.client.Get(ctx, a.key(a.name), o)
	return o, o.Spec.Template, err
}

func reason(r *v1beta1.Rollout) string {
	for _, c := range r.Status.Conditions {
		if c.Type == "Progressing" {
			return c.Reason
		}
	}
	return ""
}

func position(r *v1beta1.Rollout) (int32, v1beta1.StepState) {
	switch s := r.Status; {
	case s.Canary != nil:
		return s.Canary.CurrentStepIndex, s.Canary.State
	case s.BlueGreen != nil:
		return s.BlueGreen.CurrentStepIndex, s.BlueGreen.State
	}
	return 0, ""
}

func describe(r *v1beta1.Rollout) string {
	step, at := position(r)
	return fmt.Sprintf("%s %s step %d %s %q", r.Status.Phase, reason(r), step, at, r.Status.Message)
}

// isStalledFor returns a check that the Rollout is stalled for one of Weir's reasons.
func (a *app) isStalledFor(reason string) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := a.getRollout(ctx)
		if err == nil && !stalled(r, reason) {
			err = errors.New("the Rollout is " + describe(r))
		}
		return err
	}
}

func stalled(r *v1beta1.Rollout, reason string) bool {
	return slices.ContainsFunc(r.Status.Conditions, func(c v1beta1.Condition) bool {
		return c.Type == "Stalled" && c.Status == "True" && c.Reason == reason
	})
}

// isInPhase returns a check of the phase of the Rollout.
func (a *app) isInPhase(want v1beta1.Phase) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := a.getRollout(ctx)
		if err == nil && r.Status.Phase != want {
			err = errors.New("the Rollout is " + describe(r))
		}
		return err
	}
}

func (a *app) isHealthy(ctx context.Context) error { return a.isInPhase(v1beta1.PhaseHealthy)(ctx) }

func (a *app) waitsAtStep(step int32) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := a.getRollout(ctx)
		if err != nil {
			return err
		}
		if at, state := position(r); r.Status.Phase != v1beta1.PhaseProgressing || at != step || state != "StepPaused" || reason(r) != "InRolling" {
			return errors.New("the Rollout is " + describe(r))
		}
		return nil
	}
}

func (a *app) isAborted(ctx context.Context) error { return a.hasProgressingReason("Aborted")(ctx) }

// hasProgressingReason returns a check of the reason of Progressing.
func (a *app) hasProgressingReason(what string) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := a.getRollout(ctx)
		if err == nil && reason(r) != what {
			err = errors.New("the Rollout is " + describe(r))
		}
		return err
	}
}

// isIdle returns an error while something is in progress. It returns nil when the release of the
// live template waits for a user, every pod runs that template, or the workload does not replace
// pods.
func (a *app) isIdle(ctx context.Context) error {
	r, err := a.getRollout(ctx)
	if err != nil {
		return err
	}
	o, template, err := a.liveWorkload(ctx)
	if err != nil {
		return err
	}
	pods, err := a.pods(ctx)
	if err != nil {
		return err
	}
	version := versionOf(a.scene.kind, template.ObjectMeta, template.Spec)
	_, at := position(r)
	alone := len(pods) == 1 && pods[version] > 0
	switch {
	case r.Status.Phase != v1beta1.PhaseProgressing && (alone || replacesPodsManually(o) && r.Status.Phase == v1beta1.PhaseInitial):
	case reason(r) == "Aborted", reason(r) == "Paused" && !alone:
	case reason(r) == "InRolling" && at == "StepPaused" && pods[version] > 0:
	// The object that it waits for is not created.
	case r.Status.Phase == v1beta1.PhaseProgressing && strings.Contains(r.Status.Message, "does not exist"):
	default:
		return fmt.Errorf("the Rollout is %s, pods are %v and the template is of %s", describe(r), pods, version)
	}
	return nil
}

// replacesPodsManually reports whether pods are only replaced when a user deletes them.
func replacesPodsManually(o client.Object) bool {
	switch o := o.(type) {
	case *appsv1.StatefulSet:
		return o.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType
	case *appsv1.DaemonSet:
		return o.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType
	}
	return false
}

// facts are the values that an attack must not change.
type facts struct {
	rollout, sets, services, ingresses []string
}

// facts reads the current values.
func (a *app) facts() facts {
	a.t.Helper()
	var f facts
	ctx, in := a.t.Context(), client.InNamespace(a.namespace)
	r, err := a.getRollout(ctx)
	if err = client.IgnoreNotFound(err); err != nil {
		a.t.Fatal(err)
	}
	f.rollout = append(f.rollout, describe(r))
	for _, d := range r.Status.Decisions {
		f.rollout = append(f.rollout, fmt.Sprintf("decision %d: %s of step %d by %s", d.ID, d.Verb, d.Step, d.User))
	}
	for i := range r.Status.Releases {
		f.rollout = append(f.rollout, fmt.Sprintf("release %d: %s", r.Status.Releases[i].Number, r.Status.Releases[i].Outcome))
	}
	var sets appsv1.ReplicaSetList
	var services corev1.ServiceList
	var ingresses networkingv1.IngressList
	if err := errors.Join(testEnv.client.List(ctx, &sets, in), testEnv.client.List(ctx, &services, in), testEnv.client.List(ctx, &ingresses, in)); err != nil {
		a.t.Fatal(err)
	}
	for i := range sets.Items {
		f.sets = append(f.sets, fmt.Sprintf("%s: %d", sets.Items[i].Name, *sets.Items[i].Spec.Replicas))
	}
	for i := range services.Items {
		f.services = append(f.services, fmt.Sprintf("%s: %v", services.Items[i].Name, services.Items[i].Spec.Selector))
	}
	for i := range ingresses.Items {
		f.ingresses = append(f.ingresses, fmt.Sprintf("%s: %v", ingresses.Items[i].Name, ingresses.Items[i].Annotations))
	}
	return f
}

// history returns the outcomes of the releases from their RolloutHistories, for example "2
// aborted".
func (a *app) history(ctx context.Context) ([]string, error) {
	var list v1alpha1.RolloutHistoryList
	if err := testEnv.client.List(ctx, &list, client.InNamespace(a.namespace)); err != nil {
		return nil, err
	}
	var lines []string
	for i := range list.Items {
		h := &list.Items[i]
		lines = append(lines, fmt.Sprintf("%s %s", h.Labels["rollouts.kruise.io/release-number"], h.Status.Outcome))
	}
	slices.Sort(lines)
	return lines, nil
}

// logState logs the state after a failed cell, or in verbose mode.
func (a *app) logState() {
	if !a.t.Failed() && !testing.Verbose() {
		return
	}
	ctx, cancel := patience.Context(context.Background(), patience.Long)
	defer cancel()
	for _, got := range a.answers[max(0, len(a.answers)-20):] {
		a.t.Log(got)
	}
	r, err := a.getRollout(ctx)
	a.t.Logf("Rollout: %s (%v)", describe(r), err)
	o, template, err := a.liveWorkload(ctx)
	a.t.Logf("%s of %s, generation %d, labels %v, annotations %v (%v)", a.scene.kind, versionOf(a.scene.kind, template.ObjectMeta, corev1.PodSpec{
		Containers: append(template.Spec.Containers, corev1.Container{}),
	}), o.GetGeneration(), o.GetLabels(), o.GetAnnotations(), err)
	pods, err := a.pods(ctx)
	history, hErr := a.history(ctx)
	a.t.Logf("pods are %v (%v), highest counts %s; history %v (%v)", pods, err, a.monitor, history, hErr)
}
