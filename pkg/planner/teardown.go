// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// The teardowns: ordered lists of rows, each of which is one change. The order matters: at every point,
// each request must reach a ready pod. Every list except unrouted and unpinned, which are not the end of a
// release, unlinks the TrafficRouting first: it sends requests to one revision by name, whose pods may go
// next, and clients expect the TrafficRouting to be Healthy when the Rollout is.
var (
	// succeeded: the release is complete. Stable pods still run in the canary style, and after a last step
	// below 100%. The Service selects all pods before the route to the canary Service is removed. Then the
	// canary Service is deleted, and the native controller replaces the pods that are left.
	succeeded = []rollouts.FinalisingStep{
		rollouts.FinalisingUnlinkRouting,
		rollouts.FinalisingUnpinService, rollouts.FinalisingRemoveRoute, rollouts.FinalisingRemoveCanary,
		rollouts.FinalisingRestoreWorkload, rollouts.FinalisingDeleteBatch,
	}
	// cancelled: the template is the stable one again. Traffic leaves the update revision before its pods
	// go, and the Service stays pinned until they are gone: otherwise bad pods would receive traffic.
	cancelled = []rollouts.FinalisingStep{
		rollouts.FinalisingUnlinkRouting,
		rollouts.FinalisingRemoveRoute, rollouts.FinalisingRestoreWorkload, rollouts.FinalisingDeleteBatch,
		rollouts.FinalisingUnpinService, rollouts.FinalisingRemoveCanary,
	}
	// switched: a blue-green release is complete. Both revisions have all their pods, so that all requests
	// are sent to the new one before any pod goes. The route is removed when the old pods are gone.
	switched = []rollouts.FinalisingStep{
		rollouts.FinalisingUnlinkRouting,
		rollouts.FinalisingRouteToNew, rollouts.FinalisingUnpinService, rollouts.FinalisingRestoreWorkload,
		rollouts.FinalisingRemoveRoute, rollouts.FinalisingRemoveCanary, rollouts.FinalisingDeleteBatch,
	}
	// switchedBack: the template of a blue-green release is the stable one again, whose pods still run.
	switchedBack = []rollouts.FinalisingStep{
		rollouts.FinalisingUnlinkRouting,
		rollouts.FinalisingRemoveRoute, rollouts.FinalisingRestoreWorkload, rollouts.FinalisingUnpinService,
		rollouts.FinalisingRemoveCanary, rollouts.FinalisingDeleteBatch,
	}
	// disableTeardown: the Rollout is disabled or deleted. The native controller continues to the new
	// revision, so the Service selects all pods first.
	disableTeardown = succeeded
	// replacedTeardown: another template supersedes the release. The Service stays pinned to the stable
	// revision, because the next release starts from it, with a new BatchRelease.
	replacedTeardown = []rollouts.FinalisingStep{
		rollouts.FinalisingUnlinkRouting,
		rollouts.FinalisingRemoveRoute, rollouts.FinalisingDeleteBatch,
	}
	// workloadGone: the workload was deleted, so that only Services and routes are restored. A grace period
	// between the route and the Service would gain nothing: the pods behind both may be gone.
	workloadGone = []rollouts.FinalisingStep{
		rollouts.FinalisingUnlinkRouting,
		rollouts.FinalisingRemoveRoute, rollouts.FinalisingUnpinService, rollouts.FinalisingRemoveCanary,
		rollouts.FinalisingDeleteBatch,
	}
	// unrouted: the next step has no traffic.
	unrouted = []rollouts.FinalisingStep{
		rollouts.FinalisingUnpinService, rollouts.FinalisingRemoveRoute, rollouts.FinalisingRemoveCanary,
	}
	// unpinned: the next step replaces all pods, so that a pinned Service would select no pod in the end.
	unpinned = []rollouts.FinalisingStep{rollouts.FinalisingUnpinService}
	// rerouted: after an abort, all requests go to the stable revision.
	rerouted = []rollouts.FinalisingStep{
		rollouts.FinalisingUnlinkRouting,
		rollouts.FinalisingRemoveRoute, rollouts.FinalisingRemoveCanary,
	}
)

// teardowns are the teardowns of a completed and of a cancelled release by style.
var teardowns = map[rollouts.Style]struct{ succeeded, cancelled []rollouts.FinalisingStep }{
	rollouts.StylePartition: {succeeded, cancelled},
	rollouts.StyleCanary:    {succeeded, cancelled},
	rollouts.StyleBlueGreen: {switched, switchedBack},
}

// remainingWork is what is left to do until a target is met, which is a row of a teardown or a target of a
// stage.
type remainingWork struct {
	// row is the first row of the teardown that is not met. It is FinalisingEnd if all rows are met, and
	// empty if the target is not a row.
	row rollouts.FinalisingStep
	// action is the next effect; nil if no effect is needed.
	action Effect
	// waits reports whether something else must happen first, for example pods become ready.
	waits bool
	// settles is the time until every router knows the last change.
	settles time.Duration
	// cause says in a few words what delays the target; empty if nothing does.
	cause string
}

// isDone reports whether nothing is left to do.
func (r remainingWork) isDone() bool { return r.action == nil && !r.waits && r.settles == 0 }

