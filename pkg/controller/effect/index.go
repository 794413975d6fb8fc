// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package effect

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// Entry is what the index says of one Rollout.
type Entry struct {
	index              *corev1.ConfigMap
	namespace, rollout string
	key                string
	// Listed tells that it names the Rollout, and Right that it does so for the
	// workload alone.
	Listed, Right bool
}

// Entry reads what the index says of a Rollout that releases a workload.
func (s Server) Entry(ctx context.Context, r types.NamespacedName, ref *rollouts.ObjectRef) (*Entry, error) {
	index, err := get(ctx, s.Indexes, r.Namespace, rollouts.IndexName, &corev1.ConfigMap{})
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

// Enter makes it right.
func (e *Entry) Enter() []object.Change {
	return workload.Enter(e.index, e.namespace, e.rollout, e.key)
}

// Strike takes it out.
func (e *Entry) Strike() []object.Change {
	return workload.Enter(e.index, e.namespace, e.rollout, "")
}

// WatchIndexes wakes the Rollouts of the namespace, and those that an index names,
// whether they exist or not.
func (s Server) WatchIndexes(indexes cache.Cache) source.Source {
	return source.Kind(indexes, &corev1.ConfigMap{}, handler.TypedEnqueueRequestsFromMapFunc(
		func(ctx context.Context, index *corev1.ConfigMap) []reconcile.Request {
			names := map[string]bool{}
			for _, by := range index.Data {
				names[by] = true
			}
			var all v1beta1.RolloutList
			if err := s.List(ctx, &all, client.InNamespace(index.Namespace), client.UnsafeDisableDeepCopy); err != nil {
				return nil // the cache answers; it fails only when it is shut down
			}
			for _, r := range all.Items {
				names[r.Name] = true
			}
			var out []reconcile.Request
			for name := range names {
				out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: index.Namespace, Name: name}})
			}
			return out
		}))
}

// Gone tells that the server has no such Rollout.
func (s Server) Gone(ctx context.Context, key types.NamespacedName) (bool, error) {
	r := &metav1.PartialObjectMetadata{}
	r.SetGroupVersionKind(v1beta1.SchemeGroupVersion.WithKind("Rollout"))
	err := s.Live.Get(ctx, key, r)
	return err != nil && client.IgnoreNotFound(err) == nil, client.IgnoreNotFound(err)
}
