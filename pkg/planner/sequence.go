// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// The teardowns, as rows. In all of them the order decides whether a request
// meets a pod that can serve it. A TrafficRouting is let go of first in every
// ending: what it selects goes to one revision by name, whose pods may go next,
// and clients want to find it Healthy when the Rollout is.
var (
	// succeeded: every pod runs the update revision. The Service selects all of
	// them before routers forget the canary Service, which goes only then.
	succeeded = []rollouts.FinalisingStep{
		rollouts.FinalisingReleaseRouting,
		rollouts.FinalisingRestoreService, rollouts.FinalisingRouteToStable, rollouts.FinalisingRemoveCanary,
		rollouts.FinalisingResumeWorkload, rollouts.FinalisingReleaseWorkload,
	}
	// cancelled: the template is the stable one again. Traffic leaves the update
	// revision before its pods go, and the Service stays pinned until they
	// have, or bad pods would receive traffic.
	cancelled = []rollouts.FinalisingStep{
		rollouts.FinalisingReleaseRouting,
		rollouts.FinalisingRouteToStable, rollouts.FinalisingResumeWorkload, rollouts.FinalisingReleaseWorkload,
		rollouts.FinalisingRestoreService, rollouts.FinalisingRemoveCanary,
	}
	// switched: blue-green is complete. Both revisions are whole, so that all
	// requests can be sent to the new one before any pod goes; routers forget it
	// when there is no other.
	switched = []rollouts.FinalisingStep{
		rollouts.FinalisingReleaseRouting,
		rollouts.FinalisingRouteToNew, rollouts.FinalisingRestoreService, rollouts.FinalisingResumeWorkload,
		rollouts.FinalisingRouteToStable, rollouts.FinalisingRemoveCanary, rollouts.FinalisingReleaseWorkload,
	}
	// switchedBack: the template is the stable one again, whose pods never went.
	switchedBack = []rollouts.FinalisingStep{
		rollouts.FinalisingReleaseRouting,
		rollouts.FinalisingRouteToStable, rollouts.FinalisingResumeWorkload, rollouts.FinalisingRestoreService,
		rollouts.FinalisingRemoveCanary, rollouts.FinalisingReleaseWorkload,
	}
	// disableTeardown: the Rollout is disabled or deleted. The workload goes on natively
	// to the new revision, so the Service selects all pods first.
	disableTeardown = succeeded
	// replaced: another template supersedes. The Service stays pinned to stable,
	// since the next release begins there; the batches start anew.
	replaced = []rollouts.FinalisingStep{
		rollouts.FinalisingReleaseRouting,
		rollouts.FinalisingRouteToStable, rollouts.FinalisingReleaseWorkload,
	}
	// workloadGone: nothing to give back, only to tidy up.
	workloadGone = []rollouts.FinalisingStep{
		rollouts.FinalisingReleaseRouting,
		rollouts.FinalisingRestoreService, rollouts.FinalisingRouteToStable, rollouts.FinalisingRemoveCanary,
		rollouts.FinalisingReleaseWorkload,
	}
	// unrouted: the next step routes nothing.
	unrouted = []rollouts.FinalisingStep{
		rollouts.FinalisingRestoreService, rollouts.FinalisingRouteToStable, rollouts.FinalisingRemoveCanary,
	}
	// unpinned: the next step replaces every pod, so that a pinned Service would
	// end up selecting nothing.
	unpinned = []rollouts.FinalisingStep{rollouts.FinalisingRestoreService}
	// rerouted: after an abort only the way to stable is left.
	rerouted = []rollouts.FinalisingStep{
		rollouts.FinalisingReleaseRouting,
		rollouts.FinalisingRouteToStable, rollouts.FinalisingRemoveCanary,
	}
)

// teardowns are the ends of a release by style.
var teardowns = map[rollouts.Style]struct{ succeeded, cancelled []rollouts.FinalisingStep }{
	rollouts.StylePartition: {succeeded, cancelled},
	rollouts.StyleCanary:    {succeeded, cancelled},
	rollouts.StyleBlueGreen: {switched, switchedBack},
}

// remains is what is left to do for one row: an action, a wait, or nothing.
type remains struct {
	action Action
	wait   bool
}

// run works through the rows in their order, as far as one pass
// can go; it tells whether all are done. A row whose goal is already met is
// passed over. After a change of the network its grace period is waited out.
func (x *pass) run(rows []rollouts.FinalisingStep, last rollouts.ReleasePlan) bool {
	p := x.progress()
	for i, row := range rows {
		issued := p.FinalisingStep == row
		left := x.remaining(row, last)
		switch {
		case left.action != nil:
			if !issued || x.reissueDue() {
				x.stamp()
			}
			p.FinalisingStep = row
			x.act(left.action)
			return false
		case left.wait:
			p.FinalisingStep = row
			return false
		case changesNetwork(row) && slices.Index(rows, p.FinalisingStep) <= i && !x.told():
			p.FinalisingStep = row
			return false
		}
	}
	p.FinalisingStep = rollouts.FinalisingEnd
	return true
}

// reissueDue reports whether what was issued has not shown for a whole grace period,
// so that it is issued, and waited for, anew.
func (x *pass) reissueDue() bool {
	since := x.progress().LastUpdateTime
	return since == nil || x.Now.After(since.Add(x.grace()))
}

