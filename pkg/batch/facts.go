// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// facts are what one pass knows: what was observed, and the status as far as the pass has
// come. A function of facts answers; one of a draft changes it and returns nothing.
type facts struct {
	Observed
	// w is nil where the workload of the BatchRelease does not exist.
	w      *planner.Workload
	plan   rollouts.ReleasePlan
	status rollouts.BatchReleaseStatus
	// begins reports whether a plan is taken up, and another that it is at another batch.
	begins, another bool
}

func factsOf(o Observed) *facts {
	f := &facts{Observed: o, w: o.Workload, plan: o.Release.Spec.Plan, status: *o.Release.Status.DeepCopy()}
	if f.w != nil && (f.w.Deleted != "" || f.status.WorkloadUID != "" && f.w.UID != f.status.WorkloadUID) {
		f.w = nil // or another workload of that name
	}
	f.status.ObservedGeneration = o.Release.Generation
	f.status = bounded(f)
	if f.w != nil && f.w.ExtraUID != "" {
		f.status.ExtraUID = f.w.ExtraUID // stored before anything is done to it
	}
	return f
}

// bounded returns the status with values that the plan and the workload allow, because other
// clients can write the status. CurrentBatch must be a batch of the plan and not beyond
// BatchPartition. NoNeedUpdateReplicas (pods that are already back) is kept only while the
// workload has the stable template. After a change of the plan, BatchPartition is not applied.
func bounded(f *facts) rollouts.BatchReleaseStatus {
	s := f.status
	s.CurrentBatch = max(s.CurrentBatch, 0)
	if f.plan.BatchPartition != nil && !planChanged(f) {
		s.CurrentBatch = min(s.CurrentBatch, max(*f.plan.BatchPartition, 0), max(int32(len(f.plan.Batches))-1, 0)) //nolint:gosec // batches are few
	}
	if f.w != nil && !f.w.AtStable {
		s.NoNeedUpdateReplicas = nil
	}
	return s
}

// draft is a decision as it grows.
type draft struct {
	*facts
	actions []planner.Effect
	events  []planner.Event
}

func (d *draft) act(a planner.Effect) { d.actions = append(d.actions, a) }

func (d *draft) warn(reason, message string) {
	d.events = append(d.events, planner.Event{Warning: true, Reason: reason, Message: message})
}
