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

// RegisterIndexes registers the indexes that reads and watches need.
func RegisterIndexes(ctx context.Context, indexer client.FieldIndexer, owned ...client.Object) error {
	type index struct {
		of   client.Object
		name string
		keys client.IndexerFunc
	}
	indexes := []index{
		{&v1beta1.Rollout{}, ByWorkload, WorkloadKeys},
		{&v1beta1.Rollout{}, ByGroup, GroupKeys},
		{&v1beta1.Rollout{}, ByNetwork, NetworkKeys},
		{&v1beta1.Rollout{}, ByTrafficRouting, TrafficRoutingKeys},
		{&v1beta1.BatchRelease{}, ByWorkload, WorkloadKeys},
		{&v1beta1.BatchRelease{}, ByGroup, GroupKeys},
		{&v1alpha1.TrafficRouting{}, ByNetwork, NetworkKeys},
		{&v1alpha1.TrafficRouting{}, ByGroup, GroupKeys},
		{&v1alpha1.TrafficRouting{}, ByLinkedRollout, LinkedRollouts},
		{&autoscalingv2.HorizontalPodAutoscaler{}, ByScaleTarget, ScaleTargetNames},
	}
	for _, o := range owned {
		indexes = append(indexes, index{o, ByOwner, OwnerKeys})
	}
	for _, i := range indexes {
		keys := func(o client.Object) []string {
			return recoverPanic("finding the keys of the index "+i.name, o, func() []string { return i.keys(o) })
		}
		if err := indexer.IndexField(ctx, i.of, i.name, keys); err != nil {
			return err
		}
	}
	return nil
}

// The functions below return keys of an index for watch events. They may return too many keys: a pass that is
// enqueued without need finds nothing to do.

// KeysOfWorkload returns a function that returns the keys of a workload of the kind and, for an extra
// workload, of the workload that it belongs to.
func KeysOfWorkload(gk schema.GroupKind) client.IndexerFunc {
	return func(o client.Object) []string {
		keys := []string{WorkloadKey(gk, o.GetName())}
		if of := o.GetLabels()[rollouts.LabelCanaryDeployment]; of != "" {
			keys = append(keys, WorkloadKey(gk, of))
		}
		return keys
	}
}

// KeysOfOwner returns a function that returns the keys of the workload of the kind that owns an object.
func KeysOfOwner(gk schema.GroupKind) client.IndexerFunc {
	return func(o client.Object) []string {
		ref := metav1.GetControllerOf(o)
		if ref == nil || schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind() != gk {
			return nil
		}
		return keysWithPrincipal(gk, ref.Name)
	}
}

// KeysOfPodOwner returns a function that returns the keys of the workload of a pod. It takes the name of the
// workload from the name of the ReplicaSet, which is the workload's name with a hash.
func KeysOfPodOwner(gk schema.GroupKind) client.IndexerFunc {
	return func(o client.Object) []string {
		set := metav1.GetControllerOf(o)
		hash := o.GetLabels()["pod-template-hash"]
		if set == nil || hash == "" || len(set.Name) <= len(hash)+1 {
			return nil
		}
		return keysWithPrincipal(gk, set.Name[:len(set.Name)-len(hash)-1])
	}
}

// keysWithPrincipal returns the keys of a workload and, if its name is that of an extra workload, of the
// workload that it belongs to.
func keysWithPrincipal(gk schema.GroupKind, name string) []string {
	keys := []string{WorkloadKey(gk, name)}
	if of := workload.GuessWorkloadName(name); of != name {
		keys = append(keys, WorkloadKey(gk, of))
	}
	return keys
}

// KeysOfNetworkObject returns a function that returns the key of a Service or router of the kind.
func KeysOfNetworkObject(kind string) client.IndexerFunc {
	return func(o client.Object) []string { return []string{NetworkKey(kind, o.GetName())} }
}

// KeysOfRollout returns the key of a Rollout in the index ByLinkedRollout.
func KeysOfRollout(o client.Object) []string { return []string{o.GetName()} }

// EnqueueByIndex returns a handler that enqueues the objects in the namespace of an event's object that have
// one of its keys in the index. The list determines the kind of the enqueued objects.
func EnqueueByIndex(s client.Reader, list func() client.ObjectList, index string, key client.IndexerFunc) handler.EventHandler {
	return EnqueueMapped(func(ctx context.Context, o client.Object) []reconcile.Request {
		var out []reconcile.Request
		for _, k := range key(o) {
			out = append(out, requestsFor(listCached(ctx, s, list(), client.InNamespace(o.GetNamespace()), client.MatchingFields{index: k}))...)
		}
		return out
	})
}

