// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// Indexes that have to do with TrafficRoutings.
const (
	// ByRouting finds Rollouts by the TrafficRouting that they name.
	ByRouting = "spec.strategy.trafficRoutingRef"
	// ByUser finds TrafficRoutings by the names of Rollouts that have finalizers on them.
	ByUser = "metadata.finalizers"
)

// TrafficRoutings is a list for Enqueue.
func TrafficRoutings() client.ObjectList { return &v1alpha1.TrafficRoutingList{} }

// TrafficRouting returns a TrafficRouting, or nil when there is none.
func (s Reader) TrafficRouting(ctx context.Context, key types.NamespacedName) (*rollouts.TrafficRouting, error) {
	return hub[rollouts.TrafficRouting, v1alpha1.TrafficRouting](ctx, s, key)
}

// LiveTrafficRouting is TrafficRouting, asked of the server.
func (s Reader) LiveTrafficRouting(ctx context.Context, key types.NamespacedName) (*rollouts.TrafficRouting, error) {
	return hub[rollouts.TrafficRouting, v1alpha1.TrafficRouting](ctx, s.Live, key)
}

// LinkedTo names the TrafficRoutings that have the mark of a Rollout.
func (s Reader) LinkedTo(ctx context.Context, r *rollouts.Rollout) ([]string, error) {
	var list v1alpha1.TrafficRoutingList
	mine := client.MatchingFields{ByUser: r.Name}
	if err := s.List(ctx, &list, client.InNamespace(r.Namespace), mine); err != nil {
		return nil, fmt.Errorf("listing trafficroutings in use: %w", err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	slices.Sort(names)
	return names, nil
}

// mostGone bounds the requests that a pass makes about Rollouts which may be gone.
const mostGone = 16

// GoneUsers are the Rollouts that have a mark on a TrafficRouting, and do not
// exist. The cache may not know of one yet that another controller has seen, so
// its absence is asked of the server: by a list, since a server that cannot
// answer may say of a single object that it is not found.
//
// Marks are finalizers, of which users may write many: a pass asks about a few.
func (s Reader) GoneUsers(ctx context.Context, r *rollouts.TrafficRouting) ([]string, error) {
	var gone []string
	asked := 0
	for _, name := range UserKeys(r) {
		if asked == mostGone {
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

// RoutingKeys index Rollouts by the TrafficRouting that they name.
func RoutingKeys(o client.Object) []string {
	release := releaseOf(o)
	if release == nil || release.TrafficRouting() == "" {
		return nil
	}
	return []string{release.TrafficRouting()}
}

// UserKeys index TrafficRoutings by the Rollouts that have finalizers on them.
func UserKeys(o client.Object) []string {
	var names []string
	for _, f := range o.GetFinalizers() {
		if name, ok := strings.CutPrefix(f, rollouts.FinalizerProgressing+"/"); ok {
			names = append(names, name)
		}
	}
	return names
}

// IsUser takes the object for a Rollout that may have a mark on TrafficRoutings.
func IsUser(o client.Object) []string { return []string{o.GetName()} }

// EnqueueUsers maps a TrafficRouting to the Rollouts that name it, and to those
// that have a mark on it.
func EnqueueUsers(s client.Reader) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		woken := cached(ctx, s, Rollouts(), client.InNamespace(o.GetNamespace()), client.MatchingFields{ByRouting: o.GetName()})
		for _, name := range UserKeys(o) {
			woken = append(woken, &v1beta1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: name}})
		}
		return requests(woken)
	})
}
