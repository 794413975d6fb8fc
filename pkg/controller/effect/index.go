// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package effect

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// Entry is what the index says of one Rollout.
type Entry struct {
	// index is the cache's own, and may have thousands of entries: nobody changes it.
	index              *corev1.ConfigMap
	namespace, rollout string
	key                string
	// Listed tells that it names the Rollout, and Right that it does so for the
	// workload alone.
	Listed, Right bool
}

// Entry reads what the index says of a Rollout that releases a workload.
func (s Server) Entry(ctx context.Context, r types.NamespacedName, ref *rollouts.ObjectRef) (*Entry, error) {
	index, err := get(ctx, s.Indexes, r.Namespace, rollouts.IndexName, &corev1.ConfigMap{}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, err
	}
	e := &Entry{index: index, namespace: r.Namespace, rollout: r.Name}
	if ref != nil {
		e.key = workload.IndexKey(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind(), ref.Name)
	}
	entries := workload.Entries(index, r.Name)
	e.Listed = len(entries) > 0
	e.Right = slices.Equal(entries, []string{e.key})
	if !workload.Indexable(e.key) {
		e.key, e.Right = "", !e.Listed
	}
	return e, nil
}

// stands tells that an index says the same of the Rollout and of its workload as
// the one that was read.
func (e *Entry) stands(index *corev1.ConfigMap) bool {
	if index == e.index {
		return true
	}
	was, now := workload.Entries(e.index, e.rollout), workload.Entries(index, e.rollout)
	slices.Sort(was)
	slices.Sort(now)
	return slices.Equal(was, now) && by(e.index, e.key) == by(index, e.key)
}

func by(index *corev1.ConfigMap, key string) string {
	if index == nil {
		return ""
	}
	return index.Data[key]
}

// WatchIndexes wakes the Rollouts that a change of an index is about.
func (s Server) WatchIndexes(indexes cache.Cache) source.Source {
	return source.Kind(indexes, &corev1.ConfigMap{}, s.AboutIndexes())
}

// AboutIndexes wakes those whose entries an update changes. Where an index comes,
// goes, or is made one, these are all of the namespace, and those that it names,
// whether they exist or not.
func (s Server) AboutIndexes() handler.TypedEventHandler[*corev1.ConfigMap, reconcile.Request] {
	return handler.TypedFuncs[*corev1.ConfigMap, reconcile.Request]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*corev1.ConfigMap], q queue) {
			wake(e.Object.Namespace, s.concerned(ctx, e.Object), q)
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*corev1.ConfigMap], q queue) {
			wake(e.Object.Namespace, s.concerned(ctx, e.Object), q)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*corev1.ConfigMap], q queue) {
			names := changed(e.ObjectOld.Data, e.ObjectNew.Data)
			if !maps.Equal(e.ObjectOld.Labels, e.ObjectNew.Labels) {
				names = names.Union(s.concerned(ctx, e.ObjectNew))
			}
			wake(e.ObjectNew.Namespace, names, q)
		},
	}
}

func wake(namespace string, names sets.Set[string], q queue) {
	for name := range names.Delete("") {
		q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
	}
}

// concerned are all Rollouts of the namespace of an index, and all that it names.
func (s Server) concerned(ctx context.Context, index *corev1.ConfigMap) sets.Set[string] {
	names := sets.New(slices.Collect(maps.Values(index.Data))...)
	var list v1beta1.RolloutList
	if err := s.List(ctx, &list, client.InNamespace(index.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return names // the cache answers; it fails only when it is shut down
	}
	for i := range list.Items {
		names.Insert(list.Items[i].Name)
	}
	return names
}

// changed are the Rollouts that one index names otherwise than the other.
func changed(old, now map[string]string) sets.Set[string] {
	names := sets.New[string]()
	for key, was := range old {
		if is, ok := now[key]; is != was {
			names.Insert(was)
			if ok {
				names.Insert(is)
			}
		}
	}
	for key, is := range now {
		if _, ok := old[key]; !ok {
			names.Insert(is)
		}
	}
	return names
}

// Gone tells that the server has no such Rollout.
func (s Server) Gone(ctx context.Context, key types.NamespacedName) (bool, error) {
	r := &metav1.PartialObjectMetadata{}
	r.SetGroupVersionKind(v1beta1.SchemeGroupVersion.WithKind("Rollout"))
	err := s.Live.Get(ctx, key, r)
	return err != nil && client.IgnoreNotFound(err) == nil, client.IgnoreNotFound(err)
}
