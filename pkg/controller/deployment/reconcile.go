// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package deployment sizes the ReplicaSets of Deployments that are held. It
// answers for one thing: the sizes move to what the Deployment was told,
// within its owner's surge and unavailability. It must not know about Rollouts
// or BatchReleases but what the store knows of a workload by them; a Deployment that
// nothing names is told by its own annotation.
package deployment

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/controller/fair"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/sizes"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// Reconciler sizes ReplicaSets. It has no status to commit: what it goes by is stored
// already, and every write carries the version that it was planned from.
type Reconciler struct {
	Server      cluster.Server
	Concurrency int
}

// SetupWithManager registers the watches.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("deployment").
		For(&appsv1.Deployment{}, builder.WithPredicates(predicate.NewPredicateFuncs(ours), cluster.WorkloadChanged())).
		Owns(&appsv1.ReplicaSet{}, builder.WithPredicates(cluster.OwnedChanged())).
		Watches(cluster.NewBatchRelease(), handler.EnqueueRequestsFromMapFunc(released), builder.WithPredicates(cluster.DriveChanged())).
		Watches(cluster.NewRollout(), handler.EnqueueRequestsFromMapFunc(released), builder.WithPredicates(cluster.StableChanged())).
		WithOptions(fair.Options(r.Concurrency)).
		Complete(r)
}

// ours passes Deployments that are held or driven.
func ours(o client.Object) bool { return workload.Marked(o) }

var deployments = appsv1.SchemeGroupVersion.WithKind("Deployment").GroupKind()

// released is the Deployment that a Rollout or a BatchRelease names.
func released(_ context.Context, o client.Object) []reconcile.Request {
	name := cluster.ReleasedAs(o, deployments)
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
}

// Reconcile runs one pass over one Deployment.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	w, err := r.observe(ctx, req.NamespacedName)
	if cluster.Behind(err) {
		return ctrl.Result{RequeueAfter: cluster.Patience}, nil
	}
	if err != nil || w == nil {
		return ctrl.Result{}, err
	}
	changes, err := r.due(ctx, w)
	if err != nil {
		return ctrl.Result{}, err
	}
	err = r.Server.Write(ctx, w.Based(changes))
	if cluster.Moved(err) {
		return ctrl.Result{RequeueAfter: moved}, nil
	}
	return ctrl.Result{}, err
}

// observe reads a Deployment whose sizes are decided here, or nil. What it says of
// itself counts only where nothing in the store names it.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (*cluster.Workload, error) {
	row, ok := workload.Find("apps/v1", "Deployment", rollouts.StylePartition)
	if !ok {
		return nil, errors.New("finding the row of deployments: there is none")
	}
	known, named, err := r.Server.Known(ctx, deployments, key)
	if err != nil {
		return nil, err
	}
	if !named {
		return r.unnamed(ctx, row, key)
	}
	if known.Batch != "" && known.Target == nil {
		return nil, nil // it is about to be told, or was given back
	}
	w, err := r.Server.Workload(ctx, row, key.Namespace, key.Name, known)
	if err != nil || w == nil || !workload.Marked(w.Object) || w.Another() {
		return nil, err
	}
	return w, nil
}

// unnamed reads a Deployment that its own annotation drives, or nil. A held one that
// nothing names is given back; until then its sizes stay.
func (r *Reconciler) unnamed(ctx context.Context, row workload.Row, key types.NamespacedName) (*cluster.Workload, error) {
	w, err := r.Server.Unnamed(ctx, row, key.Namespace, key.Name)
	if err != nil || w == nil || !workload.Marked(w.Object) || row.Held(w.Object) {
		return nil, err
	}
	return w, nil
}

// due is what is to be written now. What is told is told when sizes rest, since
// each time is a write.
func (r *Reconciler) due(ctx context.Context, w *cluster.Workload) ([]object.Change, error) {
	facts, ok := w.Row.Sizing(w.Seen, w.Owned)
	if !ok {
		return nil, nil
	}
	scale := sizes.Decide(facts)
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
func (r *Reconciler) taken(ctx context.Context, w *cluster.Workload, changes []object.Change) (object.Object, error) {
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
