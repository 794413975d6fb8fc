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
	"github.com/weir-rollouts/weir/pkg/controller/pass"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/sizes"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// Cluster reads and writes the objects of a reconcile. It returns nil for an object that does not
// exist.
type Cluster interface {
	pass.SizeCluster
	// RolloutNaming returns the name of the Rollout that releases a workload; empty if there is
	// none.
	RolloutNaming(ctx context.Context, gk schema.GroupKind, workload types.NamespacedName) (string, error)
	// Known returns the state of a workload that the store has for a BatchRelease, and whether one
	// names the workload.
	Known(context.Context, schema.GroupKind, types.NamespacedName) (k planner.Known, named bool, err error)
	Workload(ctx context.Context, row workload.Row, namespace, name string, known planner.Known) (*cluster.Workload, error)
	// Unnamed returns a workload that no object in the store names; nil for a canary Deployment
	// that Weir created.
	Unnamed(ctx context.Context, row workload.Row, namespace, name string) (*cluster.Workload, error)
}

// Observation is a Deployment whose ReplicaSets this controller scales.
type Observation struct {
	Facts    sizes.Scaling
	workload *cluster.Workload
}

// runner implements a reconcile of a Deployment.
type runner struct{ Cluster }

// Run reconciles a Deployment. There is no status to store: the input is stored already, and every
// write has the resource version that was observed as a precondition.
func Run(ctx context.Context, c Cluster, key types.NamespacedName, decide func(*Observation) sizes.Scale) error {
	p := runner{c}
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

// Decide calls sizes.Decide.
func Decide(o *Observation) sizes.Scale { return sizes.Decide(o.Facts) }

func (p runner) observe(ctx context.Context, key types.NamespacedName) (*Observation, error) {
	w, err := p.readWorkload(ctx, key)
	if w == nil || err != nil {
		return nil, err
	}
	facts, ok := w.Row.Sizing(w.Object, w.Owned, w.Hold)
	if !ok {
		return nil, nil
	}
	return &Observation{Facts: facts, workload: w}, nil
}

// readWorkload reads a Deployment whose ReplicaSets this controller scales; nil for other
// Deployments. The annotation of a Deployment counts only if no object in the store names the
// Deployment.
func (p runner) readWorkload(ctx context.Context, key types.NamespacedName) (*cluster.Workload, error) {
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
		return p.readAnnotated(ctx, row, key)
	case known.Target == nil:
		return nil, nil // it is about to be told, or was given back
	default:
		return p.readDriven(ctx, row, key, known)
	}
}

// readDriven reads a Deployment that a BatchRelease drives; nil otherwise.
func (p runner) readDriven(ctx context.Context, row workload.Row, key types.NamespacedName, known planner.Known) (*cluster.Workload, error) {
	w, err := p.Workload(ctx, row, key.Namespace, key.Name, known)
	if err != nil || w == nil || !w.Hold.Active() || w.Hold.IsAnother(w.Object) {
		return nil, err
	}
	return w, nil
}

// readAnnotated reads a Deployment that its own annotation drives; nil otherwise. A held Deployment
// that no object names will be restored, so its sizes are not changed.
func (p runner) readAnnotated(ctx context.Context, row workload.Row, key types.NamespacedName) (*cluster.Workload, error) {
	w, err := p.Unnamed(ctx, row, key.Namespace, key.Name)
	if err != nil || w == nil || !w.Hold.Active() || w.Hold.Held {
		return nil, err
	}
	return w, nil
}

// apply scales ReplicaSets. It updates the extra status only after the sizes have settled, because
// each update is a write, and only if no BatchRelease does this.
func (p runner) apply(ctx context.Context, o *Observation, scale sizes.Scale) error {
	w := o.workload
	switch {
	case len(scale.Steps) > 0:
		return pass.Size(ctx, p, w, scale)
	case o.Facts.Alone:
		return p.Write(ctx, w.Row.UpdateExtraStatus(w.Object, w.Owned, w.Hold))
	default:
		return nil
	}
}
