// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/sizes"
)

func halfTarget(abort bool) planner.SetTarget {
	return planner.SetTarget{Target: planner.Target{Partition: intstr.FromString("50%"), Abort: abort, Owner: "b-1", Revision: planner.Revision{Name: hashV2}}}
}

// heldWithAutoscaler returns the held Deployment with an autoscaler.
func heldWithAutoscaler(t *testing.T) (*appsv1.Deployment, []object.Object) {
	t.Helper()
	d, owned := readState(t, "held")
	return d, append(owned, &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "auto"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{
			APIVersion: "apps/v1", Kind: "Deployment", Name: d.Name,
		}},
	})
}

func autoscalerTargetIn(owned []object.Object) string {
	for _, o := range owned {
		if h, ok := o.(*autoscalingv2.HorizontalPodAutoscaler); ok {
			return h.Spec.ScaleTargetRef.Name
		}
	}
	return ""
}

// TestBlueGreen checks that after SetTarget the native controller may surge by the batch and removes
// no pod, that the autoscaler is disabled, and that the owner's settings are saved. Restore undoes
// all of it.
func TestBlueGreen(t *testing.T) {
	was, _ := readState(t, "held")
	d, owned := heldWithAutoscaler(t)
	b := blueGreen{}
	d, owned = applyChanges(d, owned, b.SetTarget(d, owned, HoldFromRecords(d), halfTarget(false), owner()))

	share, none, deadline := intstr.FromString("50%"), intstr.FromInt32(0), foreverDeadline
	want := was.Spec.DeepCopy()
	want.Paused, want.MinReadySeconds, want.ProgressDeadlineSeconds = false, foreverReady, &deadline
	want.RevisionHistoryLimit = new(minHistoryLimit)
	want.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &share, MaxUnavailable: &none}
	if diff := cmp.Diff(*want, d.Spec); diff != "" {
		t.Errorf("driven (-want +got):\n%s", diff)
	}
	if o, ok := readOriginalDeployment(d, HoldFromRecords(d)); !ok || *o.MaxSurge != *was.Spec.Strategy.RollingUpdate.MaxSurge || *o.ProgressDeadlineSeconds != 600 {
		t.Errorf("kept %s", d.Annotations[rollouts.AnnotationOriginalStrategy])
	}
	if got := autoscalerTargetIn(owned); got != "web-DisableByRollout" || findSet(t, owned, "web-one").Spec.MinReadySeconds != foreverReady {
		t.Errorf("the autoscaler scales %s", got)
	}
	if !b.Observe(d, owned, HoldFromRecords(d)).TargetApplied || len(b.SetTarget(d, owned, HoldFromRecords(d), halfTarget(false), owner())) > 0 {
		t.Error("what was told is not obeyed, or told again")
	}

	d.Status.ObservedGeneration = d.Generation
	d, owned = applyChanges(d, owned, b.Restore(d, owned, HoldFromRecords(d), planner.RestoreWorkload{}))
	d, owned = applyChanges(d, owned, b.Restore(d, owned, HoldFromRecords(d), planner.RestoreWorkload{}))
	back := was.Spec.DeepCopy()
	back.Paused, back.ProgressDeadlineSeconds = false, new(int32(600))
	if diff := cmp.Diff(*back, d.Spec); diff != "" {
		t.Errorf("restored (-want +got):\n%s", diff)
	}
	if got := autoscalerTargetIn(owned); got != "web" || findSet(t, owned, "web-one").Spec.MinReadySeconds != was.Spec.MinReadySeconds || hasOurKeys(d) {
		t.Errorf("restored: the autoscaler scales %s, left are %v", got, d.Annotations)
	}
	if b.Observe(d, owned, HoldFromRecords(d)).HasManagedFields {
		t.Error("something of ours is left")
	}
}

// TestBlueGreenLostRecord checks that the defaults are restored if the saved strategy is lost or has
// Weir's own values.
func TestBlueGreenLostRecord(t *testing.T) {
	b := blueGreen{}
	for name, record := range map[string]string{
		"none":   "",
		"Weir's": `{"maxUnavailable":0,"maxSurge":"50%","minReadySeconds":2147483646,"progressDeadlineSeconds":2147483647}`,
	} {
		for _, told := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, told again %t", name, told), func(t *testing.T) {
				d, owned := heldWithAutoscaler(t)
				d, owned = applyChanges(d, owned, b.SetTarget(d, owned, HoldFromRecords(d), halfTarget(false), owner()))
				d.Annotations = withoutKeys(d.Annotations, rollouts.AnnotationOriginalStrategy)
				if record != "" {
					setAnnotation(d, rollouts.AnnotationOriginalStrategy, record)
				}
				if told {
					b.Hold(d, "web", hasHoldMark(d))
					d, owned = applyChanges(d, owned, b.SetTarget(d, owned, HoldFromRecords(d), halfTarget(false), owner()))
				}
				d.Status.ObservedGeneration = d.Generation
				d, owned = applyChanges(d, owned, b.Restore(d, owned, HoldFromRecords(d), planner.RestoreWorkload{}))
				quarter := intstr.FromString("25%")
				want := appsv1.DeploymentStrategy{
					Type:          appsv1.RollingUpdateDeploymentStrategyType,
					RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &quarter, MaxUnavailable: &quarter},
				}
				if diff := cmp.Diff(want, d.Spec.Strategy); diff != "" {
					t.Errorf("strategy (-want +got):\n%s", diff)
				}
				if d.Spec.MinReadySeconds != 0 || *d.Spec.ProgressDeadlineSeconds != nativeDeadline {
					t.Errorf("minReadySeconds %d, progressDeadlineSeconds %d; want the defaults", d.Spec.MinReadySeconds, *d.Spec.ProgressDeadlineSeconds)
				}
				if got := findSet(t, owned, "web-one").Spec.MinReadySeconds; got != 0 {
					t.Errorf("minReadySeconds of the stable ReplicaSet is %d, want 0", got)
				}
			})
		}
	}
}

