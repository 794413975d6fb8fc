// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

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
	names, err := namesIn(ctx, s, TrafficRoutings(), client.InNamespace(r.Namespace), client.MatchingFields{ByUser: r.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing trafficroutings in use: %w", err)
	}
	return sets.List(names), nil
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