// EnqueueRouting returns a handler that enqueues all objects that route traffic, in all namespaces. It is for
// changes of scripts.
func EnqueueRouting(s client.Reader, list func() client.ObjectList) handler.EventHandler {
	return EnqueueMapped(func(ctx context.Context, _ client.Object) []reconcile.Request {
		return requestsFor(slices.DeleteFunc(listCached(ctx, s, list()), func(o object.Object) bool {
			_, rollout := o.(*v1beta1.Rollout)
			return rollout && len(NetworkKeys(o)) == 0
		}))
	})
}

// listCached lists objects without copying them. They must not be modified.
func listCached(ctx context.Context, s client.Reader, list client.ObjectList, which ...client.ListOption) []object.Object {
	found, err := listObjects(ctx, s, list, append(which, client.UnsafeDisableDeepCopy)...)
	if err != nil {
		return nil // the cache answers; it fails only when it is shut down
	}
	return found
}

// requestsFor returns a request for each object, except for BatchReleases with a Rollout.
func requestsFor(of []object.Object) []reconcile.Request {
	var out []reconcile.Request
	for _, o := range of {
		if b, is := o.(*v1beta1.BatchRelease); is && !hasNoRollout(b) {
			continue
		}
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
	}
	return out
}

// EnqueueRolloutsOfRouting returns a handler that enqueues the Rollouts that reference a TrafficRouting or
// have a finalizer on it.
func EnqueueRolloutsOfRouting(s client.Reader) handler.EventHandler {
	return EnqueueMapped(func(ctx context.Context, o client.Object) []reconcile.Request {
		woken := listCached(ctx, s, NewRolloutList(), client.InNamespace(o.GetNamespace()), client.MatchingFields{ByTrafficRouting: o.GetName()})
		for _, name := range LinkedRollouts(o) {
			woken = append(woken, &v1beta1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: name}})
		}
		return requestsFor(woken)
	})
}

// EnqueueWorkload returns a handler that enqueues the workload of a Rollout or BatchRelease, if the workload is
// of the kind.
func EnqueueWorkload(kind schema.GroupKind) handler.EventHandler {
	return EnqueueMapped(func(_ context.Context, o client.Object) []reconcile.Request {
		gk, name := WorkloadOf(o)
		if gk != kind || name == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
	})
}

// ObserveReleases returns a handler that calls changed when the release records of a Rollout change. It
// enqueues nothing.
func ObserveReleases(changed func(before, after *rollouts.Rollout)) handler.EventHandler {
	return handler.Funcs{UpdateFunc: func(_ context.Context, e event.UpdateEvent, _ queue) {
		recoverPanic("comparing the records", e.ObjectNew, func() (none struct{}) {
			old, next := e.ObjectOld.(*v1beta1.Rollout), e.ObjectNew.(*v1beta1.Rollout)
			if equality.Semantic.DeepEqual(old.Status.Releases, next.Status.Releases) {
				return none
			}
			before, err := convert[rollouts.Rollout](old)
			after, errAfter := convert[rollouts.Rollout](next)
			if err == nil && errAfter == nil {
				changed(before, after)
			}
			return none
		})
	}}
}

// WithoutRollout accepts BatchReleases without a Rollout, and those that are being deleted. The passes over a
// Rollout handle its BatchRelease.
func WithoutRollout() predicate.Predicate { return predicate.NewPredicateFuncs(hasNoRollout) }

func hasNoRollout(o client.Object) bool {
	ref := metav1.GetControllerOfNoCopy(o)
	return o.GetDeletionTimestamp() != nil || ref == nil || ref.Kind != "Rollout"
}

// NewRolloutList returns an empty list of Rollouts.
func NewRolloutList() client.ObjectList { return &v1beta1.RolloutList{} }

// NewBatchReleaseList returns an empty list of BatchReleases.
func NewBatchReleaseList() client.ObjectList { return &v1beta1.BatchReleaseList{} }

// NewTrafficRoutingList returns an empty list of TrafficRoutings.
func NewTrafficRoutingList() client.ObjectList { return &v1alpha1.TrafficRoutingList{} }

// Delay returns a handler that delays the requests of another handler. All events during the delay lead to
// one request.
func Delay(after time.Duration, h handler.EventHandler) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { h.Create(ctx, e, delayedQueue{q, after}) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { h.Update(ctx, e, delayedQueue{q, after}) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { h.Delete(ctx, e, delayedQueue{q, after}) },
	}
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

type delayedQueue struct {
	queue
	after time.Duration
}

// Add implements workqueue.TypedInterface.
func (d delayedQueue) Add(r reconcile.Request) { d.AddAfter(r, d.after) }
