// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Route is the traffic as it is, or as it is wanted.
type Route struct {
	// Missing names an object that must exist and does not, such as service/web.
	Missing string
	// StableServiceMissing reports whether the stable Service does not exist.
	StableServiceMissing bool
	// OwnershipConflict says why neither the Service nor the routers are this release's to
	// change: another has taken them, or the Service is of another workload.
	OwnershipConflict string
	// UnroutableReason says why nothing can be routed though nothing is missing, and Impossible
	// why not what each of the steps wants, in their order.
	UnroutableReason string
	UnroutableSteps  []string
	// Pending says why a router has not taken up yet what it was told, and Refused
	// why it never will.
	Pending, Refused string
	// Writer is who wrote the selector of the stable Service, where that is not pinned.
	Writer string
	// Pinned is the revision that the stable Service selects; empty if any.
	Pinned string
	// Canary is the revision that the canary Service selects; empty if there is none.
	Canary string
	// CreatedUIDs are the uids of what was made for the release, and Rival says whose an object
	// is that has the name of one of them.
	CreatedUIDs  []types.UID
	NameConflict string
	// Shared reports whether one Service serves both revisions: none is pinned or made.
	Shared bool
	// Weight is the share sent to the update revision; nil without a share.
	Weight *int32
	// Matches select the requests sent to the update revision.
	Matches []rollouts.RouteMatch
	// Headers rewrites those of requests to the update revision.
	Headers *rollouts.HeaderModifier
	// Routed reports whether routers know the update revision at all.
	Routed bool
	// Edited reports whether somebody else has changed what routers were told.
	Edited bool
}

// At is what is known at a step, of the number that it has from 1 on.
func (r Route) At(step int32) Route {
	if i := int(step) - 1; r.UnroutableReason == "" && i >= 0 && i < len(r.UnroutableSteps) {
		r.UnroutableReason = r.UnroutableSteps[i]
	}
	r.UnroutableSteps = nil
	return r
}

// RouteOf is the route that a step wants.
func RouteOf(step rollouts.Step) Route {
	return Route{Weight: parsePercent(step.Traffic), Matches: step.Matches, Headers: step.RequestHeaderModifier}
}

// Equals reports whether two routes send the same requests the same way.
func (r Route) Equals(other Route) bool {
	return formatWeight(r.Weight) == formatWeight(other.Weight) && formatMatches(r.Matches) == formatMatches(other.Matches) &&
		formatHeaders(r.Headers) == formatHeaders(other.Headers)
}

// IsEmpty reports whether no request is sent to the update revision.
func (r Route) IsEmpty() bool {
	return len(r.Matches) == 0 && (r.Weight == nil || *r.Weight == 0)
}

// Serves reports whether the observed route is the wanted one. No share of the
// traffic needs no router that knows the update revision, only the Service that
// selects it, by which its owner tries it out.
func (r *Route) Serves(want Route, revision string) bool {
	if !r.Shared && r.Canary != revision {
		return false
	}
	if !r.Routed && want.Weight != nil && want.IsEmpty() {
		return true
	}
	return r.Routed && !r.Edited && r.Equals(want)
}

// canChange reports whether routers can be told anything but to forget the update revision.
func (r *Route) canChange() bool { return r.Obstacle() == "" }

// Obstacle is why nothing can be routed; empty when something can.
func (r *Route) Obstacle() string {
	if r.Missing != "" {
		return r.Missing + " does not exist"
	}
	return cmp.Or(r.OwnershipConflict, r.UnroutableReason)
}

// refusal is why routers do not take up what they were told; nothing is known of
// what somebody else has told them.
func (r *Route) refusal() string {
	if r.Edited {
		return ""
	}
	return r.Refused
}

// lastWritten is what routers were last told.
func (r *Route) lastWritten() Route {
	return Route{Weight: r.Weight, Matches: r.Matches, Headers: r.Headers}
}

func formatWeight(w *int32) string {
	if w == nil {
		return "-"
	}
	return strconv.Itoa(int(*w))
}

func parsePercent(traffic *string) *int32 {
	if traffic == nil {
		return nil
	}
	n, err := strconv.ParseInt(strings.TrimSuffix(*traffic, "%"), 10, 32)
	if err != nil {
		return nil
	}
	w := int32(n)
	return &w
}

func (a RouteTraffic) String() string {
	if a.Revision == "" {
		a.Revision = "the update revision"
	}
	switch {
	case a.Want.Weight != nil:
		return fmt.Sprintf("route %d%% to %s", *a.Want.Weight, a.Revision)
	default:
		return fmt.Sprintf("route %d matches to %s", len(a.Want.Matches), a.Revision)
	}
}

// differsFrom reports whether routers do another route than the wanted, and can be told so.
func (r *Route) differsFrom(want Route) bool {
	return r.Routed && r.canChange() && !r.Serves(want, r.Canary)
}
