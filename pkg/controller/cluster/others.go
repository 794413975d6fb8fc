// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/traffic"
)

// Others are the Rollouts and TrafficRoutings that route by what a Rollout names.
func (s Reader) Others(ctx context.Context, r *rollouts.Rollout) ([]traffic.Other, error) {
	return othersBy(ctx, s, r, NetworkOf(r))
}

// OthersOfRouting are those that route by what a TrafficRouting names. None of them
// comes first: a record on the router says for whom it is routed.
func (s Reader) OthersOfRouting(ctx context.Context, r *rollouts.TrafficRouting) ([]traffic.Other, error) {
	found, err := othersBy(ctx, s, &rollouts.Rollout{ObjectMeta: r.ObjectMeta}, networkKeys(r.Spec.ObjectRef))
	for i := range found {
		found[i].First = false
	}
	return found, err
}

// NetworkOf are the Service and the routers of a Rollout, as they are found in an index.
func NetworkOf(r *rollouts.Rollout) []string {
	_, release := r.Spec.Strategy.Active()
	if release == nil {
		return nil
	}
	return networkKeys(release.TrafficRoutings)
}

func othersBy(ctx context.Context, s Reader, mine *rollouts.Rollout, keys []string) ([]traffic.Other, error) {
	var all []traffic.Other
	for _, key := range keys {
		which := []client.ListOption{client.InNamespace(mine.Namespace), client.MatchingFields{ByNetwork: key}}
		kind, name, _ := strings.Cut(key, "/")
		what := strings.ToLower(kind) + "/" + name
		releases, err := otherReleases(ctx, s, mine, what, which)
		if err != nil {
			return nil, err
		}
		all = append(all, releases...)
		var routings v1alpha1.TrafficRoutingList
		if err := s.List(ctx, &routings, which...); err != nil {
			return nil, fmt.Errorf("listing who routes by %s: %w", what, err)
		}
		for i := range routings.Items {
			if r := &routings.Items[i]; r.UID != mine.UID && r.Status.LastUpdateTime != nil {
				all = append(all, traffic.Other{Who: "trafficrouting/" + r.Name, What: what})
			}
		}
	}
	return all, nil
}

// Turns keeps who takes a Service or a router, from before that is stored until the
// caches show it: passes over two Rollouts run at once, and one process runs them all.
// They are known by name, since one that is made again comes after the one that has gone.
type Turns struct {
	mu    sync.Mutex
	taken map[types.NamespacedName]turn
}

type turn struct {
	by    types.NamespacedName
	until time.Time
}

// shown is how long a cache may take to show what was stored.
const shown = time.Minute

// Take takes all of the keys in the namespace of a Rollout, unless another has just
// taken one.
func (t *Turns) Take(now time.Time, by types.NamespacedName, keys []string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.taken, func(_ types.NamespacedName, turn turn) bool { return !now.Before(turn.until) })
	for _, key := range keys {
		if turn, ok := t.taken[types.NamespacedName{Namespace: by.Namespace, Name: key}]; ok && turn.by != by {
			return false
		}
	}
	if t.taken == nil {
		t.taken = map[types.NamespacedName]turn{}
	}
	for _, key := range keys {
		t.taken[types.NamespacedName{Namespace: by.Namespace, Name: key}] = turn{by: by, until: now.Add(shown)}
	}
	return true
}

// Leave lets others take at once what a Rollout has taken, which it does not keep or
// which has gone.
func (t *Turns) Leave(by types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.taken, func(_ types.NamespacedName, turn turn) bool { return turn.by == by })
}

// otherReleases are the Rollouts that route by an object.
func otherReleases(ctx context.Context, s Reader, mine *rollouts.Rollout, what string, which []client.ListOption) ([]traffic.Other, error) {
	var releases v1beta1.RolloutList
	if err := s.List(ctx, &releases, which...); err != nil {
		return nil, fmt.Errorf("listing who routes by %s: %w", what, err)
	}
	var all []traffic.Other
	for i := range releases.Items {
		other, err := converted[rollouts.Rollout](&releases.Items[i])
		if err != nil {
			return nil, err
		}
		if routes, first := planner.RoutesBefore(other, mine); routes && other.UID != mine.UID {
			all = append(all, traffic.Other{Who: "rollout/" + other.Name, What: what, First: first})
		}
	}
	return all, nil
}
