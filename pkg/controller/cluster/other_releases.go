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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/traffic"
)

// OtherReleases are the Rollouts and TrafficRoutings that route by what a Rollout names.
func (s Reader) OtherReleases(ctx context.Context, r *rollouts.Rollout) ([]traffic.OtherRelease, error) {
	return listOtherReleases(ctx, s, r, NetworkKeysOf(r))
}

// OtherReleasesOfRouting are those that route by what a TrafficRouting names. None of them
// comes first: a record on the router says for whom it is routed.
func (s Reader) OtherReleasesOfRouting(ctx context.Context, r *rollouts.TrafficRouting) ([]traffic.OtherRelease, error) {
	found, err := listOtherReleases(ctx, s, &rollouts.Rollout{ObjectMeta: r.ObjectMeta}, networkKeysOfRefs(r.Spec.ObjectRef))
	for i := range found {
		found[i].AcquiredFirst = false
	}
	return found, err
}

// NetworkKeysOf are the Service and the routers of a Rollout, as they are found in an index.
func NetworkKeysOf(r *rollouts.Rollout) []string {
	_, release := r.Spec.Strategy.Active()
	if release == nil {
		return nil
	}
	return networkKeysOfRefs(release.TrafficRoutings)
}

func listOtherReleases(ctx context.Context, s Reader, mine *rollouts.Rollout, keys []string) ([]traffic.OtherRelease, error) {
	var all []traffic.OtherRelease
	for _, key := range keys {
		kind, name, _ := strings.Cut(key, "/")
		what := strings.ToLower(kind) + "/" + name
		for _, list := range []client.ObjectList{NewRolloutList(), NewTrafficRoutingList()} {
			found, err := listObjects(ctx, s, list, client.InNamespace(mine.Namespace), client.MatchingFields{ByNetwork: key})
			if err != nil {
				return nil, fmt.Errorf("listing who routes by %s: %w", what, err)
			}
			for _, o := range found {
				other, routes, err := otherRelease(o, mine)
				if err != nil {
					return nil, err
				}
				if other.Object = what; routes && o.GetUID() != mine.UID {
					all = append(all, other)
				}
			}
		}
	}
	return all, nil
}

// otherRelease is a Rollout or a TrafficRouting as another one sees it, and reports whether it
// routes now.
func otherRelease(o object.Object, mine *rollouts.Rollout) (other traffic.OtherRelease, routes bool, err error) {
	if routing, ok := o.(*v1alpha1.TrafficRouting); ok {
		return traffic.OtherRelease{Release: "trafficrouting/" + routing.Name}, routing.Status.LastUpdateTime != nil, nil
	}
	r, err := convert[rollouts.Rollout](o)
	if err != nil {
		return traffic.OtherRelease{}, false, err
	}
	routes, first := planner.RoutesBefore(r, mine)
	return traffic.OtherRelease{Release: "rollout/" + r.Name, AcquiredFirst: first}, routes, nil
}

// NetworkLocks keeps who takes a Service or a router, from before that is stored until the
// caches show it: passes over two Rollouts run at once, and one process runs them all.
// They are known by name, since one that is made again comes after the one that has gone.
type NetworkLocks struct {
	mu    sync.Mutex
	locks map[types.NamespacedName]networkLock
}

type networkLock struct {
	holder types.NamespacedName
	until  time.Time
}

// networkLockTTL is how long a cache may take to show what was stored.
const networkLockTTL = time.Minute

// TryAcquire takes all of the keys in the namespace of a Rollout, unless another has just
// taken one.
func (t *NetworkLocks) TryAcquire(now time.Time, by types.NamespacedName, keys []string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.locks, func(_ types.NamespacedName, turn networkLock) bool { return !now.Before(turn.until) })
	for _, key := range keys {
		if turn, ok := t.locks[types.NamespacedName{Namespace: by.Namespace, Name: key}]; ok && turn.holder != by {
			return false
		}
	}
	if t.locks == nil {
		t.locks = map[types.NamespacedName]networkLock{}
	}
	for _, key := range keys {
		t.locks[types.NamespacedName{Namespace: by.Namespace, Name: key}] = networkLock{holder: by, until: now.Add(networkLockTTL)}
	}
	return true
}

// Release lets others take at once what a Rollout has taken, which it does not keep or
// which has gone.
func (t *NetworkLocks) Release(by types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.locks, func(_ types.NamespacedName, turn networkLock) bool { return turn.holder == by })
}

// LinkedTrafficRoutings names the TrafficRoutings that have the finalizer of a Rollout.
func (s Reader) LinkedTrafficRoutings(ctx context.Context, r *rollouts.Rollout) ([]string, error) {
	names, err := listNames(ctx, s, NewTrafficRoutingList(), client.InNamespace(r.Namespace), client.MatchingFields{ByLinkedRollout: r.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing trafficroutings in use: %w", err)
	}
	return sets.List(names), nil
}

// maxMissingChecks bounds the requests that a pass makes about Rollouts which may be gone.
const maxMissingChecks = 16

// MissingRollouts are the Rollouts that have a finalizer on a TrafficRouting, and do not
// exist. The cache may not know of one yet that another controller has seen, so
// its absence is asked of the server: by a list, since a server that cannot
// answer may say of a single object that it is not found.
//
// Marks are finalizers, of which users may write many: a pass asks about a few.
func (s Reader) MissingRollouts(ctx context.Context, r *rollouts.TrafficRouting) ([]string, error) {
	var gone []string
	asked := 0
	for _, name := range LinkedRollouts(r) {
		if asked == maxMissingChecks {
			break
		}
		found, err := s.Rollout(ctx, types.NamespacedName{Namespace: r.Namespace, Name: name})
		if err != nil {
			return nil, err
		}
		if found != nil {
			continue
		}
		asked++
		var list v1beta1.RolloutList
		if err := s.Live.List(ctx, &list, client.InNamespace(r.Namespace), client.MatchingFields{metav1.ObjectNameField: name}); err != nil {
			return nil, fmt.Errorf("looking for rollout %s: %w", name, err)
		}
		if len(list.Items) == 0 {
			gone = append(gone, name)
		}
	}
	return gone, nil
}
