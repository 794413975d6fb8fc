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

// CompareNetworkHolds tells what a Rollout knows from the store of another one that names
// the same Service or router: whether that routes by it, and whether it has taken
// it first. Of two that have, by whatever mistake, one gives way.
func CompareNetworkHolds(other, mine *rollouts.Rollout) (routes, first bool) {
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

// OriginalDigests are the digests of what routers were before, as the store knows them: nil
// for a release that an earlier version has begun, which kept none.
func OriginalDigests(r *rollouts.Rollout) []string {
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

// CreatedUIDs are the uids of what the store knows to be made for a release.
func CreatedUIDs(r *rollouts.Rollout) []types.UID {
	if r.Status.Network == nil {
		return nil
	}
	return r.Status.Network.Made
}

// updateNetworkHold takes the network when a release starts, or when something of it is
// about to be changed, and lets go of it when the release has ended and nothing is
// left.
func updateNetworkHold(d *draft) {
	r, busy := d.route(), d.status.UnderWay()
	if busy && !d.Rollout.Status.UnderWay() && r.isAvailable() {
		d.networkHold()
	}
	if hold := d.status.Network; hold != nil && r != nil { // what the release has been found to have done
		hold.Made = r.CreatedUIDs
		hold.Pinned = cmp.Or(r.Pinned, hold.Pinned)
	}
	clearPinned(d)
	recordNetworkActions(d)
	if !busy && r.isRestored() {
		d.status.Network = nil
	}
	setRoutableCondition(d, busy)
}

// recordNetworkActions notes what is about to be changed of the network.
func recordNetworkActions(d *draft) {
	for _, a := range d.actions {
		switch effect := a.Effect.(type) {
		case PinService:
			d.networkHold().Pinned = effect.Revision
		case SetCanaryService:
			d.networkHold()
		case RouteTraffic:
			d.networkHold().Originals = d.Originals
			warnAboutTamperedRecord(d)
		case RemoveRoute:
			warnAboutTamperedRecord(d)
		}
	}
}

// clearPinned lets the last pod go of a revision that the Service selected, when every
// router knows that it does so no more.
func clearPinned(d *draft) {
	hold, r := d.status.Network, d.route()
	if hold == nil || hold.Pinned == "" || r != nil && r.Pinned != "" {
		return
	}
	if left := graceRemaining(d.facts); left > 0 {
		d.wakeIn(left)
	} else {
		hold.Pinned = ""
	}
}

func (d *draft) networkHold() *rollouts.NetworkHold {
	if d.status.Network == nil {
		d.status.Network = &rollouts.NetworkHold{Since: d.now()}
	}
	return d.status.Network
}

// warnAboutTamperedRecord says that the record on a router is not believed.
func warnAboutTamperedRecord(d *draft) {
	if d.TamperedRecord != "" {
		d.warn("RecordPutRight", "somebody has written the record on "+d.TamperedRecord+": it is not believed, and what led to the new version there leads to the stable one")
	}
}

// Who undoes what a release has written, and what helps.
const (
	pinUndone   = "%s takes off service/%s what the release puts into spec.selector"
	routeUndone = "%[1]s undoes what the release writes to what leads to service/%[2]s"
	undoneOften = "; it is put back each time. Have it leave that alone, as docs/traffic.md says"
)

// reportUndone says that somebody has undone what routers were told.
func reportUndone(d *draft, undone string) {
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

// setRoutableCondition says in a condition that something of the network is not for the
// release under way, or that somebody undoes what it does there sooner than every
// router can know.
func setRoutableCondition(d *draft, underWay bool) {
	reason, why := "BelongsToAnother", ""
	if d.Route != nil && underWay {
		why = cmp.Or(d.Route.OwnershipConflict, d.Route.NameConflict)
	}
	left := graceRemaining(d.facts)
	if why == "" && left > 0 {
		reason, why = reasonUndone, d.undone
	}
	switch c := d.status.Condition(rollouts.ConditionRoutable); {
	case why != "":
		d.setCondition(rollouts.ConditionRoutable, metav1.ConditionFalse, reason, why)
	case underWay && c != nil && c.Reason == reasonUndone && left > 0:
		d.wakeIn(left) // nobody has left it alone for a grace period yet
	default:
		d.status.RemoveCondition(rollouts.ConditionRoutable)
	}
}

// isAvailable reports whether Service and routers are this release's to change.
func (r *Route) isAvailable() bool { return r != nil && r.OwnershipConflict == "" }

// isRestored reports whether nothing of a release is left in the network.
func (r *Route) isRestored() bool {
	return r == nil || r.Pinned == "" && r.Canary == "" && !r.Routed
}
