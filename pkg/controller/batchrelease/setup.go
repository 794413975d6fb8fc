// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package batchrelease

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/controller/effect"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// SetupWithManager registers the watches: the rows of the workload table say
// which kinds are workloads and what they own.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	b := ctrl.NewControllerManagedBy(mgr).Named("batchrelease").
		For(&v1beta1.BatchRelease{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.ofPod), builder.WithPredicates(troubled())).
		WithOptions(controller.Options{MaxConcurrentReconciles: r.Concurrency})
	watched := map[string]bool{}
	for _, row := range workload.Table {
		if watched[row.GVK.String()] {
			continue
		}
		watched[row.GVK.String()] = true
		kinds, err := r.Server.Objects(row)
		if err != nil {
			return err
		}
		b = b.Watches(kinds.Workload, r.Server.Enqueue(effect.BatchReleases, effect.ByWorkload, effect.IsWorkload(row.GVK.GroupKind())))
		for _, o := range kinds.Owned {
			b = b.Watches(o, r.Server.Enqueue(effect.BatchReleases, effect.ByWorkload, effect.OwnedByWorkload(row.GVK.GroupKind())),
				builder.WithPredicates(effect.SetChanged()))
		}
	}
	return b.Complete(r)
}

// troubled passes pods only when what keeps them from running has changed.
func troubled() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return trouble(e.Object) != "" },
		UpdateFunc: func(e event.UpdateEvent) bool { return trouble(e.ObjectOld) != trouble(e.ObjectNew) },
		DeleteFunc: func(e event.DeleteEvent) bool { return trouble(e.Object) != "" },
	}
}

func trouble(o client.Object) string {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return ""
	}
	return workload.Trouble([]corev1.Pod{*pod})
}

// ofPod finds the BatchRelease of a pod through the set between them.
func (r *Reconciler) ofPod(ctx context.Context, o client.Object) []reconcile.Request {
	ref := metav1.GetControllerOf(o)
	if ref == nil {
		return nil
	}
	var list v1beta1.BatchReleaseList
	if err := r.Server.List(ctx, &list, client.InNamespace(o.GetNamespace())); err != nil {
		return nil // the cache answers; it fails only when it is shut down
	}
	var out []reconcile.Request
	for i := range list.Items {
		b := &list.Items[i]
		if w := b.Spec.WorkloadRef; w != nil && len(ref.Name) > len(w.Name) && ref.Name[:len(w.Name)+1] == w.Name+"-" {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(b)})
		}
	}
	return out
}
