// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// Index registers the indexes that reads and watches need.
func Index(ctx context.Context, indexer client.FieldIndexer, owned ...client.Object) error {
	type index struct {
		of   client.Object
		name string
		keys client.IndexerFunc
	}
	indexes := []index{
		{&v1beta1.Rollout{}, ByWorkload, WorkloadKeys},
		{&v1beta1.Rollout{}, ByGroup, GroupKeys},
		{&v1beta1.Rollout{}, ByNetwork, NetworkKeys},
		{&v1beta1.Rollout{}, ByRouting, RoutingKeys},
		{&v1beta1.BatchRelease{}, ByWorkload, WorkloadKeys},
		{&v1beta1.BatchRelease{}, ByGroup, GroupKeys},
		{&v1alpha1.TrafficRouting{}, ByNetwork, NetworkKeys},
		{&v1alpha1.TrafficRouting{}, ByGroup, GroupKeys},
		{&v1alpha1.TrafficRouting{}, ByUser, UserKeys},
		{&autoscalingv2.HorizontalPodAutoscaler{}, ByScaled, ScaledKeys},
	}
	for _, o := range owned {
		indexes = append(indexes, index{o, ByOwner, OwnerKeys})
	}
	for _, i := range indexes {
		keys := func(o client.Object) []string {
			return recovered("finding the keys of the index "+i.name, o, func() []string { return i.keys(o) })
		}
		if err := indexer.IndexField(ctx, i.of, i.name, keys); err != nil {
			return err
		}
	}
	return nil
}

// The functions below name what an object may mean to an index. Whoever is woken in vain
// finds nothing to do.

// IsWorkload takes the object for a workload of the kind, and for one made beside
// another.
func IsWorkload(gk schema.GroupKind) client.IndexerFunc {
	return func(o client.Object) []string {
		keys := []string{WorkloadKey(gk, o.GetName())}
		if of := o.GetLabels()[rollouts.LabelCanaryDeployment]; of != "" {
			keys = append(keys, WorkloadKey(gk, of))
		}
		return keys
	}
}

// OwnedByWorkload takes the object for one that a workload of the kind owns.
func OwnedByWorkload(gk schema.GroupKind) client.IndexerFunc {
	return func(o client.Object) []string {
		ref := metav1.GetControllerOf(o)
		if ref == nil || schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind() != gk {
			return nil
		}
		return eitherKey(gk, ref.Name)
	}
}

// OwnedByDriven takes a pod for one of a workload of the kind, through the set
// between them, whose name begins with the workload's.
func OwnedByDriven(gk schema.GroupKind) client.IndexerFunc {
	return func(o client.Object) []string {
		set := metav1.GetControllerOf(o)
		hash := o.GetLabels()["pod-template-hash"]
		if set == nil || hash == "" || len(set.Name) <= len(hash)+1 {
			return nil
		}
		return eitherKey(gk, set.Name[:len(set.Name)-len(hash)-1])
	}
}

// eitherKey is for a workload, and for the one that it may have been made beside.
func eitherKey(gk schema.GroupKind, name string) []string {
	keys := []string{WorkloadKey(gk, name)}
	if of := workload.GuessWorkloadName(name); of != name {
		keys = append(keys, WorkloadKey(gk, of))
	}
	return keys
}

// IsNetwork takes the object for a Service or a router.
func IsNetwork(kind string) client.IndexerFunc {
	return func(o client.Object) []string { return []string{NetworkKey(kind, o.GetName())} }
}

// IsUser takes the object for a Rollout that may have a mark on TrafficRoutings.
func IsUser(o client.Object) []string { return []string{o.GetName()} }

// Enqueue maps an object to those Rollouts (or objects of another kind, as the
// list says) of its namespace that the index finds by its key.
func Enqueue(s client.Reader, list func() client.ObjectList, index string, key client.IndexerFunc) handler.EventHandler {
	return EnqueueMapped(func(ctx context.Context, o client.Object) []reconcile.Request {
		var out []reconcile.Request
		for _, k := range key(o) {
			out = append(out, requests(cached(ctx, s, list(), client.InNamespace(o.GetNamespace()), client.MatchingFields{index: k}))...)
		}
		return out
	})
}

