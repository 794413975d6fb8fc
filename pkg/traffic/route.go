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

// Observe returns what the network does now, and whether it could do what a
// step wants.
func Observe(o Objects, ref rollouts.TrafficRoutingRef, step rollouts.Step) planner.Route {
	return ObserveSteps(o, ref, []rollouts.Step{step}).At(1)
}

// ObserveSteps returns what the network does now, and whether it could do what each
// step of a release wants.
func ObserveSteps(o Objects, ref rollouts.TrafficRoutingRef, steps []rollouts.Step) planner.Route {
	var all planner.Route
	if o.Service == nil {
		all.Missing, all.Unserved = "service/"+ref.Service, true
	}
	if len(o.Routers) == 0 {
		all.Trouble = fmt.Sprintf("nothing leads to service %s; name its ingress, gateway.httpRouteName or customNetworkRefs", ref.Service)
	}
	for i, r := range o.Routers {
		all = together(all, ObserveRouter(o, r), i == 0)
	}
	if all.Barred = o.barred(); all.Barred == "" && all.Missing == "" && all.Trouble == "" {
		all.Impossible = impossible(o, steps)
	}
	return withServices(all, o)
}

// withServices adds what the Services do.
func withServices(all planner.Route, o Objects) planner.Route {
	all.Shared = o.Shared
	if all.Made, all.Rival = o.madeObjects(); o.Shared {
		all.Rival = "" // no Service is made
	}
	if all.Pinned = o.pinned(); all.Pinned == "" && o.Service != nil {
		all.Writer = writerOf(o.Service)
	}
	if o.CanaryService != nil && o.made(o.CanaryService) && !terminating(o.CanaryService) {
		all.Canary = o.CanaryService.Spec.Selector[o.RevisionKey]
	}
	return all
}

// ObserveRouter returns what one of the routers does, or what keeps it from doing anything.
func ObserveRouter(o Objects, r Router) planner.Route {
	var seen planner.Route
	provider, err := find(r)
	if r.exists() {
		seen = provider.Observe(o, r)
	}
	switch {
	case err != nil:
		seen.Trouble = err.Error()
	case r.Object == nil:
		seen.Missing = r.path()
	}
	return seen
}

// together is what several routers do as one. Where they differ, only Routed is
// known. A router that does not know the update revision agrees with a router that
// sends it no share.
func together(all, next planner.Route, isFirst bool) planner.Route {
	sum := planner.Route{
		Missing: cmp.Or(all.Missing, next.Missing), Trouble: cmp.Or(all.Trouble, next.Trouble), Pending: cmp.Or(all.Pending, next.Pending), Refused: cmp.Or(all.Refused, next.Refused),
		Unserved: all.Unserved, Routed: all.Routed || next.Routed, Edited: all.Edited || next.Edited,
	}
	if isFirst {
		all = next
	}
	all, next = withShare(all), withShare(next)
	if all.Equals(next) {
		sum.Weight, sum.Matches, sum.Headers = all.Weight, all.Matches, all.Headers
	}
	if !sum.Routed {
		sum.Weight = nil
	}
	return sum
}

// withShare spells a route that is not there as a share of nothing.
func withShare(r planner.Route) planner.Route {
	if !r.Routed {
		r.Weight = new(int32)
	}
	return r
}

// impossible returns, for each step, why it could not be routed to any revision. Steps
// that want the same route run scripts once.
func impossible(o Objects, steps []rollouts.Step) []string {
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
		if _, err := Route(o, "any", wanted[i]); err != nil {
			why[i] = err.Error()
		}
	}
	return why
}

// Route makes the canary Service select a revision before routers send it the
// wanted share or the matching requests.
func Route(o Objects, revision string, want planner.Route) ([]object.Change, error) {
	if why := o.barred(); why != "" {
		return nil, errors.New(why)
	}
	changes, err := CanaryService(o, revision)
	if err != nil {
		return nil, err
	}
	if err := o.everyMatch(want); err != nil {
		return nil, err
	}
	for _, r := range o.Routers {
		provider, err := find(r)
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

// everyMatch returns why no router can do one of the matches. Matches are
// alternatives, so each may be left to the routers that can do it.
func (o Objects) everyMatch(want planner.Route) error {
	if len(o.Routers) < 2 {
		return nil
	}
	for i, m := range want.Matches {
		var errs []error
		for _, r := range o.Routers {
			provider, err := find(r)
			if err == nil {
				err = provider.Can(o, r, planner.Route{Matches: []rollouts.RouteMatch{m}, Headers: want.Headers})
			}
			errs = append(errs, err)
		}
		if !slices.Contains(errs, nil) {
			return fmt.Errorf("matches[%d]: no router of the step can tell it: %w", i, errors.Join(errs...))
		}
	}
	return nil
}

// partOf is the part of a route that one of several routers does: the matches that
// it can do.
func (o Objects) partOf(p Provider, r Router, want planner.Route) planner.Route {
	if len(o.Routers) > 1 {
		want.Matches = slices.DeleteFunc(slices.Clone(want.Matches), func(m rollouts.RouteMatch) bool {
			return p.Can(o, r, planner.Route{Matches: []rollouts.RouteMatch{m}, Headers: want.Headers}) != nil
		})
	}
	return want
}

// Restore takes the update revision off every router, whatever else is missing. It
// goes on after a router that cannot be restored.
func Restore(o Objects) ([]object.Change, error) {
	var all []object.Change
	var errs []error
	for _, r := range slices.Backward(o.Routers) {
		if !r.exists() {
			continue
		}
		provider, _ := find(r) // a route can be restored after its script was removed
		changes, err := provider.Restore(o, r)
		all, errs = append(all, changes...), append(errs, err)
	}
	return all, errors.Join(errs...)
}

// change is the write that turns base into want, if they differ at all.
func change(base, want object.Object) []object.Change {
	if equality.Semantic.DeepEqual(base, want) {
		return nil
	}
	return []object.Change{{Base: base, Want: want}}
}
