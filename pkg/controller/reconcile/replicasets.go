// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"

	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/sizes"
)

// ReplicaSetCluster reads and writes ReplicaSets.
type ReplicaSetCluster interface {
	Writer
	// ReplicaSetNameConflict returns the ReplicaSet with the name if the owner does not own it, or nil.
	ReplicaSetNameConflict(ctx context.Context, owner object.Object, name string) (object.Object, error)
}

// ScaleReplicaSets creates the ReplicaSets of a workload or changes their sizes.
func ScaleReplicaSets(ctx context.Context, c ReplicaSetCluster, w *cluster.Workload, scale sizes.Scale) error {
	changes, err := replicaSetChanges(ctx, c, w, scale)
	if err != nil {
		return err
	}
	return c.Write(ctx, changes)
}

// replicaSetChanges returns the changes of ReplicaSets. If a new ReplicaSet would have the name of an
// object that does not belong to the Deployment, it adds this object to the owned ones and plans again, so
// that the hash collision count changes the name.
func replicaSetChanges(ctx context.Context, c ReplicaSetCluster, w *cluster.Workload, scale sizes.Scale) ([]object.Change, error) {
	owned := w.Owned
	for {
		changes, err := w.Row.ResizeReplicaSets(w.Object, owned, w.Hold, scale)
		if err != nil {
			return nil, err
		}
		other, err := findNameConflict(ctx, c, w, changes)
		if other == nil || err != nil {
			return changes, err
		}
		owned = append(owned, other)
	}
}

// findNameConflict returns a ReplicaSet of another owner whose name one of the changes would create, or
// nil.
func findNameConflict(ctx context.Context, c ReplicaSetCluster, w *cluster.Workload, changes []object.Change) (object.Object, error) {
	for _, change := range changes {
		if change.Base != nil {
			continue
		}
		if other, err := c.ReplicaSetNameConflict(ctx, w.Object, change.Want.GetName()); other != nil || err != nil {
			return other, err
		}
	}
	return nil, nil
}
