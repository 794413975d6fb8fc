// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
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
		{&v1alpha1.TrafficRouting{}, ByNetwork, NetworkKeys},
		{&v1alpha1.TrafficRouting{}, ByGroup, GroupKeys},
		{&v1alpha1.TrafficRouting{}, ByUser, UserKeys},
	} {
		if err := indexer.IndexField(ctx, index.of, index.name, index.keys); err != nil {
			return err
		}
	}
	return nil
}

// KeyFunc names what an object may mean to an index. Whoever is woken in vain
// finds nothing to do.
type KeyFunc func(client.Object) []string

// IsWorkload takes the object for a workload of the kind, and for one made beside
// another.
func IsWorkload(gk schema.GroupKind) KeyFunc {
	return func(o client.Object) []string {
		keys := []string{WorkloadKey(gk, o.GetName())}
		if of := o.GetLabels()[rollouts.LabelCanaryDeployment]; of != "" {
			keys = append(keys, WorkloadKey(gk, of))
		}
		return keys
	}
}

// OwnedByWorkload takes the object for one that a workload of the kind owns.
func OwnedByWorkload(gk schema.GroupKind) KeyFunc {
	return func(o client.Object) []string {
		ref := metav1.GetControllerOf(o)
		if ref == nil || schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind() != gk {
			return nil
		}
		return eitherKey(gk, ref.Name)
	}
}

// eitherKey is for a workload, and for the one that it may have been made beside.
func eitherKey(gk schema.GroupKind, name string) []string {
	keys := []string{WorkloadKey(gk, name)}
	if of := workload.Principal(name); of != name {
		keys = append(keys, WorkloadKey(gk, of))
	}
	return keys
}

// IsNetwork takes the object for a Service or a router.
func IsNetwork(kind string) KeyFunc {
	return func(o client.Object) []string { return []string{NetworkKey(kind, o.GetName())} }
}

// Enqueue maps an object to those Rollouts (or objects of another kind, as the
// list says) of its namespace that the index finds by its key.
func Enqueue(s client.Reader, list func() client.ObjectList, index string, key KeyFunc) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		var out []reconcile.Request
		for _, k := range key(o) {
			found := list()
			if err := s.List(ctx, found, client.InNamespace(o.GetNamespace()), client.MatchingFields{index: k}, client.UnsafeDisableDeepCopy); err != nil {
				return nil // the cache answers; it fails only when it is shut down
			}
			_ = meta.EachListItem(found, func(item runtime.Object) error {
				if o, ok := item.(client.Object); ok {
					out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
				}
				return nil
			}) // a list of ours has items
		}
		return out
	})
}

// EnqueueRouted wakes the objects of all namespaces that route traffic: the
// scripts that they may use have changed.
func EnqueueRouted(s client.Reader, list func() client.ObjectList) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
		found := list()
		if err := s.List(ctx, found, client.UnsafeDisableDeepCopy); err != nil {
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

// Later is the handler, but whom it wakes is woken that much later, and once for all
// that happens until then.
func Later(after time.Duration, h handler.EventHandler) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { h.Create(ctx, e, delayed{q, after}) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { h.Update(ctx, e, delayed{q, after}) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { h.Delete(ctx, e, delayed{q, after}) },
	}
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

type delayed struct {
	queue
	after time.Duration
}

// Add implements workqueue.TypedInterface.
func (d delayed) Add(r reconcile.Request) { d.AddAfter(r, d.after) }
