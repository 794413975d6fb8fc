// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"context"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/effect"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// A hold that nobody is left to end: its Rollout lost its finalizer, or somebody
// wrote the annotation by hand.

// watchLeaving looks again at a Deployment whose Rollout or BatchRelease is gone.
func watchLeaving(b *builder.Builder) *builder.Builder {
	gone := builder.WithPredicates(predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	})
	named := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		var requests []reconcile.Request
		for _, key := range effect.WorkloadKeys(o) {
			if name, ok := strings.CutPrefix(key, effect.WorkloadKey(deployments, "")); ok {
				requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}})
			}
		}
		return requests
	})
	return b.Watches(effect.NewRollout(), named, gone).Watches(effect.NewBatchRelease(), named, gone)
}

var deployments = appsv1.SchemeGroupVersion.WithKind("Deployment").GroupKind()

// forgotten tells that a Deployment is held and nobody is left to end that.
func (r *Reconciler) forgotten(ctx context.Context, w *effect.Workload) (bool, error) {
	if !w.Row.Held(w.Object) {
		return false, nil
	}
	named, err := r.Server.Named(ctx, w, effect.Live)
	return !named && err == nil, err
}

// giveBack ends it: as a Rollout does that is deleted, an aborted version is
// not released by this.
func (r *Reconciler) giveBack(ctx context.Context, w *effect.Workload) (ctrl.Result, error) {
	style := workload.StyleOf(w.Object)
	row, ok := workload.Find(w.Row.GVK.GroupVersion().String(), w.Row.GVK.Kind, style)
	if !ok {
		row = w.Row
	}
	name := client.ObjectKey{Namespace: w.Object.GetNamespace(), Name: w.Object.GetName()}
	w, err := r.Server.Workload(ctx, row, name.Namespace, name.Name)
	if err != nil || w == nil {
		return ctrl.Result{}, err
	}
	facts := row.Observe(w.Object, w.Owned)
	rejected := facts.Drive != nil && facts.Drive.Abort
	err = r.Server.Write(ctx, row.Restore(w.Object, w.Owned, planner.RestoreWorkload{KeepPaused: rejected}))
	if err == nil {
		said := "no Rollout names this workload any more, so it was given back to its own controller"
		if rejected {
			said += ", paused, since its release was aborted"
		}
		r.Recorder.Eventf(about(w), nil, corev1.EventTypeWarning, "WorkloadGivenBack", "Release", "%s", said)
	}
	if effect.Moved(err) {
		err = nil
	}
	// What the native controller copies meanwhile is taken off in the next pass.
	return ctrl.Result{RequeueAfter: settling}, err
}

// about is what an event is about.
func about(w *effect.Workload) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: w.Row.GVK.GroupVersion().String(), Kind: w.Row.GVK.Kind,
		Namespace: w.Object.GetNamespace(), Name: w.Object.GetName(), UID: w.Object.GetUID(),
	}
}

// tidied takes off what is left on a Deployment that was given back here.
func (r *Reconciler) tidied(ctx context.Context, w *effect.Workload) (ctrl.Result, error) {
	left := slices.ContainsFunc(w.Owned, func(o object.Object) bool { return marked(o) })
	if !left && w.Object.GetLabels()[rollouts.LabelWorkloadType] == "" {
		return ctrl.Result{}, nil // as most Deployments are
	}
	if named, err := r.Server.Named(ctx, w, anyOne); named || err != nil {
		return ctrl.Result{}, err
	}
	changes := w.Row.Restore(w.Object, w.Owned, planner.RestoreWorkload{})
	if len(changes) == 0 && w.Row.Observe(w.Object, w.Owned).Settled {
		changes = w.Row.Unlabel(w.Object)
	}
	err := r.Server.Write(ctx, changes)
	if effect.Moved(err) {
		err = nil
	}
	return ctrl.Result{RequeueAfter: settling}, err
}

func anyOne(client.Object) bool { return true }
