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

// ReplicaSetCluster is where sizes of ReplicaSets are written.
type ReplicaSetCluster interface {
	Writer
	// ReplicaSetNameConflict is the ReplicaSet of a name where another one than the owner has it.
	ReplicaSetNameConflict(ctx context.Context, owner object.Object, name string) (object.Object, error)
}

// ScaleReplicaSets writes sizes of ReplicaSets.
func ScaleReplicaSets(ctx context.Context, c ReplicaSetCluster, w *cluster.Workload, scale sizes.Scale) error {
	changes, err := replicaSetChanges(ctx, c, w, scale)
	if err != nil {
		return err
	}
	return c.Write(ctx, changes)
}

// OnSizes carries out an action on the ReplicaSets of a workload.
func OnSizes(ctx context.Context, c ReplicaSetCluster, w *cluster.Workload, a planner.ScaleReplicaSets) error {
	return ScaleReplicaSets(ctx, c, w.ForScaling(a.Hold), a.Scale)
}

// replicaSetChanges are changes of ReplicaSets. One that is to be made needs another name where what
// does not belong to the Deployment has it.
func replicaSetChanges(ctx context.Context, c ReplicaSetCluster, w *cluster.Workload, scale sizes.Scale) ([]object.Change, error) {
	owned := w.Owned
	for {
		changes, err := w.Row.Sets(w.Object, owned, w.Hold, scale)
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
