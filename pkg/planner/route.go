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

// Route is the traffic routing of a release, as it is observed or as a step wants it.
type Route struct {
	// Missing names an object that must exist and does not, such as service/web.
	Missing string
	// StableServiceMissing reports whether the stable Service does not exist.
	StableServiceMissing bool
	// OwnershipConflict is the reason why the release may not change the Service and the routers: another
	// release holds them, or the Service selects another workload. It is empty if the release may.
	OwnershipConflict string
	// UnroutableReason is the reason why nothing can be routed although no object is missing.
	UnroutableReason string
	// UnroutableSteps has, for each step in order, the reason why the traffic of this step cannot be routed;
	// empty if it can.
	UnroutableSteps []string
	// Pending is the reason why a router has not applied its route yet. Refused is the reason why it never will.
	Pending, Refused string
	// Writer is the field manager that wrote the selector of the stable Service; empty if the selector is pinned.
	Writer string
	// Pinned is the revision that the stable Service selects; empty if it selects every revision.
	Pinned string
	// Canary is the revision that the canary Service selects; empty if there is no canary Service.
	Canary string
	// CreatedUIDs are the UIDs of the objects that were created for the release.
	CreatedUIDs []types.UID
	// NameConflict is the message about another object that has the name of an object to be created.
	NameConflict string
	// Shared reports whether one Service serves both revisions: it is not pinned, and there is no canary
	// Service.
	Shared bool
	// Weight is the percentage of requests sent to the update revision; nil if the step sets none.
	Weight *int32
	// Matches select the requests sent to the update revision.
	Matches []rollouts.RouteMatch
	// Headers modifies the headers of requests to the update revision.
	Headers *rollouts.HeaderModifier
	// Routed reports whether the routers have a backend for the update revision.
	Routed bool
	// Edited reports whether somebody else has changed the routes that Weir wrote.
	Edited bool
}

// ForStep returns the route as observed for a step, with the reason why its traffic cannot be routed. Steps
// count from 1.
func (r Route) ForStep(step int32) Route {
	if i := int(step) - 1; r.UnroutableReason == "" && i >= 0 && i < len(r.UnroutableSteps) {
		r.UnroutableReason = r.UnroutableSteps[i]
	}
	r.UnroutableSteps = nil
	return r
}

// RouteOf returns the route that a step wants.
func RouteOf(step rollouts.Step) Route {
	return Route{Weight: parsePercent(step.Traffic), Matches: step.Matches, Headers: step.RequestHeaderModifier}
}

// DescribeMatches describes the requests that a step selects, such as "x-canary: yes". It is empty if the step selects
// none.
func DescribeMatches(matches []rollouts.RouteMatch) string {
	alternatives := make([]string, 0, len(matches))
	for _, m := range matches {
		var parts []string
		if m.Path != nil && m.Path.Value != nil {
			parts = append(parts, *m.Path.Value+map[string]string{"PathPrefix": "*", "": "*", "RegularExpression": " (regular expression)"}[valueOrEmpty(m.Path.Type)])
		}
		for _, h := range m.Headers {
			parts = append(parts, h.Name+map[bool]string{true: " =~ ", false: ": "}[isRegularExpression(h)]+h.Value)
		}
		for _, q := range m.QueryParams {
			parts = append(parts, "?"+q.Name+map[bool]string{true: "=~", false: "="}[isRegularExpression(q)]+q.Value)
		}
		alternatives = append(alternatives, strings.Join(parts, " and "))
	}
	return strings.Join(alternatives, " or ")
}

func isRegularExpression(m rollouts.ValueMatch) bool {
	return valueOrEmpty(m.Type) == "RegularExpression"
}

func valueOrEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Equals reports whether two routes send the same requests to the update revision.
func (r Route) Equals(other Route) bool {
	return formatWeight(r.Weight) == formatWeight(other.Weight) && formatMatches(r.Matches) == formatMatches(other.Matches) &&
		formatHeaders(r.Headers) == formatHeaders(other.Headers)
}

// IsEmpty reports whether no request is sent to the update revision.
func (r Route) IsEmpty() bool {
	return len(r.Matches) == 0 && (r.Weight == nil || *r.Weight == 0)
}

// Serves reports whether the observed route is the wanted one. A share of 0% needs no backend for the
// update revision in the routers. It only needs the canary Service, by which the owner can try out
// the new version.
func (r *Route) Serves(want Route, revision string) bool {
	if !r.Shared && r.Canary != revision {
		return false
	}
	if !r.Routed && want.Weight != nil && want.IsEmpty() {
		return true
	}
	return r.Routed && !r.Edited && r.Equals(want)
}

// canChange reports whether routes can be written. Removing them is always possible.
func (r *Route) canChange() bool { return r.Obstacle() == "" }

// Obstacle returns the reason why nothing can be routed; empty if routing is possible.
func (r *Route) Obstacle() string {
	if r.Missing != "" {
		return r.Missing + " does not exist"
	}
	return cmp.Or(r.OwnershipConflict, r.UnroutableReason)
}

// refusal returns the reason why routers do not apply their routes; empty if they do. After somebody else
// has edited the routes, the reason is about the edited routes and does not count.
func (r *Route) refusal() string {
	if r.Edited {
		return ""
	}
	return r.Refused
}

// lastWritten returns the route that was last written to the routers.
func (r *Route) lastWritten() Route {
	return Route{Weight: r.Weight, Matches: r.Matches, Headers: r.Headers}
}

// formatWeight returns the weight as text; "-" if there is none.
func formatWeight(w *int32) string {
	if w == nil {
		return "-"
	}
	return strconv.Itoa(int(*w))
}

// parsePercent returns the number of a percentage such as "20%"; nil if there is none.
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

// String describes the action for people.
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

// differsFrom reports whether the routers have another route than the wanted one, and the wanted one can
// be written.
func (r *Route) differsFrom(want Route) bool {
	return r.Routed && r.canChange() && !r.Serves(want, r.Canary)
}
