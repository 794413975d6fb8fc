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

// Entry is what the index says of one Rollout.
type Entry struct {
	// Index is the cache's own, and may have thousands of entries: nobody changes it.
	Index   *corev1.ConfigMap
	Rollout types.NamespacedName
	// Key is that of the workload; empty where there is none.
	Key string
	// Listed reports whether it names the Rollout, and Right that it does so for the
	// workload alone, or not at all where it cannot.
	Listed, Right bool
	// Unlisted says why it cannot name the workload.
	Unlisted string
}

// Entry reads what the index says of a Rollout that releases a workload.
func (s Reader) Entry(ctx context.Context, r types.NamespacedName, ref *rollouts.ObjectRef) (*Entry, error) {
	index, err := get(ctx, s.Indexes, r.Namespace, rollouts.IndexName, &corev1.ConfigMap{}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, err
	}
	e := EntryIn(index, r, ref)
	if e.Unlisted, err = whyUnlisted(ctx, s, e); e.Unlisted != "" || e.Key == "" {
		e.Key, e.Right = "", !e.Listed
	}
	return e, err
}

// EntryIn is what an index says of a Rollout that releases a workload.
func EntryIn(index *corev1.ConfigMap, r types.NamespacedName, ref *rollouts.ObjectRef) *Entry {
	e := &Entry{Index: index, Rollout: r}
	if ref != nil {
		e.Key = workload.IndexKey(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind(), ref.Name)
	}
	entries := workload.IndexKeys(index, r.Name)
	e.Listed, e.Right = len(entries) > 0, slices.Equal(entries, []string{e.Key})
	return e
}

// whyUnlisted says why an index cannot name a workload. What names no Rollout makes room.
func whyUnlisted(ctx context.Context, s Reader, e *Entry) (string, error) {
	switch {
	case e.Key == "" || e.Right:
		return "", nil
	case !workload.Indexable(e.Key):
		return "its kind, group and name together exceed the length of a key in the ConfigMap " + rollouts.IndexName + ", so that no policy holds it; give the workload a shorter name", nil
	case workload.FitsIndex(e.Index, e.Key, e.Rollout.Name, nil):
		return "", nil
	}
	strangers, err := strangers(ctx, s, e.Rollout.Namespace, e.Index)
	if err != nil || workload.FitsIndex(e.Index, e.Key, e.Rollout.Name, strangers) {
		return "", err
	}
	return "the ConfigMap " + rollouts.IndexName + " of the namespace has no room for it; move some workloads to another namespace", nil
}

// strangers are what an index names that is no Rollout. Where it names more than
// is known, the server is asked, once for all of them.
func strangers(ctx context.Context, s Reader, namespace string, index *corev1.ConfigMap) (sets.Set[string], error) {
	if index == nil {
		return nil, nil
	}
	known, err := namesIn(ctx, s, Rollouts(), client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, err
	}
	names := named(index).Difference(known)
	if len(names) == 0 {
		return nil, nil
	}
	live, err := namesIn(ctx, s.Live, metadata(v1beta1.SchemeGroupVersion.WithKind("Rollout")), client.InNamespace(namespace))
	if err != nil {
		return nil, fmt.Errorf("listing the Rollouts that %s may name: %w", rollouts.IndexName, err)
	}
	return names.Difference(live), nil
}

// named are the Rollouts that an index names.
func named(index *corev1.ConfigMap) sets.Set[string] {
	return sets.New(slices.Collect(maps.Values(index.Data))...)
}

// stands reports whether an index says the same of the Rollout and of its workload as
// the one that was read.
func (e *Entry) stands(index *corev1.ConfigMap) bool {
	if index == e.Index {
		return true
	}
	was, now := workload.IndexKeys(e.Index, e.Rollout.Name), workload.IndexKeys(index, e.Rollout.Name)
	slices.Sort(was)
	slices.Sort(now)
	return slices.Equal(was, now) && by(e.Index, e.Key) == by(index, e.Key)
}

func by(index *corev1.ConfigMap, key string) string {
	if index == nil {
		return ""
	}
	return index.Data[key]
}

// WatchIndexes wakes the Rollouts that a change of an index is about.
func WatchIndexes(s client.Reader, indexes cache.Cache) source.Source {
	return source.Kind(indexes, &corev1.ConfigMap{}, AboutIndexes(s))
}

// AboutIndexes wakes those whose entries an update changes. Where an index comes,
// goes, or is made one, these are all of the namespace, and those that it names. Of
// those that do not exist one is enough: it takes all of them out.
func AboutIndexes(s client.Reader) handler.TypedEventHandler[*corev1.ConfigMap, reconcile.Request] {
	all := func(ctx context.Context, index *corev1.ConfigMap, q queue) {
		wake(ctx, s, index.Namespace, named(index), true, q)
	}
	return handler.TypedFuncs[*corev1.ConfigMap, reconcile.Request]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*corev1.ConfigMap], q queue) { all(ctx, e.Object, q) },
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*corev1.ConfigMap], q queue) { all(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*corev1.ConfigMap], q queue) {
			names, all := changed(e.ObjectOld.Data, e.ObjectNew.Data), !maps.Equal(e.ObjectOld.Labels, e.ObjectNew.Labels)
			if all {
				names = names.Union(named(e.ObjectNew))
			}
			wake(ctx, s, e.ObjectNew.Namespace, names, all, q)
		},
	}
}

// wake wakes the Rollouts of such names, or all of the namespace, and one of those
// that do not exist.
func wake(ctx context.Context, s client.Reader, namespace string, names sets.Set[string], all bool, q queue) {
	known, err := namesIn(ctx, s, Rollouts(), client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
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

// changed are the Rollouts that one index names otherwise than the other.
func changed(old, now map[string]string) sets.Set[string] {
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

// Gone reports whether the server has no such Rollout.
func (s Reader) Gone(ctx context.Context, e *Entry) (bool, error) {
	strangers, err := strangers(ctx, s, e.Rollout.Namespace, e.Index)
	return strangers.Has(e.Rollout.Name), err
}
