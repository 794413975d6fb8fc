// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/sizes"
)

var now = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// releaseAtStep returns a release at a step. Its BatchRelease has the plan of the step "planned",
// its target is "told" pods, and "ready" of ten pods are new and ready.
func releaseAtStep(state rollouts.StepState, step, planned, told, ready int32) planner.Input {
	steps := []rollouts.Step{{Replicas: new(intstr.FromInt32(2))}, {Replicas: new(intstr.FromInt32(5))}}
	r := &rollouts.Rollout{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "rollout", Annotations: map[string]string{rollouts.AnnotationHash: "plan"}}}
	r.Spec.WorkloadRef = &rollouts.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	r.Spec.Strategy.Canary = &rollouts.Release{Steps: steps}
	r.Status.Phase = rollouts.PhaseProgressing
	r.Status.SetActive(rollouts.StylePartition, &rollouts.Progress{
		StableRevision: "v1", UpdateRevision: "v2", PodTemplateHash: "v2", ObservedRolloutID: "v2", RolloutHash: "plan",
		CurrentStepIndex: step, NextStepIndex: 2, State: state,
	})
	r.Status.SetActivity(rollouts.ActivityInRolling, "", metav1.NewTime(now))

	b := &rollouts.BatchRelease{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "batch", Generation: 1}}
	b.OwnerReferences = []metav1.OwnerReference{{Kind: "Rollout", Name: "web", UID: r.UID, Controller: new(true)}}
	b.Spec.WorkloadRef = r.Spec.WorkloadRef
	b.Spec.Plan = rollouts.ReleasePlan{
		Batches: []rollouts.Batch{{CanaryReplicas: *steps[0].Replicas}, {CanaryReplicas: *steps[1].Replicas}}, BatchPartition: new(planned - 1),
		RolloutID: "v2", RollingStyle: rollouts.StylePartition, Revision: "v2", StableRevision: "v1",
	}
	b.Status = rollouts.BatchReleaseStatus{
		Phase: rollouts.PhaseProgressing, BatchState: rollouts.BatchUpgrading, CurrentBatch: planned - 1, ObservedGeneration: 1,
		ObservedReleasePlanHash: planner.BatchPlanHash(b.Spec.Plan), ObservedRolloutID: "v2", ObservedWorkloadReplicas: 10,
		StableRevision: "v1", UpdateRevision: "v2", Drive: &rollouts.Drive{Partition: intstr.FromInt32(told), KeepOne: true, Revision: "v2"},
	}
	w := &planner.Workload{
		Settled: true, Labelled: true, Paused: true, Replicas: 10,
		HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true, Target: &planner.Target{Partition: intstr.FromInt32(told), KeepOne: true, Owner: "batch", Revision: planner.Revision{Name: "v2"}}, TargetApplied: true},
		RevisionFacts: planner.RevisionFacts{StableRevision: "v1", UpdateRevision: "v2", Revisions: []string{"v1", "v2"}, PodTemplateHash: "v2", LiveRevision: "v2"},
		PodFacts:      planner.PodFacts{UpdatedReplicas: ready, UpdatedReadyReplicas: ready, StableReplicas: 10 - ready, StableReadyReplicas: 10 - ready},
	}
	return planner.Input{
		Now: now, Rollout: r, Workload: w, Indexed: true,
		BatchInput: &planner.BatchInput{Now: now, Release: b, OwnedByRollout: true, RolloutExists: true, Labels: planner.LabelNamed, Workload: w},
	}
}

