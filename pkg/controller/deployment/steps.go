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

// Cluster is what a pass reads and writes. An object that does not exist is nil.
type Cluster interface {
	reconcile.SizeCluster
	// RolloutNaming is the Rollout that releases a workload; empty if none does.
	RolloutNaming(ctx context.Context, gk schema.GroupKind, workload types.NamespacedName) (string, error)
	// Known is what the store says of a workload by a BatchRelease, and whether one names it.
	Known(context.Context, schema.GroupKind, types.NamespacedName) (k planner.HoldState, named bool, err error)
	Workload(ctx context.Context, row workload.Row, namespace, name string, known planner.HoldState) (*cluster.Workload, error)
	// Unnamed is a workload that nothing in the store is about, unless it was made beside
	// another one.
	Unnamed(ctx context.Context, row workload.Row, namespace, name string) (*cluster.Workload, error)
}

// Observation is a Deployment whose sizes are decided here.
type Observation struct {
	Facts    sizes.Scaling
	workload *cluster.Workload
}

// passes are those over the Deployments of a cluster.
type passes struct{ Cluster }

// Run runs one pass over a Deployment. There is no status to commit: what it goes by is
// stored already, and every write carries the version that it was planned from.
func Run(ctx context.Context, c Cluster, key types.NamespacedName, decide func(*Observation) sizes.Scale) error {
	p := passes{c}
	o, err := p.observe(ctx, key)
	if o == nil || err != nil {
		return err
	}
	scale := decide(o)
	if len(scale.Steps) > 0 {
		logf.FromContext(ctx).Info("Sizing ReplicaSets", "reason", scale.Rule, "steps", scale.Steps)
	}
	return p.apply(ctx, o, scale)
}

// Decide is sizes.Decide.
func Decide(o *Observation) sizes.Scale { return sizes.Decide(o.Facts) }

func (p passes) observe(ctx context.Context, key types.NamespacedName) (*Observation, error) {
	w, err := p.read(ctx, key)
	if w == nil || err != nil {
		return nil, err
	}
	facts, ok := w.Row.ObserveScaling(w.Object, w.Owned, w.Hold)
	if !ok {
		return nil, nil
	}
	return &Observation{Facts: facts, workload: w}, nil
}

// read reads a Deployment whose sizes are decided here, or nil. What it says of
// itself counts only where nothing in the store names it.
func (p passes) read(ctx context.Context, key types.NamespacedName) (*cluster.Workload, error) {
	row, ok := workload.Find("apps/v1", "Deployment", rollouts.StylePartition)
	if !ok {
		return nil, errors.New("finding the row of deployments: there is none")
	}
	if rollout, err := p.RolloutNaming(ctx, deployments, key); rollout != "" || err != nil {
		return nil, err // its passes size
	}
	known, named, err := p.Known(ctx, deployments, key)
	switch {
	case err != nil:
		return nil, err
	case !named:
		return p.unnamed(ctx, row, key)
	case known.Target == nil:
		return nil, nil // it is about to be told, or was given back
	default:
		return p.named(ctx, row, key, known)
	}
}

// named reads a Deployment that a BatchRelease drives, or nil.
func (p passes) named(ctx context.Context, row workload.Row, key types.NamespacedName, known planner.HoldState) (*cluster.Workload, error) {
	w, err := p.Workload(ctx, row, key.Namespace, key.Name, known)
	if err != nil || w == nil || !w.Hold.Active() || w.Hold.IsForAnotherObject(w.Object) {
		return nil, err
	}
	return w, nil
}

// unnamed reads a Deployment that its own annotation drives, or nil. A held one that
// nothing names is given back; until then its sizes stay.
func (p passes) unnamed(ctx context.Context, row workload.Row, key types.NamespacedName) (*cluster.Workload, error) {
	w, err := p.Unnamed(ctx, row, key.Namespace, key.Name)
	if err != nil || w == nil || !w.Hold.Active() || w.Hold.Held {
		return nil, err
	}
	return w, nil
}

// apply writes sizes. What is told is told when they rest, since each time is a write, and
// by the batch where there is one.
func (p passes) apply(ctx context.Context, o *Observation, scale sizes.Scale) error {
	w := o.workload
	switch {
	case len(scale.Steps) > 0:
		return reconcile.Size(ctx, p, w, scale)
	case o.Facts.AnnotationDriven:
		return p.Write(ctx, w.Row.UpdateExtraStatus(w.Object, w.Owned, w.Hold))
	default:
		return nil
	}
}
