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

// remainingWork is what is left to do until a target is met.
type remainingWork struct {
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

// isDone reports whether nothing is left to do.
func (r remainingWork) isDone() bool { return r.action == nil && !r.waits && r.settles == 0 }

// targets are what the rows of the teardowns want.
var targets = map[rollouts.FinalisingStep]struct {
	// network reports whether routers have to hear of it.
	network bool
	left    func(*facts, rollouts.ReleasePlan) remainingWork
}{
	rollouts.FinalisingReleaseRouting:  {false, remainingUnlink}, // a TrafficRouting waits its grace period out itself
	rollouts.FinalisingResumeWorkload:  {false, remainingRestore},
	rollouts.FinalisingReleaseWorkload: {false, remainingBatchRelease},
	rollouts.FinalisingRestoreService:  {true, remainingUnpin},
	rollouts.FinalisingRouteToNew:      {true, remainingSwitch},
	rollouts.FinalisingRouteToStable:   {true, remainingUnroute},
	rollouts.FinalisingRemoveCanary:    {true, remainingCanaryService},
}

// remainingTeardown is what is left of a teardown: the first row whose target is not met. A row
// whose target is met already is passed over. After a change of the network its grace
// period is waited out.
func remainingTeardown(f *facts, rows []rollouts.FinalisingStep, last rollouts.ReleasePlan) remainingWork {
	for i, row := range rows {
		target := targets[row]
		left := target.left(f, last)
		if left.isDone() && target.network && slices.Index(rows, f.progress().FinalisingStep) <= i {
			left.settles = graceRemaining(f)
		}
		if left.row = row; !left.isDone() {
			return left
		}
	}
	return remainingWork{row: rollouts.FinalisingEnd}
}

// applyRemaining does what is left to do.
func (d *draft) applyRemaining(left remainingWork) {
	if left.row != "" {
		if p := d.progress(); left.action != nil && (p.FinalisingStep != left.row || d.reissueDue()) {
			d.startWait()
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

func remainingUnpin(f *facts, _ rollouts.ReleasePlan) remainingWork {
	if r := f.route(); r != nil && r.Pinned != "" {
		return remainingWork{action: UnpinService{}}
	}
	return remainingWork{}
}

// remainingSwitch is told once: the Service selects all pods before any goes, whoever undoes
// the route.
func remainingSwitch(f *facts, _ rollouts.ReleasePlan) remainingWork {
	all := Route{Weight: new(int32(100))}
	r := f.route()
	if r == nil || r.Edited && f.progress().FinalisingStep != "" || !r.differsFrom(all) {
		return remainingWork{}
	}
	return remainingWork{action: RouteTraffic{Revision: r.Canary, Want: all}}
}

func remainingUnroute(f *facts, _ rollouts.ReleasePlan) remainingWork {
	if r := f.route(); r != nil && r.Routed {
		return remainingWork{action: RemoveRoute{}}
	}
	return remainingWork{}
}

func remainingCanaryService(f *facts, _ rollouts.ReleasePlan) remainingWork {
	if r := f.route(); r != nil && r.Canary != "" {
		return remainingWork{action: RemoveCanaryService{}}
	}
	return remainingWork{}
}

// remainingRestore gives the workload back through its BatchRelease, or directly when
// there is none to do it.
func remainingRestore(f *facts, last rollouts.ReleasePlan) remainingWork {
	wait := last.FinalizingPolicy == rollouts.WaitResume
	switch b := f.Batch; {
	case f.w == nil:
		return remainingWork{}
	case b == nil && f.w.HasManagedFields && f.w.BlocksRestore(wait, last.Abort) != "":
		return remainingWork{waits: true}
	case b == nil && f.w.HasManagedFields:
		return remainingWork{action: RestoreWorkload{KeepPaused: last.Abort, Wait: wait}}
	case b == nil:
		return remainingWork{}
	case b.Terminating:
		return remainingWork{} // it is let go of, which a later row waits for
	case BatchPlanHash(b.Plan) != BatchPlanHash(last):
		return remainingWork{action: RunBatch{Plan: last}}
	default:
		return remainingWork{waits: b.Phase != rollouts.PhaseCompleted}
	}
}

func remainingBatchRelease(f *facts, _ rollouts.ReleasePlan) remainingWork {
	switch {
	case f.Batch == nil, f.Batch.KeptByOtherFinalizers:
		return remainingWork{}
	case f.Batch.Terminating:
		return remainingWork{waits: true}
	case f.remade != nil && f.remade.ExtraNeeded != "" && !f.remade.Held:
		return remainingWork{waits: true, cause: f.remade.ExtraNeeded}
	case extraPodsServe(f):
		return remainingWork{} // keep the BatchRelease: it owns the extra Deployment whose pods serve, and gets the plan of the next release
	default:
		return remainingWork{action: DeleteBatchRelease{}}
	}
}

// remainingAfterInterruption is what is left of a release that was interrupted, as when a Rollout is
// disabled and enabled again.
func remainingAfterInterruption(f *facts, rows []rollouts.FinalisingStep) remainingWork {
	if f.Batch == nil && f.route().isRestored() && !f.Routing.isInUse() && graceRemaining(f) == 0 {
		return remainingWork{}
	}
	return remainingTeardown(f, rows, restorePlan(f, rollouts.Immediate, Revision{}, false))
}

// canStillAbort reports whether a completed release has not begun to give its workload back.
func canStillAbort(style rollouts.Style, p *rollouts.Progress) bool {
	return isBefore(teardowns[style].succeeded, p)
}

// isBefore reports whether rows that end with the workload given back have not come so far.
func isBefore(rows []rollouts.FinalisingStep, p *rollouts.Progress) bool {
	return p.FinalisingStep != rollouts.FinalisingEnd &&
		slices.Index(rows, p.FinalisingStep) < slices.Index(rows, rollouts.FinalisingResumeWorkload)
}
