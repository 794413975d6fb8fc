// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// A Service and what leads to it serve one release at a time. Whose they are is in
// the store: a release takes them in the write that comes before its first change
// of them, and lets go of them when it has ended.

// RoutesBefore tells what a Rollout knows from the store of another one that names
// the same Service or router: whether that routes by it, and whether it has taken
// it first. Of two that have, by whatever mistake, one gives way.
func RoutesBefore(other, mine *rollouts.Rollout) (routes, first bool) {
	hold, own := other.Status.Network, mine.Status.Network
	switch {
	case hold == nil:
		return other.Status.Phase == rollouts.PhaseProgressing, false
	case own == nil:
		return true, true
	case hold.Since.Equal(&own.Since):
		return true, other.UID < mine.UID
	default:
		return true, hold.Since.Before(&own.Since)
	}
}

// Originals are the digests of what routers were before, as the store knows them: nil
// for a release that an earlier version has begun, which kept none.
func Originals(r *rollouts.Rollout) []string {
	hold, p := r.Status.Network, r.Status.Active()
	switch {
	case hold != nil:
		return append([]string{}, hold.Originals...)
	case p != nil && inFlight(&r.Status) && (p.CurrentStepIndex > 1 || p.State != rollouts.BeforeStepUpgrade):
		return nil
	default:
		return []string{}
	}
}

// Made are the uids of what the store knows to be made for a release.
func Made(r *rollouts.Rollout) []types.UID {
	if r.Status.Network == nil {
		return nil
	}
	return r.Status.Network.Made
}

// inFlight reports whether a release is, or is being taken back.
func inFlight(s *rollouts.RolloutStatus) bool {
	return s.Phase == rollouts.PhaseProgressing || s.Phase == rollouts.PhaseTerminating || s.Phase == rollouts.PhaseDisabling
}

// keepNetwork takes the network when a release starts, or when something of it is
// about to be changed, and lets go of it when the release has ended and nothing is
// left.
func (x *pass) keepNetwork() {
	r, busy := x.Route, inFlight(&x.status)
	if busy && !inFlight(&x.Rollout.Status) && r.free() {
		x.takeNetwork()
	}
	x.noteNetwork()
	x.forgetPin()
	x.noteOrders()
	if !busy && r.clean() {
		x.status.Network = nil
	}
	x.tellRoutable(busy)
}

// noteOrders notes what is about to be changed of the network.
func (x *pass) noteOrders() {
	for _, a := range x.actions {
		switch a := a.(type) {
		case Pin:
			x.takeNetwork().Pinned = a.Revision
		case ServeCanary:
			x.takeNetwork()
		case RouteTo:
			x.takeNetwork().Originals = x.Originals
			x.tellDoubted()
		case Unroute:
			x.tellDoubted()
		}
	}
}

// noteNetwork notes what the release has been found to have done.
func (x *pass) noteNetwork() {
	if hold, r := x.status.Network, x.Route; hold != nil && r != nil {
		hold.Made = r.Made
		hold.Pinned = cmp.Or(r.Pinned, hold.Pinned)
	}
}

// tellUnpinned says that somebody has taken off a Service what it was found to select.
func (x *pass) tellUnpinned() {
	if hold := x.Rollout.Status.Network; hold != nil && hold.Pinned != "" && hold.Pinned == x.pin().Revision && !x.changing() {
		x.corrected(pinUndone)
	}
}

// forgetPin lets the last pod go of a revision that the Service selected, when every
// router knows that it does so no more.
func (x *pass) forgetPin() {
	hold := x.status.Network
	if hold != nil && hold.Pinned != "" && (x.Route == nil || x.Route.Pinned == "") && x.told() {
		hold.Pinned = ""
	}
}

func (x *pass) takeNetwork() *rollouts.NetworkHold {
	if x.status.Network == nil {
		x.status.Network = &rollouts.NetworkHold{Since: x.now()}
	}
	return x.status.Network
}

// tellDoubted says that the record on a router is not believed.
func (x *pass) tellDoubted() {
	if x.Doubted != "" {
		x.warn("RecordPutRight", "somebody has written the record on "+x.Doubted+": it is not believed, and what led to the new version there leads to the stable one")
	}
}

// Who undoes what a release has written, and what helps.
const (
	pinUndone   = "%s takes off service/%s what the release puts into spec.selector"
	routeUndone = "%[1]s undoes what the release writes to what leads to service/%[2]s"
	undoneOften = "; it is put back each time. Have it leave that alone, as docs/traffic.md says"
)

// corrected says that somebody has undone what routers were told.
func (x *pass) corrected(undone string) {
	if x.undone == "" {
		x.warn("TrafficCorrected", fmt.Sprintf("step(%d) requests did not go where they should; routers are told again", x.progress().CurrentStepIndex))
	}
	who := "somebody"
	if undone == pinUndone {
		who = cmp.Or(x.Route.Writer, who)
	}
	x.undone = fmt.Sprintf(undone, who, x.release.TrafficRoutings[0].Service) + undoneOften
}

// tellRoutable says in a condition that something of the network is not for the
// release under way, or that somebody undoes what it does there sooner than every
// router can know.
func (x *pass) tellRoutable(underWay bool) {
	reason, why := "BelongsToAnother", ""
	if x.Route != nil && underWay {
		why = cmp.Or(x.Route.Barred, x.Route.Rival)
	}
	if why == "" && x.owed() > 0 {
		reason, why = undone, x.undone
	}
	switch c := x.status.Condition(rollouts.ConditionRoutable); {
	case why != "":
		x.status.SetCondition(rollouts.Condition{
			Type: rollouts.ConditionRoutable, Status: metav1.ConditionFalse, Reason: reason, Message: why,
		}, x.now())
	case underWay && c != nil && c.Reason == undone && !x.told():
		// Nobody has left it alone for a grace period yet.
	default:
		x.status.RemoveCondition(rollouts.ConditionRoutable)
	}
}

const undone = "Undone"

// free reports whether Service and routers are this release's to change.
func (r *Route) free() bool { return r != nil && r.Barred == "" }

// clean reports whether nothing of a release is left in the network.
func (r *Route) clean() bool {
	return r == nil || r.Pinned == "" && r.Canary == "" && !r.Routed
}
