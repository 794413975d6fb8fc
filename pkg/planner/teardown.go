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
	// replacedTeardown: another template supersedes. The Service stays pinned to stable,
	// since the next release begins there; the batches start anew.
	replacedTeardown = []rollouts.FinalisingStep{
		rollouts.FinalisingReleaseRouting,
		rollouts.FinalisingRouteToStable, rollouts.FinalisingReleaseWorkload,
	}
	// workloadGone: nothing to give back, only to tidy up. Nothing is gained by a grace
	// period between the route and the Service: pods behind either may have gone (tidyUp).
	workloadGone = []rollouts.FinalisingStep{
		rollouts.FinalisingReleaseRouting,
		rollouts.FinalisingRouteToStable, rollouts.FinalisingRestoreService, rollouts.FinalisingRemoveCanary,
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

// remains is what is left to do until a target is met.
type remains struct {
	// row is the target; FinalisingEnd where all are met, and empty where there were none.
	row rollouts.FinalisingStep
	// action reaches it; nil where it takes none.
	action Effect
	// waits reports whether something has to happen by itself.
	waits bool
	// settles is how long it is until every router knows of it.
	settles time.Duration
	// cause is what keeps it, in a few words.
	cause string
}

// done reports whether nothing is left to do.
func (r remains) done() bool { return r.action == nil && !r.waits && r.settles == 0 }

// targets are what the rows of the teardowns want.
var targets = map[rollouts.FinalisingStep]struct {
	// network reports whether routers have to hear of it.
	network bool
	left    func(*facts, rollouts.ReleasePlan) remains
}{
	rollouts.FinalisingReleaseRouting:  {false, unlinking}, // a TrafficRouting waits its grace period out itself
	rollouts.FinalisingResumeWorkload:  {false, restoring},
	rollouts.FinalisingReleaseWorkload: {false, removingBatch},
	rollouts.FinalisingRestoreService:  {true, unpinning},
	rollouts.FinalisingRouteToNew:      {true, routingToNew},
	rollouts.FinalisingRouteToStable:   {true, unrouting},
	rollouts.FinalisingRemoveCanary:    {true, removingCanary},
}

// remaining is what is left of a teardown: the first row whose target is not met. A row
// whose target is met already is passed over. After a change of the network its grace
// period is waited out.
func remaining(f *facts, rows []rollouts.FinalisingStep, last rollouts.ReleasePlan) remains {
	for i, row := range rows {
		target := targets[row]
		left := target.left(f, last)
		if left.done() && target.network && slices.Index(rows, f.progress().FinalisingStep) <= i {
			left.settles = owed(f)
		}
		if left.row = row; !left.done() {
			return left
		}
	}
	return remains{row: rollouts.FinalisingEnd}
}

// pursue does what is left to do.
func (d *draft) pursue(left remains) {
	if left.row != "" {
		if p := d.progress(); left.action != nil && (p.FinalisingStep != left.row || d.reissueDue()) {
			d.stamp()
		}
		d.progress().FinalisingStep = left.row
	}
	if left.action != nil {
		d.act(left.action)
	}
	if left.cause != "" {
		d.cause = left.cause
	}
	d.wakeIn(left.settles)
}

func unpinning(f *facts, _ rollouts.ReleasePlan) remains {
	if r := f.route(); r != nil && r.Pinned != "" {
		return remains{action: Unpin{}}
	}
	return remains{}
}

// routingToNew is told once: the Service selects all pods before any goes, whoever undoes
// the route.
func routingToNew(f *facts, _ rollouts.ReleasePlan) remains {
	all := Route{Weight: new(int32(100))}
	r := f.route()
	if r == nil || r.Edited && f.progress().FinalisingStep != "" || !r.strays(all) {
		return remains{}
	}
	return remains{action: RouteTo{Revision: r.Canary, Want: all}}
}

func unrouting(f *facts, _ rollouts.ReleasePlan) remains {
	if r := f.route(); r != nil && r.Routed {
		return remains{action: Unroute{}}
	}
	return remains{}
}

func removingCanary(f *facts, _ rollouts.ReleasePlan) remains {
	if r := f.route(); r != nil && r.Canary != "" {
		return remains{action: RemoveCanaryService{}}
	}
	return remains{}
}

// restoring gives the workload back through its BatchRelease, or directly when
// there is none to do it.
func restoring(f *facts, last rollouts.ReleasePlan) remains {
	wait := last.FinalizingPolicy == rollouts.WaitResume
	switch b := f.Batch; {
	case f.w == nil:
		return remains{}
	case b == nil && f.w.HasManagedFields && f.w.KeptFrom(wait, last.Abort) != "":
		return remains{waits: true}
	case b == nil && f.w.HasManagedFields:
		return remains{action: RestoreWorkload{KeepPaused: last.Abort, Wait: wait}}
	case b == nil:
		return remains{}
	case b.Terminating:
		return remains{} // it is let go of, which a later row waits for
	case BatchPlanHash(b.Plan) != BatchPlanHash(last):
		return remains{action: RunBatch{Plan: last}}
	default:
		return remains{waits: b.Phase != rollouts.PhaseCompleted}
	}
}

func removingBatch(f *facts, _ rollouts.ReleasePlan) remains {
	switch {
	case f.Batch == nil, f.Batch.Kept:
		return remains{}
	case f.Batch.Terminating:
		return remains{waits: true}
	case f.remade != nil && f.remade.ExtraNeeded != "" && !f.remade.Held:
		return remains{waits: true, cause: f.remade.ExtraNeeded}
	case extraServes(f):
		return remains{} // keep the BatchRelease: it owns the extra Deployment whose pods serve, and gets the plan of the next release
	default:
		return remains{action: ReleaseBatch{}}
	}
}

// interrupted is what is left of a release that was interrupted, as when a Rollout is
// disabled and enabled again.
func interrupted(f *facts, rows []rollouts.FinalisingStep) remains {
	if f.Batch == nil && f.route().clean() && !f.Routing.holds() && owed(f) == 0 {
		return remains{}
	}
	return remaining(f, rows, lastPlan(f, rollouts.Immediate, Revision{}, false))
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
