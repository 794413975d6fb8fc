// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// inFlight tells that a release is, or is being taken back.
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
	x.forgetPin()
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
	if !busy && r.clean() {
		x.status.Network = nil
	}
	x.tellBarred(busy)
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

// tellBarred says in a condition that Service or routers are not for the release
// under way.
func (x *pass) tellBarred(underWay bool) {
	if x.Route == nil || x.Route.Barred == "" || !underWay {
		x.status.RemoveCondition(rollouts.ConditionRoutable)
		return
	}
	x.status.SetCondition(rollouts.Condition{
		Type: rollouts.ConditionRoutable, Status: metav1.ConditionFalse, Reason: "BelongsToAnother", Message: x.Route.Barred,
	}, x.now())
}

// free reports whether Service and routers are this release's to change.
func (r *Route) free() bool { return r != nil && r.Barred == "" }

// clean reports whether nothing of a release is left in the network.
func (r *Route) clean() bool {
	return r == nil || r.Pinned == "" && r.Canary == "" && !r.Routed
}
