// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// workloadIndex is the name of the index by workload.
const workloadIndex = "workload"

// Source is the storage of Rollouts in this process. Calling it needs no network, no encoding and no queue.
// Callers must not change the objects that it returns.
type Source interface {
	List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error)
	Watch(ctx context.Context, options *metainternalversion.ListOptions) (watch.Interface, error)
}

// Index caches the Rollouts, indexed by the workload that they reference.
type Index struct {
	informer cache.SharedIndexInformer
	source   Source
	live     *liveReader
}

var _ RolloutFinder = (*Index)(nil)

// NewIndex returns an index of the Rollouts of source. Run starts it.
func NewIndex(source Source) (*Index, error) {
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			internal, err := toInternalOptions(options)
			if err != nil {
				return nil, err
			}
			return source.List(ctx, internal)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			internal, err := toInternalOptions(options)
			if err != nil {
				return nil, err
			}
			w, err := source.Watch(ctx, internal)
			if err != nil {
				return nil, err
			}
			return watch.Filter(w, unwrapEvent), nil
		},
	}, &rollouts.Rollout{}, 0, cache.Indexers{
		workloadIndex: func(obj any) ([]string, error) {
			r, ok := obj.(*rollouts.Rollout)
			if !ok || r.Spec.WorkloadRef == nil {
				return nil, nil
			}
			return []string{indexKey(r.Namespace, *r.Spec.WorkloadRef)}, nil
		},
	})
	if err := informer.SetTransform(cache.TransformFunc(dropManagedFields)); err != nil {
		return nil, fmt.Errorf("preparing the index of rollouts: %w", err)
	}
	return &Index{informer: informer, source: source, live: newLiveReader(source)}, nil
}

// toInternalOptions converts list options to the type that storages take.
func toInternalOptions(options metav1.ListOptions) (*metainternalversion.ListOptions, error) {
	var internal metainternalversion.ListOptions
	if err := metainternalversion.Convert_v1_ListOptions_To_internalversion_ListOptions(&options, &internal, nil); err != nil {
		return nil, fmt.Errorf("converting the options of a request: %w", err)
	}
	return &internal, nil
}

// unwrapEvent replaces an object that is prepared for encoding to several watchers by the object itself.
func unwrapEvent(e watch.Event) (watch.Event, bool) {
	if wrapped, ok := e.Object.(runtime.CacheableObject); ok {
		e.Object = wrapped.GetObject()
	}
	return e, true
}

// dropManagedFields removes the managed fields, which admission does not read.
func dropManagedFields(obj any) (any, error) {
	if r, ok := obj.(*rollouts.Rollout); ok {
		r.ManagedFields = nil
	}
	return obj, nil
}

// Run watches the source until the context ends.
func (i *Index) Run(ctx context.Context) {
	i.informer.RunWithContext(ctx)
}

// ListCached implements RolloutFinder. It returns the oldest Rollout first.
func (i *Index) ListCached(namespace string, ref rollouts.ObjectRef) ([]*rollouts.Rollout, error) {
	if !i.informer.HasSynced() {
		return nil, errors.New("the rollouts are not read yet")
	}
	found, err := i.informer.GetIndexer().ByIndex(workloadIndex, indexKey(namespace, ref))
	if err != nil {
		return nil, fmt.Errorf("looking up the rollouts of %s: %w", ref.Name, err)
	}
	var named []*rollouts.Rollout
	for _, obj := range found {
		if r, ok := obj.(*rollouts.Rollout); ok {
			named = append(named, r)
		}
	}
	slices.SortFunc(named, compareAge)
	return named, nil
}

// ListLive implements RolloutFinder. It returns the oldest Rollout first.
func (i *Index) ListLive(ctx context.Context, namespace string, ref rollouts.ObjectRef) ([]*rollouts.Rollout, error) {
	list, err := i.live.list(ctx, namespace)
	if err != nil {
		return nil, fmt.Errorf("reading the rollouts of %s: %w", namespace, err)
	}
	var named []*rollouts.Rollout
	for n := range list.Items {
		r := &list.Items[n]
		if r.Spec.WorkloadRef != nil && indexKey(namespace, *r.Spec.WorkloadRef) == indexKey(namespace, ref) {
			named = append(named, r)
		}
	}
	slices.SortFunc(named, compareAge)
	return named, nil
}

func compareAge(a, b *rollouts.Rollout) int {
	if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// indexKey identifies a workload. It omits the API version, because all versions are the same workload.
func indexKey(namespace string, ref rollouts.ObjectRef) string {
	group := ref.APIVersion
	if gv, err := schema.ParseGroupVersion(ref.APIVersion); err == nil {
		group = gv.Group
	}
	return strings.Join([]string{namespace, group, ref.Kind, ref.Name}, "/")
}
