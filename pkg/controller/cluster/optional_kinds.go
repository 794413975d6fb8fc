// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	expiring "k8s.io/apimachinery/pkg/util/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// OptionalKinds starts the watches of kinds that not every cluster serves. A watch starts when an object
// first references the kind, and lasts as long as the process. The permissions of weir-controller limit the
// number of kinds.
type OptionalKinds struct {
	mu    sync.Mutex
	kinds map[schema.GroupVersionKind]*kindState
}

// kindState is the state of one kind that the cluster serves.
type kindState struct {
	mu        sync.Mutex
	isWatched bool
	// forbidden has an entry while a recent list was forbidden.
	forbidden *expiring.Expiring
}

// forbiddenTTL is how long a forbidden list is remembered.
const forbiddenTTL = 10 * time.Second

// AggregateLabel on a ClusterRole adds its rules to those of weir-controller.
const AggregateLabel = "rollouts.kruise.io/aggregate-to-weir-controller"

// Unavailability is the reason why a kind cannot be read.
type Unavailability struct {
	// Reason is a message for users; empty if the kind can be read.
	Reason string
	// Forbidden reports whether only the permission is missing, so that objects may exist.
	Forbidden bool
}

// FindAndWatch finds a kind in one of the versions, or in any version if none is given, and starts its watch.
// It first tries a list, because an informer without permission to list would block all reads.
func (f *OptionalKinds) FindAndWatch(ctx context.Context, s Reader, kind schema.GroupKind, watch func(client.Object) error, versions ...string) (schema.GroupVersionKind, Unavailability, error) {
	mapping, err := s.RESTMapper().RESTMapping(kind, versions...)
	if meta.IsNoMatchError(err) {
		return schema.GroupVersionKind{}, Unavailability{Reason: fmt.Sprintf("the cluster does not serve %s; install what brings it", kind)}, nil
	}
	if err != nil {
		return schema.GroupVersionKind{}, Unavailability{}, fmt.Errorf("looking for %s: %w", kind, err)
	}
	gvk := mapping.GroupVersionKind
	k := f.stateOf(gvk)
	k.mu.Lock() // concurrent passes over the same kind share one list request
	defer k.mu.Unlock()
	if k.isWatched {
		return gvk, Unavailability{}, nil
	}
	if _, refused := k.forbidden.Get(gvk); refused {
		return gvk, forbiddenKind(kind), nil
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk)
	err = s.Live.List(ctx, list, client.Limit(1))
	if apierrors.IsForbidden(err) {
		k.forbidden.Set(gvk, nil, forbiddenTTL)
		return gvk, forbiddenKind(kind), nil
	}
	if err != nil {
		return gvk, Unavailability{}, fmt.Errorf("listing %s: %w", kind, err)
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(gvk)
	if err := watch(obj); err != nil {
		return gvk, Unavailability{}, fmt.Errorf("watching %s: %w", kind, err)
	}
	k.isWatched = true
	return gvk, Unavailability{}, nil
}

// forbiddenKind returns the Unavailability of a kind that weir-controller may not list.
func forbiddenKind(kind schema.GroupKind) Unavailability {
	return Unavailability{Forbidden: true, Reason: fmt.Sprintf("weir-controller may not list them in every namespace: "+
		"grant get, list, watch and patch of %s by a ClusterRole with the label %s: \"true\"", kind, AggregateLabel)}
}

// stateOf returns the state of a kind, and creates it if necessary.
func (f *OptionalKinds) stateOf(gvk schema.GroupVersionKind) *kindState {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kinds == nil {
		f.kinds = map[schema.GroupVersionKind]*kindState{}
	}
	if f.kinds[gvk] == nil {
		f.kinds[gvk] = &kindState{forbidden: expiring.NewExpiring()}
	}
	return f.kinds[gvk]
}

// HasFound reports whether FindAndWatch has found the kind before.
func (f *OptionalKinds) HasFound(kind schema.GroupKind) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for gvk := range f.kinds {
		if gvk.GroupKind() == kind {
			return true
		}
	}
	return false
}

