// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
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

// IndexEntry is the entry of one Rollout in rollouts-index, the ConfigMap that tells the policies which
// workloads have a Rollout.
type IndexEntry struct {
	// Index belongs to the cache and may have thousands of entries. It must not be modified.
	Index   *corev1.ConfigMap
	Rollout types.NamespacedName
	// Key is the key of the workload; empty if there is none.
	Key string
	// IsListed reports whether the index has any entry of the Rollout.
	IsListed bool
	// IsCorrect reports whether the only entry of the Rollout is the one of its workload, or whether there is
	// no entry if the index cannot have one.
	IsCorrect bool
	// UnlistedReason is the reason why the index cannot have an entry for the workload; empty if it can.
	UnlistedReason string
}

// IndexEntry reads the entry of a Rollout that releases the workload ref.
func (s Reader) IndexEntry(ctx context.Context, r types.NamespacedName, ref *rollouts.ObjectRef) (*IndexEntry, error) {
	index, err := get(ctx, s.Indexes, r.Namespace, rollouts.IndexName, &corev1.ConfigMap{}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, err
	}
	e := ReadIndexEntry(index, r, ref)
	if e.UnlistedReason, err = unlistedReason(ctx, s, e); e.UnlistedReason != "" || e.Key == "" {
		e.Key, e.IsCorrect = "", !e.IsListed
	}
	return e, err
}

// ReadIndexEntry returns the entry in index of a Rollout that releases the workload ref.
func ReadIndexEntry(index *corev1.ConfigMap, r types.NamespacedName, ref *rollouts.ObjectRef) *IndexEntry {
	e := &IndexEntry{Index: index, Rollout: r}
	if ref != nil {
		e.Key = workload.IndexKey(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind(), ref.Name)
	}
	entries := workload.IndexKeys(index, r.Name)
	e.IsListed, e.IsCorrect = len(entries) > 0, slices.Equal(entries, []string{e.Key})
	return e
}

// unlistedReason returns the reason why an index cannot have an entry for a workload; empty if it can.
// Entries of deleted Rollouts do not count, because a write removes them.
func unlistedReason(ctx context.Context, s Reader, e *IndexEntry) (string, error) {
	switch {
	case e.Key == "" || e.IsCorrect:
		return "", nil
	case !workload.Indexable(e.Key):
		return "its kind, group and name together exceed the length of a key in the ConfigMap " + rollouts.IndexName + ", so that no policy holds it; give the workload a shorter name", nil
	case workload.FitsIndex(e.Index, e.Key, e.Rollout.Name, nil):
		return "", nil
	}
	strangers, err := staleNames(ctx, s, e.Rollout.Namespace, e.Index)
	if err != nil || workload.FitsIndex(e.Index, e.Key, e.Rollout.Name, strangers) {
		return "", err
	}
	return "the ConfigMap " + rollouts.IndexName + " of the namespace has no room for it; move some workloads to another namespace", nil
}

// staleNames returns the names in an index that belong to no Rollout. If the cache does not have all names,
// staleNames asks the server, with one list request.
func staleNames(ctx context.Context, s Reader, namespace string, index *corev1.ConfigMap) (sets.Set[string], error) {
	if index == nil {
		return nil, nil
	}
	known, err := listNames(ctx, s, NewRolloutList(), client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, err
	}
	names := rolloutNames(index).Difference(known)
	if len(names) == 0 {
		return nil, nil
	}
	live, err := listNames(ctx, s.Live, newMetadataList(v1beta1.SchemeGroupVersion.WithKind("Rollout")), client.InNamespace(namespace))
	if err != nil {
		return nil, fmt.Errorf("listing the Rollouts that %s may name: %w", rollouts.IndexName, err)
	}
	return names.Difference(live), nil
}

// rolloutNames returns the names of the Rollouts in an index.
func rolloutNames(index *corev1.ConfigMap) sets.Set[string] {
	return sets.New(slices.Collect(maps.Values(index.Data))...)
}

// isCurrent reports whether an index still has the same entries for the Rollout and for its workload as the
// index that was read.
func (e *IndexEntry) isCurrent(index *corev1.ConfigMap) bool {
	if index == e.Index {
		return true
	}
	was, now := workload.IndexKeys(e.Index, e.Rollout.Name), workload.IndexKeys(index, e.Rollout.Name)
	slices.Sort(was)
	slices.Sort(now)
	return slices.Equal(was, now) && rolloutAt(e.Index, e.Key) == rolloutAt(index, e.Key)
}

func rolloutAt(index *corev1.ConfigMap, key string) string {
	if index == nil {
		return ""
	}
	return index.Data[key]
}

// WatchIndexes enqueues the Rollouts whose index entries change.
func WatchIndexes(s client.Reader, indexes cache.Cache) source.Source {
	return source.Kind(indexes, &corev1.ConfigMap{}, EnqueueIndexed(s))
}

// EnqueueIndexed enqueues the Rollouts whose entries an update changes. If an index is created or deleted,
// or gets other labels, it enqueues all Rollouts of the namespace. Of the names without a Rollout it
// enqueues only one, because one pass removes all stale names.
func EnqueueIndexed(s client.Reader) handler.TypedEventHandler[*corev1.ConfigMap, reconcile.Request] {
	all := func(ctx context.Context, index *corev1.ConfigMap, q queue) {
		enqueueNames(ctx, s, index.Namespace, rolloutNames(index), true, q)
	}
	return handler.TypedFuncs[*corev1.ConfigMap, reconcile.Request]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*corev1.ConfigMap], q queue) { all(ctx, e.Object, q) },
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*corev1.ConfigMap], q queue) { all(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*corev1.ConfigMap], q queue) {
			names, all := changedNames(e.ObjectOld.Data, e.ObjectNew.Data), !maps.Equal(e.ObjectOld.Labels, e.ObjectNew.Labels)
			if all {
				names = names.Union(rolloutNames(e.ObjectNew))
			}
			enqueueNames(ctx, s, e.ObjectNew.Namespace, names, all, q)
		},
	}
}

// enqueueNames enqueues the Rollouts with the names, or all of the namespace, and one of the names that
// have no Rollout.
func enqueueNames(ctx context.Context, s client.Reader, namespace string, names sets.Set[string], all bool, q queue) {
	known, err := listNames(ctx, s, NewRolloutList(), client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
	if err != nil {
		return // the cache answers; it fails only when it is shut down
	}
	strangers := names.Difference(known).Delete("").UnsortedList()
	if !all {
		known = known.Intersection(names)
	}
	if len(strangers) > 0 {
		known.Insert(slices.Min(strangers))
	}
	for name := range known {
		q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
	}
}

// changedNames returns the names of the Rollouts whose entries differ.
func changedNames(old, now map[string]string) sets.Set[string] {
	names := sets.New[string]()
	differ := func(here, there map[string]string) {
		for key, name := range here {
			if other, ok := there[key]; !ok || other != name {
				names.Insert(name)
			}
		}
	}
	differ(old, now)
	differ(now, old)
	return names
}

// IsRolloutGone reports whether the Rollout of an entry does not exist on the server.
func (s Reader) IsRolloutGone(ctx context.Context, e *IndexEntry) (bool, error) {
	strangers, err := staleNames(ctx, s, e.Rollout.Namespace, e.Index)
	return strangers.Has(e.Rollout.Name), err
}