func changesNetwork(row rollouts.FinalisingStep) bool {
	switch row {
	case rollouts.FinalisingResumeWorkload, rollouts.FinalisingReleaseWorkload, rollouts.FinalisingReleaseRouting:
		return false // a TrafficRouting waits its grace period out itself
	default:
		return true
	}
}

func (x *pass) remaining(row rollouts.FinalisingStep, last rollouts.ReleasePlan) remains {
	switch row {
	case rollouts.FinalisingResumeWorkload:
		return x.resuming(last)
	case rollouts.FinalisingReleaseWorkload:
		return x.releasing()
	case rollouts.FinalisingReleaseRouting:
		return x.unlinking()
	}
	if x.Route == nil || row == rollouts.FinalisingRouteToNew && x.Route.Edited && x.progress().FinalisingStep != "" {
		return remains{} // told once: the Service selects all pods before any goes, whoever undoes the route
	}
	return remains{action: x.Route.reach(row)}
}

// strays reports whether routers do another route than the wanted, and can be told so.
func (r *Route) strays(want Route) bool { return r.Routed && r.able() && !r.carries(want, r.Canary) }

// reach is what brings the network to where a row wants it; nil where it is.
func (r *Route) reach(row rollouts.FinalisingStep) Action {
	all := int32(100)
	switch {
	case row == rollouts.FinalisingRestoreService && r.Pinned != "":
		return Unpin{}
	case row == rollouts.FinalisingRouteToNew && r.strays(Route{Weight: &all}):
		return RouteTo{Revision: r.Canary, Want: Route{Weight: &all}}
	case row == rollouts.FinalisingRouteToStable && r.Routed:
		return Unroute{}
	case row == rollouts.FinalisingRemoveCanary && r.Canary != "":
		return RemoveCanaryService{}
	default:
		return nil
	}
}

// resuming gives the workload back through its BatchRelease, or directly when
// there is none to do it.
func (x *pass) resuming(last rollouts.ReleasePlan) remains {
	switch b := x.Batch; {
	case x.w == nil:
		return remains{}
	case b == nil && x.w.HasManagedFields && x.w.keptFrom(last.FinalizingPolicy == rollouts.WaitResume, last.Abort) != "":
		return remains{wait: true}
	case b == nil && x.w.HasManagedFields:
		return remains{action: RestoreWorkload{KeepPaused: last.Abort, Wait: last.FinalizingPolicy == rollouts.WaitResume}}
	case b == nil:
		return remains{}
	case b.Terminating:
		return remains{} // it is let go of, which a later row waits for
	case batchPlanHash(b.Plan) != batchPlanHash(last):
		return remains{action: RunBatch{Plan: last}}
	default:
		return remains{wait: b.Phase != rollouts.PhaseCompleted}
	}
}

func (x *pass) releasing() remains {
	switch {
	case x.Batch == nil, x.Batch.Kept:
		return remains{}
	case x.Batch.Terminating:
		return remains{wait: true}
	default:
		return remains{action: ReleaseBatch{}}
	}
}

// grace is how long a change of the network takes to be seen everywhere.
func (x *pass) grace() time.Duration {
	var seconds int32
	if x.release != nil {
		for _, t := range x.release.TrafficRoutings {
			seconds = max(seconds, t.GracePeriodSeconds)
		}
	}
	return time.Duration(min(seconds, rollouts.MaxGracePeriod)) * time.Second
}

// plan is the release plan up to a step.
func (x *pass) plan(step int32) rollouts.ReleasePlan {
	partition := step - 1
	plan := rollouts.ReleasePlan{
		BatchPartition:   &partition,
		RolloutID:        x.progress().ObservedRolloutID,
		FailureThreshold: x.release.FailureThreshold,
		RollingStyle:     x.style,
		Revision:         x.revision(),
		StableRevision:   x.progress().StableRevision,
	}
	if x.style == rollouts.StyleCanary {
		plan.PodTemplateMetadata, plan.ExtraWorkload = x.release.PodTemplateMetadata, true
	}
	if s := x.release.Step(step); s != nil && x.w.Replicas == 0 {
		plan.Paused = x.guards(s)
	}
	for _, s := range x.release.Steps {
		if s.Replicas != nil {
			plan.Batches = append(plan.Batches, rollouts.Batch{CanaryReplicas: *s.Replicas})
		}
	}
	return plan
}

// lastPlan gives the workload back: while its template is of the revision, or
// whatever it is when the Rollout leaves.
func (x *pass) lastPlan(policy rollouts.FinalizingPolicy, revision string, keepPaused bool) rollouts.ReleasePlan {
	plan := rollouts.ReleasePlan{RollingStyle: x.style, RolloutID: x.progress().ObservedRolloutID}
	if x.Batch != nil {
		plan = x.Batch.Plan
	}
	plan.BatchPartition, plan.FinalizingPolicy, plan.Revision, plan.Abort = nil, policy, revision, keepPaused
	plan.StableRevision = x.progress().StableRevision
	return plan
}

// abortable reports whether a completed release has not begun to give its workload back.
func abortable(style rollouts.Style, p *rollouts.Progress) bool {
	return before(teardowns[style].succeeded, p)
}

// before reports whether rows that end with the workload given back have not come so far.
func before(rows []rollouts.FinalisingStep, p *rollouts.Progress) bool {
	return p.FinalisingStep != rollouts.FinalisingEnd &&
		slices.Index(rows, p.FinalisingStep) < slices.Index(rows, rollouts.FinalisingResumeWorkload)
}
