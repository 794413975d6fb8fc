// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package orphan gives back held workloads that no Rollout or BatchRelease names: the
// Rollout lost its finalizer, or somebody wrote the annotation by hand. It must
// not touch a workload that any live Rollout or BatchRelease names, nor one whose Rollout
// was lost with the data of weir-apiserver.
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

// Reconciler gives workloads of one kind back.
type Reconciler struct {
	Server   cluster.Server
	Recorder events.EventRecorder
	// Row is any row of the kind. A held workload names the style of its own row.
	Row workload.Row
}

// workers is the least number that leaves one to others when a namespace has its share.
const workers = 2

// settling is how soon to look again after a write that the native controller acts on.
const settling = time.Second

// lookAgain is how soon to look again at a workload whose Rollout was lost: a deletion is
// remembered a moment after the Rollout is gone.
const lookAgain = time.Minute

// SetupWithManager registers the watches: of held workloads, and of Rollouts and
// BatchReleases that are deleted.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	// A workload that stays held is looked at when the Rollout that names it is deleted.
	held := predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return workload.Marked(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return workload.Marked(e.ObjectNew) && !workload.Marked(e.ObjectOld) },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
	released := cluster.EnqueueReleased(r.Row.GVK.GroupKind())
	return ctrl.NewControllerManagedBy(mgr).Named("forgotten-"+strings.ToLower(r.Row.GVK.GroupKind().String())).
		For(r.Server.Stored(r.Row.GVK), builder.WithPredicates(held)).
		Watches(cluster.NewRollout(), released, builder.WithPredicates(cluster.Deleted())).
		Watches(cluster.NewBatchRelease(), released, builder.WithPredicates(cluster.Deleted())).
		WithOptions(queue.Options(workers)).
		Complete(r)
}

// Reconcile runs one pass over one workload.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	after, err := r.pass(ctx, req.NamespacedName)
	switch {
	case cluster.Behind(err):
		return ctrl.Result{RequeueAfter: cluster.Patience}, nil
	case cluster.Moved(err):
		err = nil
	case err != nil:
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: after}, err
}

// pass returns how soon to look again; never, if 0.
func (r *Reconciler) pass(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	w, err := r.Server.Unnamed(ctx, r.Row, key.Namespace, key.Name)
	switch {
	case err != nil, w == nil:
		return 0, err
	case !w.Hold.Active():
		return r.tidy(ctx, w)
	case !w.Hold.Held:
		return 0, nil
	}
	if named, err := r.Server.Named(ctx, w, cluster.Live); named || err != nil {
		return 0, err
	}
	if rollout, err := r.Server.LostRollout(ctx, w); err != nil {
		return 0, err
	} else if rollout != "" {
		r.warn(w, "RolloutLost", lostMessage(rollout))
		return lookAgain, nil
	}
	return r.giveBack(ctx, w)
}

// lostMessage is about a held workload whose Rollout was lost.
func lostMessage(rollout string) string {
	return "the workload stays held: its Rollout " + rollout + " does not exist, and weir-apiserver does not remember that it was deleted; " +
		"the data of weir-apiserver may be lost or restored from an old snapshot. Create the Rollout again, for instance from git, and resume it " +
		"to continue the release from step 1. Or create it and delete it, to release the pending template to all pods"
}

// giveBack ends the hold: as a Rollout does that is deleted, an aborted version is
// not released by this.
func (r *Reconciler) giveBack(ctx context.Context, w *cluster.Workload) (time.Duration, error) {
	row, ok := workload.Find(w.Row.GVK.GroupVersion().String(), w.Row.GVK.Kind, workload.StyleOf(w.Object))
	if !ok {
		row = w.Row
	}
	w, err := r.Server.Unnamed(ctx, row, w.Object.GetNamespace(), w.Object.GetName())
	if err != nil || w == nil {
		return 0, err
	}
	facts := row.Observe(w.Object, w.Owned, w.Hold)
	rejected := facts.Target != nil && facts.Target.Abort
	if err := r.Server.Write(ctx, row.Restore(w.Object, w.Owned, w.Hold, planner.RestoreWorkload{KeepPaused: rejected})); err != nil {
		return settling, err
	}
	said := "no Rollout names this workload any more, so it was given back to its own controller"
	if rejected {
		said += ", paused, since its release was aborted"
	}
	r.warn(w, "WorkloadGivenBack", said)
	// The native controller may copy Weir's annotations to ReplicaSets until it sees this write;
	// the next pass removes the copies.
	return settling, nil
}

// warn creates an event about a workload.
func (r *Reconciler) warn(w *cluster.Workload, reason, message string) {
	about := &corev1.ObjectReference{
		APIVersion: w.Row.GVK.GroupVersion().String(), Kind: w.Row.GVK.Kind,
		Namespace: w.Object.GetNamespace(), Name: w.Object.GetName(), UID: w.Object.GetUID(),
	}
	r.Recorder.Eventf(about, nil, corev1.EventTypeWarning, reason, "Release", "%s", message)
}

// tidy takes off what is left on a workload that was given back here.
func (r *Reconciler) tidy(ctx context.Context, w *cluster.Workload) (time.Duration, error) {
	left := slices.ContainsFunc(w.Owned, func(o object.Object) bool { return workload.Marked(o) })
	if !left && w.Object.GetLabels()[rollouts.LabelWorkloadType] == "" {
		return 0, nil // as most workloads are
	}
	anyOne := func(client.Object) bool { return true }
	if named, err := r.Server.Named(ctx, w, anyOne); named || err != nil {
		return 0, err
	}
	changes := w.Row.Restore(w.Object, w.Owned, w.Hold, planner.RestoreWorkload{})
	if len(changes) == 0 && w.Row.Observe(w.Object, w.Owned, w.Hold).Settled {
		if changes = w.Row.Unlabel(w.Object, w.Hold); len(changes) == 0 {
			return 0, nil // a ControllerRevision keeps its copies, and nobody reads them
		}
	}
	return settling, r.Server.Write(ctx, changes)
}
