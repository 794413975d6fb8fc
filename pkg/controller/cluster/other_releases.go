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

// OtherReleases returns the Rollouts and TrafficRoutings that use the same Services or routers as a Rollout.
func (s Reader) OtherReleases(ctx context.Context, r *rollouts.Rollout) ([]traffic.OtherRelease, error) {
	return listOtherReleases(ctx, s, r, NetworkKeysOf(r))
}

// OtherReleasesOfRouting returns the Rollouts and TrafficRoutings that use the same Services or routers as a
// TrafficRouting. AcquiredFirst is false for all, because a record on the router has its user.
func (s Reader) OtherReleasesOfRouting(ctx context.Context, r *rollouts.TrafficRouting) ([]traffic.OtherRelease, error) {
	found, err := listOtherReleases(ctx, s, &rollouts.Rollout{ObjectMeta: r.ObjectMeta}, networkKeysOfRefs(r.Spec.ObjectRef))
	for i := range found {
		found[i].AcquiredFirst = false
	}
	return found, err
}

// NetworkKeysOf returns the keys of the Service and the routers of a Rollout in the index ByNetwork.
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

// otherRelease converts a Rollout or TrafficRouting for the conflict check of another Rollout, and reports
// whether it routes traffic now.
func otherRelease(o object.Object, mine *rollouts.Rollout) (other traffic.OtherRelease, routes bool, err error) {
	if routing, ok := o.(*v1alpha1.TrafficRouting); ok {
		return traffic.OtherRelease{Release: "trafficrouting/" + routing.Name}, routing.Status.LastUpdateTime != nil, nil
	}
	r, err := convert[rollouts.Rollout](o)
	if err != nil {
		return traffic.OtherRelease{}, false, err
	}
	routes, first := planner.CompareNetworkHolds(r, mine)
	return traffic.OtherRelease{Release: "rollout/" + r.Name, AcquiredFirst: first}, routes, nil
}

// NetworkLocks are in-process locks of Services and routers. A Rollout holds them from before its status
// records that it uses them until the caches show this status. Passes over two Rollouts run concurrently,
// but always in one process. The holders are names, not uids: a recreated Rollout succeeds the deleted one.
type NetworkLocks struct {
	mu    sync.Mutex
	locks map[types.NamespacedName]networkLock
}

type networkLock struct {
	holder types.NamespacedName
	until  time.Time
}

// networkLockTTL is the time after which the caches certainly show a stored status.
const networkLockTTL = time.Minute

// TryAcquire locks all keys in the namespace of the holder, and reports whether it succeeded. It locks
// nothing if another Rollout holds one of the keys.
func (t *NetworkLocks) TryAcquire(now time.Time, holder types.NamespacedName, keys []string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.locks, func(_ types.NamespacedName, lock networkLock) bool { return !now.Before(lock.until) })
	for _, key := range keys {
		if lock, ok := t.locks[types.NamespacedName{Namespace: holder.Namespace, Name: key}]; ok && lock.holder != holder {
			return false
		}
	}
	if t.locks == nil {
		t.locks = map[types.NamespacedName]networkLock{}
	}
	for _, key := range keys {
		t.locks[types.NamespacedName{Namespace: holder.Namespace, Name: key}] = networkLock{holder: holder, until: now.Add(networkLockTTL)}
	}
	return true
}

// Release unlocks all keys of a Rollout that no longer uses them or does not exist.
func (t *NetworkLocks) Release(holder types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.locks, func(_ types.NamespacedName, lock networkLock) bool { return lock.holder == holder })
}

// LinkedTrafficRoutings returns the names of the TrafficRoutings that have the finalizer of a Rollout.
func (s Reader) LinkedTrafficRoutings(ctx context.Context, r *rollouts.Rollout) ([]string, error) {
	names, err := listNames(ctx, s, NewTrafficRoutingList(), client.InNamespace(r.Namespace), client.MatchingFields{ByLinkedRollout: r.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing trafficroutings in use: %w", err)
	}
	return sets.List(names), nil
}

// maxMissingChecks limits the requests of one pass for Rollouts that may not exist. Users can write any
// number of finalizers.
const maxMissingChecks = 16

// MissingRollouts returns the names of Rollouts that have a finalizer on a TrafficRouting but do not exist.
// If the cache does not have a Rollout, MissingRollouts asks the server, because another controller may have
// seen a newer Rollout. It uses a list, because a server that is not ready may answer the get of a single
// object with not found.
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
