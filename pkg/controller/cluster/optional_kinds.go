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

// OptionalKinds knows the kinds that not every cluster serves. They are watched from
// the first time that somebody names one, for as long as the process runs: there are
// no more of them than an administrator has allowed to be listed.
type OptionalKinds struct {
	mu    sync.Mutex
	kinds map[schema.GroupVersionKind]*met
}

// met is what is known of a kind that the cluster serves.
type met struct {
	mu      sync.Mutex
	watched bool
	// refused has an entry while it may not be listed.
	refused *expiring.Expiring
}

// forbidden is how long it is remembered that a kind may not be listed.
const forbidden = 10 * time.Second

// AggregateLabel on a ClusterRole adds its rules to those of weir-controller.
const AggregateLabel = "rollouts.kruise.io/aggregate-to-weir-controller"

// Absence is why a kind cannot be read.
type Absence struct {
	// Why is for people; empty if the kind can be read.
	Why string
	// Forbidden reports whether there may be objects all the same.
	Forbidden bool
}

// Kind finds a kind in one of the versions, or in any if none is given, and has it
// watched by then. A cache that may not list would never answer, so who may not
// list reads nothing.
func (f *OptionalKinds) Kind(ctx context.Context, s Reader, kind schema.GroupKind, watch func(client.Object) error, versions ...string) (schema.GroupVersionKind, Absence, error) {
	mapping, err := s.RESTMapper().RESTMapping(kind, versions...)
	if meta.IsNoMatchError(err) {
		return schema.GroupVersionKind{}, Absence{Why: fmt.Sprintf("the cluster does not serve %s; install what brings it", kind)}, nil
	}
	if err != nil {
		return schema.GroupVersionKind{}, Absence{}, fmt.Errorf("looking for %s: %w", kind, err)
	}
	gvk := mapping.GroupVersionKind
	k := f.of(gvk)
	k.mu.Lock() // whoever else names the kind waits for the one answer
	defer k.mu.Unlock()
	if k.watched {
		return gvk, Absence{}, nil
	}
	if _, refused := k.refused.Get(gvk); refused {
		return gvk, unlisted(kind), nil
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk)
	err = s.Live.List(ctx, list, client.Limit(1))
	if apierrors.IsForbidden(err) {
		k.refused.Set(gvk, nil, forbidden)
		return gvk, unlisted(kind), nil
	}
	if err != nil {
		return gvk, Absence{}, fmt.Errorf("listing %s: %w", kind, err)
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(gvk)
	if err := watch(obj); err != nil {
		return gvk, Absence{}, fmt.Errorf("watching %s: %w", kind, err)
	}
	k.watched = true
	return gvk, Absence{}, nil
}

func unlisted(kind schema.GroupKind) Absence {
	return Absence{Forbidden: true, Why: fmt.Sprintf("weir-controller may not list them in every namespace: "+
		"grant get, list, watch and patch of %s by a ClusterRole with the label %s: \"true\"", kind, AggregateLabel)}
}

// of is what is known of a kind.
func (f *OptionalKinds) of(gvk schema.GroupVersionKind) *met {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kinds == nil {
		f.kinds = map[schema.GroupVersionKind]*met{}
	}
	if f.kinds[gvk] == nil {
		f.kinds[gvk] = &met{refused: expiring.NewExpiring()}
	}
	return f.kinds[gvk]
}

// Met reports whether a kind has been found before.
func (f *OptionalKinds) Met(kind schema.GroupKind) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for gvk := range f.kinds {
		if gvk.GroupKind() == kind {
			return true
		}
	}
	return false
}

// Kinds are those of workloads, as a controller watches them.
type Kinds struct {
	Controller controller.Controller
	Cache      cache.Cache
	// Releases is the list of what the controller reconciles.
	Releases func() client.ObjectList
	optional OptionalKinds
}

// WatchNative watches the rows whose kinds every cluster serves.
func (k *Kinds) WatchNative(s Reader) error {
	for _, row := range workload.Kinds() {
		if !s.Native(row) {
			continue
		}
		if err := k.watch(s, row, SinceStart()); err != nil {
			return err
		}
	}
	return nil
}

// gathering is how long what a workload owns is waited for to change again: its
// counts do with each pod, which come a few milliseconds apart.
const gathering = 50 * time.Millisecond

// watch watches the workloads of a row and what they own, as far as it passes.
func (k *Kinds) watch(s Reader, row workload.Row, passes ...predicate.Predicate) error {
	gk := row.GVK.GroupKind()
	is := Enqueue(s, k.Releases, ByWorkload, IsWorkload(gk))
	if err := k.Controller.Watch(source.Kind(k.Cache, s.Stored(row.GVK), is, append(passes, WorkloadChanged())...)); err != nil {
		return err
	}
	owned := Later(gathering, Enqueue(s, k.Releases, ByWorkload, OwnedByWorkload(gk)))
	for _, kind := range row.Owns {
		if err := k.Controller.Watch(source.Kind(k.Cache, s.Stored(kind), owned, append(passes, OwnedChanged())...)); err != nil {
			return err
		}
	}
	return nil
}

// Absent is the reason why the workloads of a row cannot be read.
func (k *Kinds) Absent(ctx context.Context, s Reader, row workload.Row) (Absence, error) {
	if s.Native(row) {
		return Absence{}, nil
	}
	watch := func(client.Object) error { return k.watch(s, row) }
	_, absence, err := k.optional.Kind(ctx, s, row.GVK.GroupKind(), watch, row.GVK.Version)
	return absence, err
}

// Native reports whether every cluster serves the kind of a row.
func (s Reader) Native(row workload.Row) bool { return s.Scheme().Recognizes(row.GVK) }

// Resource is that of a workload; empty where the cluster does not serve it, and
// where it is none.
func (s Reader) Resource(ref *rollouts.ObjectRef) (schema.GroupResource, error) {
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

// Definitions is an empty object of what brings kinds to a cluster, to watch.
func Definitions() *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	return o
}

// Served is how long kube-apiserver may take to serve a kind that it has accepted.
const Served = time.Second

// EnqueueDefined wakes those (Rollouts or BatchReleases, as the list says) that
// release a workload or name a router of the group of a definition, shortly after
// that has changed: what was not served may be by then.
func EnqueueDefined(s client.Client, list func() client.ObjectList) handler.EventHandler {
	return Later(Served, EnqueueMapped(func(ctx context.Context, o client.Object) []reconcile.Request {
		meta.MaybeResetRESTMapper(s.RESTMapper())
		group := schema.ParseGroupResource(o.GetName()).Group
		return requests(cached(ctx, s, list(), client.MatchingFields{ByGroup: group}))
	}))
}
