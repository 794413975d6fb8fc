// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package deployment sizes the ReplicaSets of Deployments that are held. It
// answers for one thing: the sizes move to what the Deployment was told,
// within its owner's surge and unavailability. It must not know about Rollouts
// or BatchReleases; what it is told stands on the Deployment.
package deployment

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/effect"
	"github.com/weir-rollouts/weir/pkg/controller/fair"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// Reconciler sizes ReplicaSets. Its memory is the Deployment itself, so it has
// no status to commit: every write carries the version that it was planned from.
type Reconciler struct {
	Server      effect.Server
	Concurrency int
}

// SetupWithManager registers the watches.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("deployment").
		For(&appsv1.Deployment{}, builder.WithPredicates(predicate.NewPredicateFuncs(ours), effect.WorkloadChanged())).
		Owns(&appsv1.ReplicaSet{}, builder.WithPredicates(effect.OwnedChanged())).
		WithOptions(fair.Options(r.Concurrency)).
		Complete(r)
}

// ours passes Deployments that are held or driven.
func ours(o client.Object) bool { return workload.Marked(o) }

// Reconcile runs one pass over one Deployment.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	row, ok := workload.Find("apps/v1", "Deployment", rollouts.StylePartition)
	if !ok {
		return ctrl.Result{}, errors.New("finding the row of deployments: there is none")
	}
	w, err := r.Server.Workload(ctx, row, req.Namespace, req.Name)
	switch {
	case effect.Behind(err):
		return ctrl.Result{RequeueAfter: effect.Patience}, nil
	case err != nil, w == nil, !workload.Marked(w.Object):
		return ctrl.Result{}, err
	}
	if w.Row.Held(w.Object) {
		// One that nobody names is given back; until then its sizes stay.
		if named, err := r.Server.Named(ctx, w, effect.Live); !named || err != nil {
			return ctrl.Result{}, err
		}
	}
	changes, err := r.due(ctx, w)
	if err != nil {
		return ctrl.Result{}, err
	}
	err = r.Server.Write(ctx, changes)
	if effect.Moved(err) {
		return ctrl.Result{RequeueAfter: moved}, nil
	}
	return ctrl.Result{}, err
}

// due is what is to be written now. What is told is told when sizes rest, since
// each time is a write.
func (r *Reconciler) due(ctx context.Context, w *effect.Workload) ([]object.Change, error) {
	facts, ok := w.Row.Scaling(w.Object, w.Owned)
	if !ok {
		return nil, nil
	}
	scale := planner.SizeSets(facts)
	switch {
	case len(scale.Steps) > 0:
	case facts.Alone:
		return w.Row.Tell(w.Object, w.Owned), nil
	default:
		return nil, nil // the batch tells when it is reached
	}
	logf.FromContext(ctx).Info("Sizing ReplicaSets", "reason", scale.Rule, "steps", scale.Steps)
	changes, err := w.Row.Sets(w.Object, w.Owned, scale)
	for err == nil {
		taken, failed := r.taken(ctx, w, changes)
		if taken == nil || failed != nil {
			return changes, failed
		}
		w.Owned = append(w.Owned, taken)
		changes, err = w.Row.Sets(w.Object, w.Owned, scale)
	}
	return nil, err
}

// taken is a ReplicaSet that does not belong to the Deployment and has the name
// of one that is to be made, which then needs another.
func (r *Reconciler) taken(ctx context.Context, w *effect.Workload, changes []object.Change) (object.Object, error) {
	for _, c := range changes {
		if c.Base != nil {
			continue
		}
		var rs appsv1.ReplicaSet
		err := r.Server.Get(ctx, client.ObjectKey{Namespace: c.Want.GetNamespace(), Name: c.Want.GetName()}, &rs)
		switch {
		case err == nil && !metav1.IsControlledBy(&rs, w.Object):
			return &rs, nil
		case client.IgnoreNotFound(err) != nil:
			return nil, fmt.Errorf("reading replicaset %s: %w", c.Want.GetName(), err)
		}
	}
	return nil, nil
}

// moved is how soon to look again when somebody else wrote first.
const moved = 20 * time.Millisecond