// TestBlueGreenAbort checks that an abort pauses the Deployment, lets Weir size the ReplicaSets, and
// restores minReadySeconds. The autoscaler is enabled last.
func TestBlueGreenAbort(t *testing.T) {
	d, owned := heldWithAutoscaler(t)
	was := d.DeepCopy()
	b := blueGreen{}
	d, owned = applyChanges(d, owned, b.SetTarget(d, owned, HoldFromRecords(d), halfTarget(false), owner()))
	owned = append(owned, newReplicaSet(d, owned, sizes.Scale{}, 5))
	d.Status.ObservedGeneration = d.Generation
	d, owned = applyChanges(d, owned, b.SetTarget(d, owned, HoldFromRecords(d), halfTarget(true), owner()))
	if got := findSet(t, owned, "web-one").Spec.MinReadySeconds; got != foreverReady || b.Observe(d, owned, HoldFromRecords(d)).TargetApplied {
		t.Errorf("pods of stable have to be ready for %d s before the pause is seen", got)
	}
	d.Status.ObservedGeneration = d.Generation
	d, owned = applyChanges(d, owned, b.SetTarget(d, owned, HoldFromRecords(d), halfTarget(true), owner()))

	want := was.Spec.DeepCopy()
	want.Paused, want.RevisionHistoryLimit, want.ProgressDeadlineSeconds = true, new(minHistoryLimit), new(int32(600))
	want.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	if diff := cmp.Diff(*want, d.Spec); diff != "" {
		t.Errorf("driven back (-want +got):\n%s", diff)
	}
	if got := findSet(t, owned, "web-one").Spec.MinReadySeconds; got != was.Spec.MinReadySeconds {
		t.Errorf("pods of stable have to be ready for %d s", got)
	}
	s, sized := deployment{}.ScalingFacts(d, owned, HoldFromRecords(d))
	if !sized || !s.Abort || s.OwnerStrategyActive || s.Surge != 2 || s.Unavailable != 1 {
		t.Errorf("sizes are decided by %+v, %t", s, sized)
	}
	if again := b.SetTarget(d, owned, HoldFromRecords(d), halfTarget(true), owner()); len(again) > 0 {
		t.Errorf("told again: %v", again)
	}

	if early := b.SetTarget(d, owned, HoldFromRecords(d), halfTarget(false), owner()); len(early) > 0 {
		t.Errorf("tried again while new pods are there: %v", early)
	}

	findRevisions(d, owned, HoldFromRecords(d)).update.Spec.Replicas = new(int32(0))
	d, owned = applyChanges(d, owned, b.RestoreStrategy(d, owned, HoldFromRecords(d)))
	want.Strategy = was.Spec.Strategy
	if diff := cmp.Diff(*want, d.Spec); diff != "" {
		t.Errorf("at rest (-want +got):\n%s", diff)
	}
	if got := autoscalerTargetIn(owned); got != "web" || !b.Observe(d, owned, HoldFromRecords(d)).TargetApplied {
		t.Errorf("at rest: the autoscaler scales %s, obeyed %t", got, b.Observe(d, owned, HoldFromRecords(d)).TargetApplied)
	}
}

// TestBlueGreenPreserveHold checks that the release does not change when the owner applies other settings,
// that a new template stops it, and that the applied settings are restored in the end.
func TestBlueGreenPreserveHold(t *testing.T) {
	d, owned := heldWithAutoscaler(t)
	b := blueGreen{}
	was, _ := applyChanges(d, owned, b.SetTarget(d, owned, HoldFromRecords(d), halfTarget(false), owner()))
	next := was.DeepCopy()
	surge := intstr.FromInt32(7)
	next.Annotations = nil
	next.Spec.Paused, next.Spec.MinReadySeconds = true, 30
	next.Spec.Strategy.RollingUpdate.MaxSurge = &surge
	b.PreserveHold(was, next)
	if diff := cmp.Diff(was.Spec, next.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if o, _ := readOriginalDeployment(next, HoldFromRecords(next)); *o.MaxSurge != surge || o.MinReadySeconds != 30 {
		t.Errorf("kept %s", next.Annotations[rollouts.AnnotationOriginalStrategy])
	}
	next.Spec.Template.Spec.Containers[0].Image = "web:v9"
	b.PreserveHold(was, next)
	if !next.Spec.Paused {
		t.Error("a new template continues")
	}
}

// TestAutoscalersOfAnotherGroup checks that Weir does not change an autoscaler whose target only has the
// kind and the name of the workload.
func TestAutoscalersOfAnotherGroup(t *testing.T) {
	for _, version := range []string{"apps.example.com/v1", "v1", ""} {
		d, owned := heldWithAutoscaler(t)
		h := owned[len(owned)-1].(*autoscalingv2.HorizontalPodAutoscaler)
		h.Spec.ScaleTargetRef.APIVersion = version
		if found := findAutoscalers(d.Name, deploymentKind, owned, false); len(found) > 0 {
			t.Errorf("apiVersion %q: it is disabled", version)
		}
		h.Spec.ScaleTargetRef.Name += disabledSuffix
		if found := findAutoscalers(d.Name, deploymentKind, owned, true); len(found) > 0 {
			t.Errorf("apiVersion %q: it is enabled", version)
		}
	}
}