// TestOrderOfWrites checks the order of writes: which actions run before the status of the Rollout is
// stored, and which run after it.
func TestOrderOfWrites(t *testing.T) {
	t.Parallel()
	edit := func(o planner.Input, with func(*planner.Input)) planner.Input {
		with(&o)
		return o
	}
	for name, tc := range map[string]struct {
		o     planner.Input
		first string
		then  string
		state rollouts.StepState
	}{
		"pods of the batch are starting": {o: releaseAtStep(rollouts.StepUpgrade, 1, 1, 2, 1), state: rollouts.StepUpgrade},
		"the batch is ready": {
			o: releaseAtStep(rollouts.StepUpgrade, 1, 1, 2, 2), first: "store batch status", state: rollouts.StepPaused,
		},
		"the next batch begins with its target": {
			o:    edit(releaseAtStep(rollouts.StepUpgrade, 2, 1, 2, 2), func(o *planner.Input) { o.BatchInput.Release.Status.BatchState = rollouts.BatchReady }),
			then: "batch 1: 5, set target of workload: 5", state: rollouts.StepUpgrade,
		},
		"the next batch waits until clients could observe the ready batch": {
			o: releaseAtStep(rollouts.StepUpgrade, 2, 1, 2, 2), first: "store batch status", state: rollouts.StepUpgrade,
		},
		"an abort does not wait until clients observe the ready batch": {
			o: edit(releaseAtStep(rollouts.StepUpgrade, 1, 1, 2, 2), func(o *planner.Input) {
				o.Rollout.Status.SetActivity(rollouts.ActivityAborting, "", metav1.NewTime(now))
			}),
			then: "batch: bring stable pods back, return workload to stable, keeping 0", state: rollouts.StepUpgrade,
		},
		"a new batch is not reported before it has a UID": {
			o:    edit(releaseAtStep(rollouts.StepUpgrade, 1, 1, 2, 0), func(o *planner.Input) { o.BatchInput.Release = nil }),
			then: "batch 0: 2", state: rollouts.StepUpgrade,
		},
		"the next pass applies a plan that changes the evaluation of the workload": {
			o: edit(releaseAtStep(rollouts.StepUpgrade, 2, 1, 2, 2), func(o *planner.Input) {
				o.BatchInput.Release.Status.BatchState = rollouts.BatchReady
				o.BatchInput.Release.Spec.Plan.StableRevision = "v0"
				o.BatchInput.Release.Status.ObservedReleasePlanHash = planner.BatchPlanHash(o.BatchInput.Release.Spec.Plan)
			}),
			then: "batch 1: 5", state: rollouts.StepUpgrade,
		},
		"a workload that cannot be read": {
			o:    edit(releaseAtStep(rollouts.StepUpgrade, 2, 1, 2, 2), func(o *planner.Input) { o.BatchInput = nil }),
			then: "batch 1: 5", state: rollouts.StepUpgrade,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := planner.Decide(tc.o)
			if diff := cmp.Diff([]string{tc.first, tc.then}, []string{describeEffects(d, planner.BeforeStatus), describeEffects(d, planner.AfterStatus)}); diff != "" {
				t.Errorf("first and then (-want +got):\n%s\n%s", diff, d)
			}
			if state := d.Status.Active().State; state != tc.state {
				t.Errorf("step is %s, want %s\n%s", state, tc.state, d)
			}
		})
	}
}

// describeEffects returns the effects that a decision carries out before or after the status is
// stored.
func describeEffects(d planner.Decision, when planner.When) string {
	var out []string
	for _, a := range planner.ActionsAt(when, d.Actions) {
		out = append(out, a.Effect.String())
	}
	return strings.Join(out, ", ")
}

// fakeSets are two ReplicaSets. Their sizes are decided by the target in the hold state.
type fakeSets struct{ update, stable sizes.Set }

// Sizing implements planner.ReplicaSetScaler.
func (s fakeSets) Sizing(k planner.HoldState) (sizes.Scaling, bool) {
	return sizes.Scaling{Replicas: 10, Surge: 10, Target: k.Target.Limit(10), Update: &s.update, Stable: &s.stable}, true
}

// TestSizes checks that sizes follow the plan that is stored when they are written. If the same
// decision starts a batch, its plan counts. Sizes are not written if the workload is about to
// change or if a later pass starts the batch.
func TestSizes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		step, ready int32
		with        func(*planner.Input)
		then        string
		follow      string
	}{
		"a batch in progress": {step: 1, ready: 1, follow: "scale ReplicaSets: bring update up"},
		"the next batch": {
			step: 2, ready: 2, with: func(o *planner.Input) { o.BatchInput.Release.Status.BatchState = rollouts.BatchReady },
			then: "batch 1: 5, set target of workload: 5, scale ReplicaSets: bring update up",
		},
		"a new batch":              {step: 1, with: func(o *planner.Input) { o.BatchInput.Release = nil }, then: "batch 0: 2"},
		"sizes of another Rollout": {step: 1, ready: 1, with: func(o *planner.Input) { o.ReplicaSets = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := releaseAtStep(rollouts.StepUpgrade, tc.step, 1, 2, tc.ready)
			o.ReplicaSets = fakeSets{sizes.Set{Name: "two", Replicas: tc.ready, Available: tc.ready, Ready: tc.ready}, sizes.Set{Name: "one", Replicas: 8, Available: 8, Ready: 8}}
			if tc.with != nil {
				tc.with(&o)
			}
			d := planner.Decide(o)
			if diff := cmp.Diff([]string{tc.then, tc.follow}, []string{describeEffects(d, planner.AfterStatus), describeEffects(d, planner.FromStored)}); diff != "" {
				t.Errorf("then and what follows (-want +got):\n%s\n%s", diff, d)
			}
		})
	}
}
