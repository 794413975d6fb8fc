// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package effect

import (
	"context"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// Index registers the indexes that reads and watches need.
func Index(ctx context.Context, mgr ctrl.Manager, owned ...client.Object) error {
	indexer := mgr.GetFieldIndexer()
	for _, o := range owned {
		if err := indexer.IndexField(ctx, o, ByOwner, OwnerKeys); err != nil {
			return err
		}
	}
	for _, o := range []client.Object{&v1beta1.Rollout{}, &v1beta1.BatchRelease{}} {
		if err := indexer.IndexField(ctx, o, ByWorkload, WorkloadKeys); err != nil {
			return err
		}
		if err := indexer.IndexField(ctx, o, ByGroup, GroupKeys); err != nil {
			return err
		}
	}
	if err := indexer.IndexField(ctx, &autoscalingv2.HorizontalPodAutoscaler{}, ByScaled, ScaledKeys); err != nil {
		return err
	}
	for _, index := range []struct {
		of   client.Object
		name string
		keys client.IndexerFunc
	}{
		{&v1beta1.Rollout{}, ByNetwork, NetworkKeys},
		{&v1beta1.Rollout{}, ByRouting, RoutingKeys},
		{&v1alpha1.TrafficRouting{}, ByNetwork, RoutingNetworkKeys},
		{&v1alpha1.TrafficRouting{}, ByUser, UserKeys},
	} {
		if err := indexer.IndexField(ctx, index.of, index.name, index.keys); err != nil {
			return err
		}
	}
	return nil
}

// KeyFunc names what an object means to an index; empty when nothing.
type KeyFunc func(client.Object) string

// IsWorkload takes the object for a workload of the kind, or for one made
// beside it.
func IsWorkload(gk schema.GroupKind) KeyFunc {
	return func(o client.Object) string { return WorkloadKey(gk, workload.PrincipalOf(o)) }
}

// OwnedByWorkload takes the object for one that a workload of the kind owns.
func OwnedByWorkload(gk schema.GroupKind) KeyFunc {
	return func(o client.Object) string {
		ref := metav1.GetControllerOf(o)
		if ref == nil || schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind() != gk {
			return ""
		}
		return WorkloadKey(gk, workload.Principal(ref.Name))
	}
}

// IsNetwork takes the object for a Service or a router.
func IsNetwork(kind string) KeyFunc {
	return func(o client.Object) string { return NetworkKey(kind, o.GetName()) }
}

// Enqueue maps an object to those Rollouts (or objects of another kind, as the
// list says) of its namespace that the index finds by its key.
func (s Server) Enqueue(list func() client.ObjectList, index string, key KeyFunc) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		k := key(o)
		if k == "" {
			return nil
		}
		found := list()
		if err := s.List(ctx, found, client.InNamespace(o.GetNamespace()), client.MatchingFields{index: k}); err != nil {
			return nil // the cache answers; it fails only when it is shut down
		}
		var out []reconcile.Request
		_ = meta.EachListItem(found, func(item runtime.Object) error {
			if o, ok := item.(client.Object); ok {
				out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
			}
			return nil
		}) // a list of ours has items
		return out
	})
}

// EnqueueRouted wakes the objects of all namespaces that route traffic: the
// scripts that they may use have changed.
func (s Server) EnqueueRouted(list func() client.ObjectList) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
		found := list()
		if err := s.List(ctx, found); err != nil {
			return nil // the cache answers; it fails only when it is shut down
		}
		var out []reconcile.Request
		_ = meta.EachListItem(found, func(item runtime.Object) error { // fails for what is no list only
			o, ok := item.(client.Object)
			if _, rollout := item.(*v1beta1.Rollout); ok && (!rollout || len(NetworkKeys(o)) > 0) {
				out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
			}
			return nil
		})
		return out
	})
}

// Rollouts and BatchReleases are the lists for Enqueue.
func Rollouts() client.ObjectList { return &v1beta1.RolloutList{} }

// BatchReleases is the other one.
func BatchReleases() client.ObjectList { return &v1beta1.BatchReleaseList{} }

// OwnedChanged passes updates of what a workload owns that matter: of sizes and
// marks of a ReplicaSet, of whether a pod serves and of its labels.
func OwnedChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		switch was := e.ObjectOld.(type) {
		case *appsv1.ReplicaSet:
			is, ok := e.ObjectNew.(*appsv1.ReplicaSet)
			return !ok || setChanged(was, is)
		case *corev1.Pod:
			is, ok := e.ObjectNew.(*corev1.Pod)
			return !ok || podChanged(was, is)
		default:
			return true
		}
	}}
}

func setChanged(was, is *appsv1.ReplicaSet) bool {
	return !equality.Semantic.DeepEqual(was.Spec.Replicas, is.Spec.Replicas) ||
		was.Status.Replicas != is.Status.Replicas || was.Status.ReadyReplicas != is.Status.ReadyReplicas ||
		was.Status.AvailableReplicas != is.Status.AvailableReplicas ||
		!equality.Semantic.DeepEqual(was.Status.Conditions, is.Status.Conditions) ||
		!equality.Semantic.DeepEqual(was.Annotations, is.Annotations)
}

// podChanged leaves out what is normal for a while and is looked at again without
// being told.
func podChanged(was, is *corev1.Pod) bool {
	trouble := func(p *corev1.Pod) string {
		message, _ := workload.Trouble([]corev1.Pod{*p}, "", time.Time{})
		return message
	}
	return workload.Well(was) != workload.Well(is) || was.Status.Phase != is.Status.Phase || trouble(was) != trouble(is) ||
		(was.DeletionTimestamp == nil) != (is.DeletionTimestamp == nil) || !maps.Equal(was.Labels, is.Labels)
}

// Deleted passes nothing but deletions.
func Deleted() predicate.Predicate {
	never := predicate.NewPredicateFuncs(func(client.Object) bool { return false })
	return predicate.Funcs{CreateFunc: never.Create, UpdateFunc: never.Update, GenericFunc: never.Generic}
}
