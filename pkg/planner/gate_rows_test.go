// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// TestApprovedGates checks that an approved step waits for a gate that an approval does not open.
// The step reports the gate, and the wait does not count for the deadline. The test changes the
// table of gates, so it does not run in parallel.
func TestApprovedGates(t *testing.T) {
	noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	open := noon.Add(time.Hour)
	ready := slices.IndexFunc(stages, func(s stage) bool { return s.state == rollouts.StepReady })
	stages[ready].gates = []Gate{{"hours", func(f facts, _ *rollouts.Step) Verdict {
		if f.until(open) > 0 {
			return Verdict{Result: ResultWait, Until: open, Message: "business hours begin at 13:00"}
		}
		return passVerdict
	}}}
	defer func() { stages[ready].gates = approvedGates }()

	d := Decide(approvedStep(noon))
	if state := d.Status.Active().State; state != rollouts.StepReady || d.Wake != time.Hour {
		t.Errorf("before the hours the step is %s and wakes in %s", state, d.Wake)
	}
	if want := "Rollout is in step(1/2), and the step was approved and waits for: business hours begin at 13:00"; d.Status.Message != want {
		t.Errorf("message %q, want %q", d.Status.Message, want)
	}
	r := approvedStep(noon).Rollout
	r.Status = d.Status
	if w := WaitingFor(r); w.Text != "gates of step 1/2: business hours begin at 13:00" {
		t.Errorf("waits for %q", w.Text)
	}
	if c := d.Status.Condition(rollouts.ConditionStalled); c != nil {
		t.Errorf("stalled: %s", c.Message)
	}
	d = Decide(approvedStep(open))
	if p := d.Status.Active(); p.CurrentStepIndex != 2 {
		t.Errorf("in business hours the step is still %d %s", p.CurrentStepIndex, p.State)
	}
}

// approvedStep returns a release whose first step was approved half an hour ago.
func approvedStep(now time.Time) Input {
	long := metav1.NewTime(now.Add(-30 * time.Minute))
	r := &rollouts.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	r.Spec.WorkloadRef = &rollouts.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	r.Spec.Strategy.Canary = &rollouts.Release{Steps: []rollouts.Step{{Replicas: new(intstr.FromString("20%"))}, {Replicas: new(intstr.FromString("100%"))}}}
	r.Status.Phase = rollouts.PhaseProgressing
	r.Status.SetActivity(rollouts.ActivityInRolling, "", long)
	r.Status.SetActive(rollouts.StylePartition, &rollouts.Progress{
		CurrentStepIndex: 1, NextStepIndex: 2, State: rollouts.StepReady, StableRevision: "v1", UpdateRevision: "v2",
		PodTemplateHash: "v2", LastUpdateTime: &long, RolloutHash: PlanHashOf(r, r.Spec.Strategy.Canary),
	})
	return Input{
		Now: now, Rollout: r, Indexed: true, Listed: true,
		Workload: &Workload{
			Labelled: true, Settled: true, Replicas: 10,
			HoldFacts:     HoldFacts{Held: true, OwnerStrategyActive: true},
			RevisionFacts: RevisionFacts{PodTemplateHash: "v2", StableRevision: "v1", UpdateRevision: "v2", LiveRevision: "v2", Revisions: []string{"v1", "v2"}},
			PodFacts:      PodFacts{StableReplicas: 8, StableReadyReplicas: 8, UpdatedReplicas: 2},
		},
		Batch: &Batch{},
	}
}
