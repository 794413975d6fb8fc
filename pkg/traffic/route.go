// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Observe returns the current route, and whether the routers support the route of a step.
func Observe(o Objects, ref rollouts.TrafficRoutingRef, step rollouts.Step) planner.Route {
	return ObserveSteps(o, ref, []rollouts.Step{step}).ForStep(1)
}

// ObserveSteps returns the current route, and whether the routers support the route of each step of
// a release.
func ObserveSteps(o Objects, ref rollouts.TrafficRoutingRef, steps []rollouts.Step) planner.Route {
	var all planner.Route
	if o.Service == nil {
		all.Missing, all.StableServiceMissing = "service/"+ref.Service, true
	}
	if len(o.Routers) == 0 {
		all.UnroutableReason = fmt.Sprintf("no router is named for service %s; set ingress, gateway.httpRouteName or customNetworkRefs", ref.Service)
	}
	for i, r := range o.Routers {
		all = mergeRoutes(all, ObserveRouter(o, r), i == 0)
	}
	if all.OwnershipConflict = o.blockedReason(); all.OwnershipConflict == "" && all.Missing == "" && all.UnroutableReason == "" {
		all.UnroutableSteps = impossibleSteps(o, steps)
	}
	return addServices(all, o)
}

// addServices adds the observed Services to a route.
func addServices(all planner.Route, o Objects) planner.Route {
	all.Shared = o.Shared
	if all.CreatedUIDs, all.NameConflict = o.createdObjects(); o.Shared {
		all.NameConflict = "" // no Service is made
	}
	if all.Pinned = o.pinnedRevision(); all.Pinned == "" && o.Service != nil {
		all.Writer = selectorManager(o.Service)
	}
	if o.CanaryService != nil && o.createdForOwner(o.CanaryService) && !isTerminating(o.CanaryService) {
		all.Canary = o.CanaryService.Spec.Selector[o.RevisionKey]
	}
	return all
}

// ObserveRouter returns the route of one router, or the problem that prevents a route.
func ObserveRouter(o Objects, r Router) planner.Route {
	var seen planner.Route
	provider, err := findProvider(r)
	if r.exists() {
		seen = provider.Observe(o, r)
	}
	switch {
	case err != nil:
		seen.UnroutableReason = err.Error()
	case r.Object == nil:
		seen.Missing = r.displayName()
	}
	return seen
}

// mergeRoutes combines the routes of several routers. If they differ, only Routed is known. A
// router without a route agrees with a router whose canary weight is 0.
func mergeRoutes(all, next planner.Route, isFirst bool) planner.Route {
	sum := planner.Route{
		Missing: cmp.Or(all.Missing, next.Missing), UnroutableReason: cmp.Or(all.UnroutableReason, next.UnroutableReason), Pending: cmp.Or(all.Pending, next.Pending), Refused: cmp.Or(all.Refused, next.Refused),
		StableServiceMissing: all.StableServiceMissing, Routed: all.Routed || next.Routed, Edited: all.Edited || next.Edited,
	}
	if isFirst {
		all = next
	}
	all, next = normalizeWeight(all), normalizeWeight(next)
	if all.Equals(next) {
		sum.Weight, sum.Matches, sum.Headers = all.Weight, all.Matches, all.Headers
	}
	if !sum.Routed {
		sum.Weight = nil
	}
	return sum
}

// normalizeWeight gives a missing route the weight 0.
func normalizeWeight(r planner.Route) planner.Route {
	if !r.Routed {
		r.Weight = new(int32)
	}
	return r
}

// impossibleSteps returns, for each step, why its route is not possible for any revision. Scripts
// run once for steps with the same route.
func impossibleSteps(o Objects, steps []rollouts.Step) []string {
	why := make([]string, len(steps))
	wanted := make([]planner.Route, len(steps))
	for i, step := range steps {
		if wanted[i] = planner.RouteOf(step); wanted[i].IsEmpty() {
			wanted[i].Weight = new(int32(1))
		}
		if j := slices.IndexFunc(wanted[:i], wanted[i].Equals); j >= 0 {
			why[i] = why[j]
			continue
		}
		if _, err := RouteRequests(o, "any", wanted[i]); err != nil {
			why[i] = err.Error()
		}
	}
	return why
}

// RouteRequests changes the canary Service so that it selects a revision, and then the routers so
// that they send the wanted weight or the matching requests to the canary Service.
func RouteRequests(o Objects, revision string, want planner.Route) ([]object.Change, error) {
	if why := o.blockedReason(); why != "" {
		return nil, errors.New(why)
	}
	changes, err := EnsureCanaryService(o, revision)
	if err != nil {
		return nil, err
	}
	if err := o.checkMatches(want); err != nil {
		return nil, err
	}
	for _, r := range o.Routers {
		provider, err := findProvider(r)
		if err != nil {
			return nil, err
		}
		more, err := provider.Route(o, r, want)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Field, err)
		}
		changes = append(changes, more...)
	}
	return changes, nil
}

// checkMatches returns an error if no router supports one of the matches. Matches are alternatives,
// so each router may implement only the matches that it supports.
func (o Objects) checkMatches(want planner.Route) error {
	if len(o.Routers) < 2 {
		return nil
	}
	for i, m := range want.Matches {
		var errs []error
		for _, r := range o.Routers {
			provider, err := findProvider(r)
			if err == nil {
				err = provider.CheckRoute(o, r, planner.Route{Matches: []rollouts.RouteMatch{m}, Headers: want.Headers})
			}
			errs = append(errs, err)
		}
		if !slices.Contains(errs, nil) {
			return fmt.Errorf("matches[%d]: no router of the step can tell it: %w", i, errors.Join(errs...))
		}
	}
	return nil
}

// routeForRouter returns the part of a route that one of several routers implements: the matches
// that it supports.
func (o Objects) routeForRouter(p Provider, r Router, want planner.Route) planner.Route {
	if len(o.Routers) > 1 {
		want.Matches = slices.DeleteFunc(slices.Clone(want.Matches), func(m rollouts.RouteMatch) bool {
			return p.CheckRoute(o, r, planner.Route{Matches: []rollouts.RouteMatch{m}, Headers: want.Headers}) != nil
		})
	}
	return want
}

// RestoreRouters removes the route from every router, even if other objects are missing. It
// continues after a router that cannot be restored.
func RestoreRouters(o Objects) ([]object.Change, error) {
	var all []object.Change
	var errs []error
	for _, r := range slices.Backward(o.Routers) {
		if !r.exists() {
			continue
		}
		provider, _ := findProvider(r) // a route can be restored after its script was removed
		changes, err := provider.Restore(o, r)
		all, errs = append(all, changes...), append(errs, err)
	}
	return all, errors.Join(errs...)
}

// diffObjects returns the change from base to want; none if they are equal.
func diffObjects(base, want object.Object) []object.Change {
	if equality.Semantic.DeepEqual(base, want) {
		return nil
	}
	return []object.Change{{Base: base, Want: want}}
}