// EnqueueRouted wakes the objects of all namespaces that route traffic: the
// scripts that they may use have changed.
func EnqueueRouted(s client.Reader, list func() client.ObjectList) handler.EventHandler {
	return EnqueueMapped(func(ctx context.Context, _ client.Object) []reconcile.Request {
		return requests(slices.DeleteFunc(cached(ctx, s, list()), func(o object.Object) bool {
			_, rollout := o.(*v1beta1.Rollout)
			return rollout && len(NetworkKeys(o)) == 0
		}))
	})
}

// cached are the objects of a list. They are the cache's own.
func cached(ctx context.Context, s client.Reader, list client.ObjectList, which ...client.ListOption) []object.Object {
	found, err := items(ctx, s, list, append(which, client.UnsafeDisableDeepCopy)...)
	if err != nil {
		return nil // the cache answers; it fails only when it is shut down
	}
	return found
}

// requests are one for each of the objects, of BatchReleases for lone ones.
func requests(of []object.Object) []reconcile.Request {
	var out []reconcile.Request
	for _, o := range of {
		if b, is := o.(*v1beta1.BatchRelease); is && !lone(b) {
			continue
		}
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
	}
	return out
}

// EnqueueUsers maps a TrafficRouting to the Rollouts that name it, and to those
// that have a mark on it.
func EnqueueUsers(s client.Reader) handler.EventHandler {
	return EnqueueMapped(func(ctx context.Context, o client.Object) []reconcile.Request {
		woken := cached(ctx, s, Rollouts(), client.InNamespace(o.GetNamespace()), client.MatchingFields{ByRouting: o.GetName()})
		for _, name := range UserKeys(o) {
			woken = append(woken, &v1beta1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: name}})
		}
		return requests(woken)
	})
}

// EnqueueReleased maps a Rollout or a BatchRelease to the workload that it releases, if
// that is of the kind.
func EnqueueReleased(kind schema.GroupKind) handler.EventHandler {
	return EnqueueMapped(func(_ context.Context, o client.Object) []reconcile.Request {
		gk, name := Released(o)
		if gk != kind || name == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
	})
}

// OnRollout tells how the records of Rollouts change. It wakes nobody.
func OnRollout(changed func(before, after *rollouts.Rollout)) handler.EventHandler {
	return handler.Funcs{UpdateFunc: func(_ context.Context, e event.UpdateEvent, _ queue) {
		recovered("comparing the records", e.ObjectNew, func() (none struct{}) {
			old, next := e.ObjectOld.(*v1beta1.Rollout), e.ObjectNew.(*v1beta1.Rollout)
			if equality.Semantic.DeepEqual(old.Status.Releases, next.Status.Releases) {
				return none
			}
			before, err := converted[rollouts.Rollout](old)
			after, errAfter := converted[rollouts.Rollout](next)
			if err == nil && errAfter == nil {
				changed(before, after)
			}
			return none
		})
	}}
}

// Lone passes BatchReleases that no Rollout has, and those that are being deleted: the
// passes of a Rollout are about its own.
func Lone() predicate.Predicate { return predicate.NewPredicateFuncs(lone) }

func lone(o client.Object) bool {
	ref := metav1.GetControllerOfNoCopy(o)
	return o.GetDeletionTimestamp() != nil || ref == nil || ref.Kind != "Rollout"
}

// Rollouts is a list for Enqueue.
func Rollouts() client.ObjectList { return &v1beta1.RolloutList{} }

// BatchReleases is a list for Enqueue.
func BatchReleases() client.ObjectList { return &v1beta1.BatchReleaseList{} }

// TrafficRoutings is a list for Enqueue.
func TrafficRoutings() client.ObjectList { return &v1alpha1.TrafficRoutingList{} }

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
