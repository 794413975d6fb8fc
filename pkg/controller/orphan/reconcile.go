// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package orphan restores held workloads that no Rollout or BatchRelease names, for example because the
// Rollout lost its finalizer, or because a user added the annotation. It must not change a workload that
// any Rollout or BatchRelease names, nor a workload whose Rollout was lost together with the data of
// weir-apiserver.
package orphan

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/controller/queue"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// Reconciler restores workloads of one kind.
type Reconciler struct {
	Server   cluster.Server
	Recorder events.EventRecorder
	// Row is any row of the kind. A held workload names the style of its own row.
	Row workload.Row
}

// workers is 2 so that one worker is left for other namespaces when one namespace has used its
// share.
const workers = 2

// minRequeue is the delay of the next reconcile after a write on which the native controller acts.
const minRequeue = time.Second

// lostRolloutRequeue is the delay of the next reconcile of a workload whose Rollout was lost.
// weir-apiserver records a deletion only a moment after the Rollout is gone.
const lostRolloutRequeue = time.Minute

// SetupWithManager registers the watches of held workloads, and of deleted Rollouts and
// BatchReleases.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	// A workload that stays held is reconciled again when the Rollout that names it is deleted.
	held := predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return workload.HasReleaseMark(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return workload.HasReleaseMark(e.ObjectNew) && !workload.HasReleaseMark(e.ObjectOld)
		},
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
	released := cluster.EnqueueWorkload(r.Row.GVK.GroupKind())
	return ctrl.NewControllerManagedBy(mgr).Named("forgotten-"+strings.ToLower(r.Row.GVK.GroupKind().String())).
		For(r.Server.NewStored(r.Row.GVK), builder.WithPredicates(held)).
		Watches(cluster.NewRollout(), released, builder.WithPredicates(cluster.OnlyDeletions())).
		Watches(cluster.NewBatchRelease(), released, builder.WithPredicates(cluster.OnlyDeletions())).
		WithOptions(queue.Options(workers)).
		Complete(r)
}

// Reconcile reconciles one workload.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	after, err := r.reconcileWorkload(ctx, req.NamespacedName)
	switch {
	case cluster.IsStaleCache(err):
		return ctrl.Result{RequeueAfter: cluster.StaleCacheDelay}, nil
	case cluster.IsConflict(err):
		err = nil
	case err != nil:
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: after}, err
}

// reconcileWorkload restores a held workload that no Rollout or BatchRelease names. It returns the
// time until the next reconcile; 0 if only a change of an object causes one.
func (r *Reconciler) reconcileWorkload(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	w, err := r.Server.UnreferencedWorkload(ctx, r.Row, key.Namespace, key.Name)
	switch {
	case err != nil, w == nil:
		return 0, err
	case !w.Hold.Active():
		return r.removeLeftovers(ctx, w)
	case !w.Hold.Held:
		return 0, nil
	}
	if named, err := r.Server.IsReferenced(ctx, w, cluster.ManagesWorkload); named || err != nil {
		return 0, err
	}
	if rollout, err := r.Server.LostRollout(ctx, w); err != nil {
		return 0, err
	} else if rollout != "" {
		r.recordWarning(w, "RolloutLost", lostMessage(rollout))
		return lostRolloutRequeue, nil
	}
	return r.restoreWorkload(ctx, w)
}

// lostMessage returns the message about a held workload whose Rollout was lost.
func lostMessage(rollout string) string {
	return "the workload stays held: its Rollout " + rollout + " does not exist, and weir-apiserver does not remember that it was deleted; " +
		"the data of weir-apiserver may be lost or restored from an old snapshot. Create the Rollout again, for instance from git, and resume it " +
		"to continue the release from step 1. Or create it and delete it, to release the pending template to all pods"
}

// restoreWorkload returns the workload to its native controller. As at the deletion of a Rollout, this
// does not release an aborted version.
func (r *Reconciler) restoreWorkload(ctx context.Context, w *cluster.Workload) (time.Duration, error) {
	row, ok := workload.Find(w.Row.GVK.GroupVersion().String(), w.Row.GVK.Kind, workload.StyleOf(w.Object))
	if !ok {
		row = w.Row
	}
	w, err := r.Server.UnreferencedWorkload(ctx, row, w.Object.GetNamespace(), w.Object.GetName())
	if err != nil || w == nil {
		return 0, err
	}
	facts := row.Observe(w.Object, w.Owned, w.Hold)
	wasAborted := facts.Target != nil && facts.Target.Abort
	if err := r.Server.Write(ctx, row.Restore(w.Object, w.Owned, w.Hold, planner.RestoreWorkload{KeepPaused: wasAborted})); err != nil {
		return minRequeue, err
	}
	message := "no Rollout names this workload any more, so Weir returned it to its native controller"
	if wasAborted {
		message += ", paused, since its release was aborted"
	}
	r.recordWarning(w, "WorkloadGivenBack", message)
	// The native controller may copy Weir's annotations to ReplicaSets until it sees this write;
	// the next pass removes the copies.
	return minRequeue, nil
}

// recordWarning creates an event about a workload.
func (r *Reconciler) recordWarning(w *cluster.Workload, reason, message string) {
	about := &corev1.ObjectReference{
		APIVersion: w.Row.GVK.GroupVersion().String(), Kind: w.Row.GVK.Kind,
		Namespace: w.Object.GetNamespace(), Name: w.Object.GetName(), UID: w.Object.GetUID(),
	}
	r.Recorder.Eventf(about, nil, corev1.EventTypeWarning, reason, "Release", "%s", message)
}

// removeLeftovers removes Weir's metadata from a workload that was restored.
func (r *Reconciler) removeLeftovers(ctx context.Context, w *cluster.Workload) (time.Duration, error) {
	ownedHaveCopies := slices.ContainsFunc(w.Owned, func(o object.Object) bool { return workload.HasReleaseMark(o) })
	if !ownedHaveCopies && w.Object.GetLabels()[rollouts.LabelWorkloadType] == "" {
		return 0, nil // the usual case
	}
	anyRollout := func(client.Object) bool { return true }
	if named, err := r.Server.IsReferenced(ctx, w, anyRollout); named || err != nil {
		return 0, err
	}
	changes := w.Row.Restore(w.Object, w.Owned, w.Hold, planner.RestoreWorkload{})
	if len(changes) == 0 && w.Row.Observe(w.Object, w.Owned, w.Hold).Settled {
		if changes = w.Row.RemoveTypeLabel(w.Object, w.Hold); len(changes) == 0 {
			return 0, nil // the copies on a ControllerRevision remain, and nothing reads them
		}
	}
	return minRequeue, r.Server.Write(ctx, changes)
}
