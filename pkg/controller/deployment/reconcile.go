// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package deployment scales the ReplicaSets of Deployments that no Rollout releases. It moves the sizes
// toward the target within the owner's maxSurge and maxUnavailable. The target is in a BatchRelease without
// a Rollout or, if no object names the Deployment, in an annotation of the Deployment.
package deployment

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/controller/queue"
	"github.com/weir-rollouts/weir/pkg/controller/reconcile"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// Reconciler scales the ReplicaSets of Deployments.
type Reconciler struct {
	Server      cluster.Server
	Concurrency int
}

// SetupWithManager registers the watches.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("deployment").
		For(&appsv1.Deployment{}, builder.WithPredicates(predicate.NewPredicateFuncs(hasWeirAnnotation), cluster.WorkloadChanged())).
		Owns(&appsv1.ReplicaSet{}, builder.WithPredicates(cluster.OwnedChanged())).
		Watches(cluster.NewBatchRelease(), cluster.EnqueueWorkload(deploymentKind), builder.WithPredicates(cluster.WithoutRollout(), cluster.BatchTargetChanged())).
		Watches(cluster.NewRollout(), cluster.EnqueueWorkload(deploymentKind), builder.WithPredicates(cluster.RolloutPhaseChanged())).
		WithOptions(queue.Options(r.Concurrency)).
		Complete(r)
}

var deploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment").GroupKind()

func hasWeirAnnotation(o client.Object) bool { return workload.HasReleaseMark(o) }

// Reconcile reconciles one Deployment.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return reconcile.Result(Run(ctx, r.Server, req.NamespacedName, Decide))
}
