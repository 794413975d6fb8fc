// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/controller/reconcile"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/sizes"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// Cluster reads and writes the objects of a pass. The methods return nil for an object that does not exist.
type Cluster interface {
	reconcile.ReplicaSetCluster
	// RolloutOfWorkload returns the name of the Rollout that releases a workload; empty if none does.
	RolloutOfWorkload(ctx context.Context, gk schema.GroupKind, workload types.NamespacedName) (string, error)
	// BatchReleaseHoldState returns the hold state of a workload according to its BatchRelease, and reports
	// whether a BatchRelease references the workload.
	BatchReleaseHoldState(context.Context, schema.GroupKind, types.NamespacedName) (k planner.HoldState, referenced bool, err error)
	Workload(ctx context.Context, row workload.Row, namespace, name string, known planner.HoldState) (*cluster.Workload, error)
	// UnreferencedWorkload returns a workload that no stored object references, or nil for the extra
	// Deployment of a release.
	UnreferencedWorkload(ctx context.Context, row workload.Row, namespace, name string) (*cluster.Workload, error)
}

// Observation is a Deployment whose ReplicaSets this controller scales.
type Observation struct {
	Facts    sizes.Scaling
	workload *cluster.Workload
}

// Run runs one pass over a Deployment. The pass has no status to commit: the target is stored already, and
// every write has the resourceVersion that it was planned from.
func Run(ctx context.Context, c Cluster, key types.NamespacedName, decide func(*Observation) sizes.Scale) error {
	w, err := readScaledWorkload(ctx, c, key)
	if w == nil || err != nil {
		return err
	}
	facts, ok := w.Row.ObserveScaling(w.Object, w.Owned, w.Hold)
	if !ok {
		return nil
	}
	scale := decide(&Observation{Facts: facts, workload: w})
	switch {
	case len(scale.Steps) > 0:
		logf.FromContext(ctx).Info("Sizing ReplicaSets", "reason", scale.Rule, "steps", scale.Steps)
		return reconcile.ScaleReplicaSets(ctx, c, w, scale)
	case facts.AnnotationDriven:
		// The extra status is written only when the sizes rest, because each update is a write. If there is
		// a BatchRelease, its passes write the extra status.
		return c.Write(ctx, w.Row.UpdateExtraStatus(w.Object, w.Owned, w.Hold))
	default:
		return nil
	}
}

// Decide is sizes.Decide.
func Decide(o *Observation) sizes.Scale { return sizes.Decide(o.Facts) }

// readScaledWorkload reads a Deployment whose ReplicaSets this controller scales, or returns nil. The
// annotations of the Deployment count only if no stored object references the Deployment.
func readScaledWorkload(ctx context.Context, c Cluster, key types.NamespacedName) (*cluster.Workload, error) {
	row, ok := workload.Find("apps/v1", "Deployment", rollouts.StylePartition)
	if !ok {
		return nil, errors.New("finding the row of deployments: there is none")
	}
	if rollout, err := c.RolloutOfWorkload(ctx, deploymentKind, key); rollout != "" || err != nil {
		return nil, err // the passes over the Rollout scale the ReplicaSets
	}
	known, referenced, err := c.BatchReleaseHoldState(ctx, deploymentKind, key)
	switch {
	case err != nil:
		return nil, err
	case !referenced:
		// The Deployment's own annotation has the target. A Deployment that is still held is restored
		// first (package orphan); until then its sizes stay.
		w, err := c.UnreferencedWorkload(ctx, row, key.Namespace, key.Name)
		if err != nil || w == nil || !w.Hold.Active() || w.Hold.Held {
			return nil, err
		}
		return w, nil
	case known.Target == nil:
		return nil, nil // the BatchRelease has no target yet, or has restored the Deployment
	default:
		w, err := c.Workload(ctx, row, key.Namespace, key.Name, known)
		if err != nil || w == nil || !w.Hold.Active() || w.Hold.IsForAnotherObject(w.Object) {
			return nil, err
		}
		return w, nil
	}
}