// teardownRows says for each row of the teardowns what is left to do.
var teardownRows = map[rollouts.FinalisingStep]struct {
	// network reports whether routers must learn of the change, so that its grace period is waited out.
	network bool
	check   func(facts, rollouts.ReleasePlan) remainingWork
}{
	rollouts.FinalisingUnlinkRouting:   {false, remainingUnlink}, // a TrafficRouting has a grace period of its own
	rollouts.FinalisingRestoreWorkload: {false, remainingRestore},
	rollouts.FinalisingDeleteBatch:     {false, remainingBatchRelease},
	rollouts.FinalisingUnpinService:    {true, remainingUnpin},
	rollouts.FinalisingRouteToNew:      {true, remainingSwitch},
	rollouts.FinalisingRemoveRoute:     {true, remainingUnroute},
	rollouts.FinalisingRemoveCanary:    {true, remainingCanaryService},
}

// remainingTeardown returns what is left to do for the first row of a teardown that is not met. After a change
// of the network it waits until the grace period is over.
func remainingTeardown(f facts, rows []rollouts.FinalisingStep, last rollouts.ReleasePlan) remainingWork {
	for i, row := range rows {
		check := teardownRows[row]
		left := check.check(f, last)
		// A stored step that is not in rows belongs to another teardown, so it has passed no row of this one.
		passed := slices.Index(rows, f.progress().FinalisingStep) > i
		if left.isDone() && check.network && !passed {
			left.settles = graceRemaining(f)
		}
		if left.row = row; !left.isDone() {
			return left
		}
	}
	return remainingWork{row: rollouts.FinalisingEnd}
}

// applyRemaining adds what is left to do for a target to the decision.
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

func remainingUnpin(f facts, _ rollouts.ReleasePlan) remainingWork {
	if r := f.route(); r != nil && r.Pinned != "" {
		return remainingWork{action: UnpinService{}}
	}
	return remainingWork{}
}

// remainingSwitch sends all requests of a blue-green release to the new revision. The route is written only
// once: if somebody undoes it, the Service selects all pods before any of them goes anyway.
func remainingSwitch(f facts, _ rollouts.ReleasePlan) remainingWork {
	all := Route{Weight: new(int32(100))}
	r := f.route()
	if r == nil || r.Edited && f.progress().FinalisingStep != "" || !r.differsFrom(all) {
		return remainingWork{}
	}
	return remainingWork{action: RouteTraffic{Revision: r.Canary, Want: all}}
}

func remainingUnroute(f facts, _ rollouts.ReleasePlan) remainingWork {
	if r := f.route(); r != nil && r.Routed {
		return remainingWork{action: RemoveRoute{}}
	}
	return remainingWork{}
}

func remainingCanaryService(f facts, _ rollouts.ReleasePlan) remainingWork {
	if r := f.route(); r != nil && r.Canary != "" {
		return remainingWork{action: RemoveCanaryService{}}
	}
	return remainingWork{}
}

// remainingRestore restores the workload through its BatchRelease, or directly if there is none.
func remainingRestore(f facts, last rollouts.ReleasePlan) remainingWork {
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
		return remainingWork{} // the BatchRelease is being deleted, which a later row waits for
	case BatchPlanHash(b.Plan) != BatchPlanHash(last):
		return remainingWork{action: RunBatch{Plan: last}}
	default:
		return remainingWork{waits: b.Phase != rollouts.PhaseCompleted}
	}
}

func remainingBatchRelease(f facts, _ rollouts.ReleasePlan) remainingWork {
	switch {
	case f.Batch == nil, f.Batch.KeptByOtherFinalizers:
		return remainingWork{}
	case f.Batch.Terminating:
		return remainingWork{waits: true}
	case f.remade != nil && f.remade.Extra.Needed != "" && !f.remade.Held:
		return remainingWork{waits: true, cause: f.remade.Extra.Needed}
	case extraPodsServe(f):
		return remainingWork{} // keep the BatchRelease: it owns the extra Deployment whose pods serve, and gets the plan of the next release
	default:
		return remainingWork{action: DeleteBatchRelease{}}
	}
}

// remainingAfterInterruption returns what is left to tear down of a release that was interrupted, for example
// because its Rollout was disabled and enabled again.
func remainingAfterInterruption(f facts, rows []rollouts.FinalisingStep) remainingWork {
	if f.Batch == nil && f.route().isRestored() && !f.Routing.isInUse() && graceRemaining(f) == 0 {
		return remainingWork{}
	}
	return remainingTeardown(f, rows, restorePlan(f, rollouts.Immediate, Revision{}, false))
}

// canStillAbort reports whether a completed release has not begun to restore its workload.
func canStillAbort(style rollouts.Style, p *rollouts.Progress) bool {
	return isBefore(teardowns[style].succeeded, p)
}

// isBefore reports whether a teardown has not reached the row that restores the workload.
func isBefore(rows []rollouts.FinalisingStep, p *rollouts.Progress) bool {
	return p.FinalisingStep != rollouts.FinalisingEnd &&
		slices.Index(rows, p.FinalisingStep) < slices.Index(rows, rollouts.FinalisingRestoreWorkload)
}
