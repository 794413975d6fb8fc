// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"

	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/sizes"
)

// SizeCluster is where sizes of ReplicaSets are written.
type SizeCluster interface {
	Writer
	// Taken is the ReplicaSet of a name where another one than the owner has it.
	Taken(ctx context.Context, owner object.Object, name string) (object.Object, error)
}

// Size writes sizes of ReplicaSets.
func Size(ctx context.Context, c SizeCluster, w *cluster.Workload, scale sizes.Scale) error {
	changes, err := sets(ctx, c, w, scale)
	if err != nil {
		return err
	}
	return c.Write(ctx, changes)
}

// OnSizes carries out an action on the ReplicaSets of a workload.
func OnSizes(ctx context.Context, c SizeCluster, w *cluster.Workload, a planner.ScaleReplicaSets) error {
	return Size(ctx, c, w.Sized(a.Hold), a.Scale)
}

// sets are changes of ReplicaSets. One that is to be made needs another name where what
// does not belong to the Deployment has it.
func sets(ctx context.Context, c SizeCluster, w *cluster.Workload, scale sizes.Scale) ([]object.Change, error) {
	owned := w.Owned
	for {
		changes, err := w.Row.ResizeReplicaSets(w.Object, owned, w.Hold, scale)
		if err != nil {
			return nil, err
		}
		other, err := taken(ctx, c, w, changes)
		if other == nil || err != nil {
			return changes, err
		}
		owned = append(owned, other)
	}
}

func taken(ctx context.Context, c SizeCluster, w *cluster.Workload, changes []object.Change) (object.Object, error) {
	for _, change := range changes {
		if change.Base != nil {
			continue
		}
		if other, err := c.Taken(ctx, w.Object, change.Want.GetName()); other != nil || err != nil {
			return other, err
		}
	}
	return nil, nil
}