// WorkloadKinds watches the kinds of workloads for a controller.
type WorkloadKinds struct {
	Controller controller.Controller
	Cache      cache.Cache
	// Releases returns an empty list of the kind that the controller reconciles.
	Releases func() client.ObjectList
	optional OptionalKinds
}

// WatchNative watches the workloads whose kinds every cluster serves.
func (k *WorkloadKinds) WatchNative(s Reader) error {
	for _, row := range workload.Kinds() {
		if !s.IsNative(row) {
			continue
		}
		if err := k.watchRow(s, row, SkipInitialList()); err != nil {
			return err
		}
	}
	return nil
}

// ownedEventDelay delays the events of objects that a workload owns, so that one pass handles several of
// them: the counts of a ReplicaSet change with every pod, a few milliseconds apart.
const ownedEventDelay = 50 * time.Millisecond

// watchRow watches the workloads of a row and the objects that they own.
func (k *WorkloadKinds) watchRow(s Reader, row workload.Row, predicates ...predicate.Predicate) error {
	gk := row.GVK.GroupKind()
	workloads := EnqueueByIndex(s, k.Releases, ByWorkload, KeysOfWorkload(gk))
	if err := k.Controller.Watch(source.Kind(k.Cache, s.NewStored(row.GVK), workloads, append(predicates, WorkloadChanged())...)); err != nil {
		return err
	}
	owned := Delay(ownedEventDelay, EnqueueByIndex(s, k.Releases, ByWorkload, KeysOfOwner(gk)))
	for _, kind := range row.Owns {
		if err := k.Controller.Watch(source.Kind(k.Cache, s.NewStored(kind), owned, append(predicates, OwnedChanged())...)); err != nil {
			return err
		}
	}
	return nil
}

// CheckAvailability returns the reason why the workloads of a row cannot be read. It starts the watch of an
// optional kind.
func (k *WorkloadKinds) CheckAvailability(ctx context.Context, s Reader, row workload.Row) (Unavailability, error) {
	if s.IsNative(row) {
		return Unavailability{}, nil
	}
	watch := func(client.Object) error { return k.watchRow(s, row) }
	_, absence, err := k.optional.FindAndWatch(ctx, s, row.GVK.GroupKind(), watch, row.GVK.Version)
	return absence, err
}

// IsNative reports whether every cluster serves the kind of a row.
func (s Reader) IsNative(row workload.Row) bool { return s.Scheme().Recognizes(row.GVK) }

// WorkloadResource returns the resource of a workload; empty if the cluster does not serve the kind, or if
// Weir cannot release it.
func (s Reader) WorkloadResource(ref *rollouts.ObjectRef) (schema.GroupResource, error) {
	if ref == nil {
		return schema.GroupResource{}, nil
	}
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	if _, released := workload.Find(ref.APIVersion, ref.Kind, rollouts.StylePartition); !released {
		return schema.GroupResource{}, nil
	}
	mapping, err := s.RESTMapper().RESTMapping(gvk.GroupKind())
	if meta.IsNoMatchError(err) {
		return schema.GroupResource{}, nil
	}
	if err != nil {
		return schema.GroupResource{}, fmt.Errorf("looking for %s: %w", gvk.GroupKind(), err)
	}
	return mapping.Resource.GroupResource(), nil
}

// NewDefinition returns an empty CustomResourceDefinition to watch.
func NewDefinition() *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	return o
}

// ServeDelay is the time that kube-apiserver may need to serve an accepted CustomResourceDefinition.
const ServeDelay = time.Second

// EnqueueUsersOfGroup enqueues the objects whose workload or routers have the API group of a changed
// CustomResourceDefinition. It waits until kube-apiserver serves the kind. The list determines the kind of
// objects.
func EnqueueUsersOfGroup(s client.Client, list func() client.ObjectList) handler.EventHandler {
	return Delay(ServeDelay, EnqueueMapped(func(ctx context.Context, o client.Object) []reconcile.Request {
		meta.MaybeResetRESTMapper(s.RESTMapper())
		group := schema.ParseGroupResource(o.GetName()).Group
		return requestsFor(listCached(ctx, s, list(), client.MatchingFields{ByGroup: group}))
	}))
}
