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

// A Service and its routers (Ingresses, routes) serve one release at a time. The stored status of a
// Rollout has a network hold on them. A release stores its hold before its first change of them, and
// removes the hold when the release has ended.

// CompareNetworkHolds compares the holds of two Rollouts that name the same Service or router. It returns
// whether the other Rollout routes by them, and whether it took them first. If both Rollouts have
// taken them by mistake, exactly one yields: the one that took them later.
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

// OriginalDigests returns the stored digests of the routers as they were before the release. It returns nil
// for a release that an earlier version of Weir began without storing digests.
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

// CreatedUIDs returns the stored UIDs of the Services and Ingresses that were created for the release.
func CreatedUIDs(r *rollouts.Rollout) []types.UID {
	if r.Status.Network == nil {
		return nil
	}
	return r.Status.Network.Made
}

// updateNetworkHold takes the Service and its routers for the release when it starts, and before each
// change of them. It gives them up when the release has ended and nothing of it remains there.
func updateNetworkHold(d *draft) {
	r, busy := d.route(), d.status.UnderWay()
	if busy && !d.Rollout.Status.UnderWay() && r.isAvailable() {
		d.ensureNetworkHold()
	}
	if hold := d.status.Network; hold != nil && r != nil { // store what was observed
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

// recordNetworkActions stores in the hold what the actions of this reconcile are going to change.
func recordNetworkActions(d *draft) {
	for _, a := range d.actions {
		switch effect := a.Effect.(type) {
		case PinService:
			d.ensureNetworkHold().Pinned = effect.Revision
		case SetCanaryService:
			d.ensureNetworkHold()
		case RouteTraffic:
			d.ensureNetworkHold().Originals = d.Originals
			warnAboutTamperedRecord(d)
		case RemoveRoute:
			warnAboutTamperedRecord(d)
		}
	}
}

// clearPinned clears Pinned in the hold when every router has had a grace period to learn that the
// Service no longer selects this revision. Until then the last pod of the revision stays.
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

// ensureNetworkHold returns the hold of the release, and creates it if the release has none.
func (d *draft) ensureNetworkHold() *rollouts.NetworkHold {
	if d.status.Network == nil {
		d.status.Network = &rollouts.NetworkHold{Since: d.now()}
	}
	return d.status.Network
}

// warnAboutTamperedRecord emits an event about a router with a record that Weir did not write.
func warnAboutTamperedRecord(d *draft) {
	if d.TamperedRecord != "" {
		d.warn("RecordRestored", "another client changed Weir's annotation on "+d.TamperedRecord+"; Weir ignores it and routes all requests to the stable version")
	}
}

// The messages say who undoes the writes of a release, and what the user should do.
const (
	pinUndone   = "%s reverts what the release writes to spec.selector of service/%s"
	routeUndone = "%[1]s reverts what the release writes to the routers of service/%[2]s"
	undoneHint  = "; Weir writes it again each time. Configure that client to ignore these fields (docs/traffic.md)"
)

// reportUndone reports that somebody has undone Weir's changes of a Service or router.
func reportUndone(d *draft, format string) {
	if d.undone == "" {
		d.warn("TrafficCorrected", fmt.Sprintf("step(%d) requests were routed to the wrong pods; Weir writes the routes again", d.progress().CurrentStepIndex))
	}
	who := "another client"
	if format == pinUndone {
		who = cmp.Or(d.Route.Writer, who)
	}
	d.undone = fmt.Sprintf(format, who, d.plan.TrafficRoutings[0].Service) + undoneHint
}

// reasonUndone is the reason of the condition Routable if somebody undoes the changes of the release.
const reasonUndone = "Undone"

// setRoutableCondition sets the condition Routable to false in two cases: another release holds the Service or a
// router, or somebody repeatedly undoes the changes of this release within a grace period.
func setRoutableCondition(d *draft, underWay bool) {
	reason, message := "BelongsToAnother", ""
	if d.Route != nil && underWay {
		message = cmp.Or(d.Route.OwnershipConflict, d.Route.NameConflict)
	}
	remaining := graceRemaining(d.facts)
	if message == "" && remaining > 0 {
		reason, message = reasonUndone, d.undone
	}
	switch c := d.status.Condition(rollouts.ConditionRoutable); {
	case message != "":
		d.setCondition(rollouts.ConditionRoutable, metav1.ConditionFalse, reason, message)
	case underWay && c != nil && c.Reason == reasonUndone && remaining > 0:
		d.wakeIn(remaining) // keep the condition until nobody has undone a change for a whole grace period
	default:
		d.status.RemoveCondition(rollouts.ConditionRoutable)
	}
}

// isAvailable reports whether the release may change the Service and the routers.
func (r *Route) isAvailable() bool { return r != nil && r.OwnershipConflict == "" }

// isRestored reports whether nothing of a release remains in the Service and the routers.
func (r *Route) isRestored() bool {
	return r == nil || r.Pinned == "" && r.Canary == "" && !r.Routed
}
