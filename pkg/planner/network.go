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
	case p != nil && r.Status.UnderWay() && (p.CurrentStepIndex > 1 || p.State != rollouts.BeforeStepUpgrade):
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

// keepNetwork takes the network when a release starts, or when something of it is
// about to be changed, and lets go of it when the release has ended and nothing is
// left.
func keepNetwork(d *draft) {
	r, busy := d.route(), d.status.UnderWay()
	if busy && !d.Rollout.Status.UnderWay() && r.free() {
		d.takeNetwork()
	}
	if hold := d.status.Network; hold != nil && r != nil { // what the release has been found to have done
		hold.Made = r.Made
		hold.Pinned = cmp.Or(r.Pinned, hold.Pinned)
	}
	forgetPin(d)
	noteOrders(d)
	if !busy && r.clean() {
		d.status.Network = nil
	}
	tellRoutable(d, busy)
}

// noteOrders notes what is about to be changed of the network.
func noteOrders(d *draft) {
	for _, a := range d.actions {
		switch effect := a.Effect.(type) {
		case Pin:
			d.takeNetwork().Pinned = effect.Revision
		case ServeCanary:
			d.takeNetwork()
		case RouteTo:
			d.takeNetwork().Originals = d.Originals
			warnDoubted(d)
		case Unroute:
			warnDoubted(d)
		}
	}
}

// forgetPin lets the last pod go of a revision that the Service selected, when every
// router knows that it does so no more.
func forgetPin(d *draft) {
	hold, r := d.status.Network, d.route()
	if hold == nil || hold.Pinned == "" || r != nil && r.Pinned != "" {
		return
	}
	if left := owed(d.facts); left > 0 {
		d.wakeIn(left)
	} else {
		hold.Pinned = ""
	}
}

func (d *draft) takeNetwork() *rollouts.NetworkHold {
	if d.status.Network == nil {
		d.status.Network = &rollouts.NetworkHold{Since: d.now()}
	}
	return d.status.Network
}

// warnDoubted says that the record on a router is not believed.
func warnDoubted(d *draft) {
	if d.Doubted != "" {
		d.warn("RecordPutRight", "somebody has written the record on "+d.Doubted+": it is not believed, and what led to the new version there leads to the stable one")
	}
}

// Who undoes what a release has written, and what helps.
const (
	pinUndone   = "%s takes off service/%s what the release puts into spec.selector"
	routeUndone = "%[1]s undoes what the release writes to what leads to service/%[2]s"
	undoneOften = "; it is put back each time. Have it leave that alone, as docs/traffic.md says"
)

// correct says that somebody has undone what routers were told.
func correct(d *draft, undone string) {
	if d.undone == "" {
		d.warn("TrafficCorrected", fmt.Sprintf("step(%d) requests did not go where they should; routers are told again", d.progress().CurrentStepIndex))
	}
	who := "somebody"
	if undone == pinUndone {
		who = cmp.Or(d.Route.Writer, who)
	}
	d.undone = fmt.Sprintf(undone, who, d.release.TrafficRoutings[0].Service) + undoneOften
}

const reasonUndone = "Undone"

// tellRoutable says in a condition that something of the network is not for the
// release under way, or that somebody undoes what it does there sooner than every
// router can know.
func tellRoutable(d *draft, underWay bool) {
	reason, why := "BelongsToAnother", ""
	if d.Route != nil && underWay {
		why = cmp.Or(d.Route.Barred, d.Route.Rival)
	}
	left := owed(d.facts)
	if why == "" && left > 0 {
		reason, why = reasonUndone, d.undone
	}
	switch c := d.status.Condition(rollouts.ConditionRoutable); {
	case why != "":
		d.set(rollouts.ConditionRoutable, metav1.ConditionFalse, reason, why)
	case underWay && c != nil && c.Reason == reasonUndone && left > 0:
		d.wakeIn(left) // nobody has left it alone for a grace period yet
	default:
		d.status.RemoveCondition(rollouts.ConditionRoutable)
	}
}

// free reports whether Service and routers are this release's to change.
func (r *Route) free() bool { return r != nil && r.Barred == "" }

// clean reports whether nothing of a release is left in the network.
func (r *Route) clean() bool {
	return r == nil || r.Pinned == "" && r.Canary == "" && !r.Routed
}
