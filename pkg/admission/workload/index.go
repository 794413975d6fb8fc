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

// byWorkload names the index.
const byWorkload = "workload"

// Source is the endpoint of Rollouts in this process: what it answers needs no
// network, no encoding and no queue. It must not be changed.
type Source interface {
	List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error)
	Watch(ctx context.Context, options *metainternalversion.ListOptions) (watch.Interface, error)
}

// Index keeps the Rollouts by the workload that they name.
type Index struct {
	informer cache.SharedIndexInformer
	source   Source
	reads    *reads
}

var _ Rollouts = (*Index)(nil)

// NewIndex watches the source.
func NewIndex(source Source) (*Index, error) {
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			internal, err := everywhere(options)
			if err != nil {
				return nil, err
			}
			return source.List(ctx, internal)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			internal, err := everywhere(options)
			if err != nil {
				return nil, err
			}
			w, err := source.Watch(ctx, internal)
			if err != nil {
				return nil, err
			}
			return watch.Filter(w, unwrapped), nil
		},
	}, &rollouts.Rollout{}, 0, cache.Indexers{
		byWorkload: func(obj any) ([]string, error) {
			r, ok := obj.(*rollouts.Rollout)
			if !ok || r.Spec.WorkloadRef == nil {
				return nil, nil
			}
			return []string{keyOf(r.Namespace, *r.Spec.WorkloadRef)}, nil
		},
	})
	if err := informer.SetTransform(cache.TransformFunc(unmanaged)); err != nil {
		return nil, fmt.Errorf("preparing the index of rollouts: %w", err)
	}
	return &Index{informer: informer, source: source, reads: newReads(source)}, nil
}

// everywhere are the options of a request for all namespaces.
func everywhere(options metav1.ListOptions) (*metainternalversion.ListOptions, error) {
	var internal metainternalversion.ListOptions
	if err := metainternalversion.Convert_v1_ListOptions_To_internalversion_ListOptions(&options, &internal, nil); err != nil {
		return nil, fmt.Errorf("converting the options of a request: %w", err)
	}
	return &internal, nil
}

// unwrapped is the object of an event that was about to be encoded for several
// watchers.
func unwrapped(e watch.Event) (watch.Event, bool) {
	if wrapped, ok := e.Object.(runtime.CacheableObject); ok {
		e.Object = wrapped.GetObject()
	}
	return e, true
}

// unmanaged drops what admission does not read.
func unmanaged(obj any) (any, error) {
	if r, ok := obj.(*rollouts.Rollout); ok {
		r.ManagedFields = nil
	}
	return obj, nil
}

// Run watches until the context ends.
func (i *Index) Run(ctx context.Context) {
	i.informer.RunWithContext(ctx)
}

// Naming implements Rollouts. The oldest comes first, should there be several.
func (i *Index) Naming(namespace string, ref rollouts.ObjectRef) ([]*rollouts.Rollout, error) {
	if !i.informer.HasSynced() {
		return nil, errors.New("the rollouts are not read yet")
	}
	found, err := i.informer.GetIndexer().ByIndex(byWorkload, keyOf(namespace, ref))
	if err != nil {
		return nil, fmt.Errorf("looking up the rollouts of %s: %w", ref.Name, err)
	}
	var named []*rollouts.Rollout
	for _, obj := range found {
		if r, ok := obj.(*rollouts.Rollout); ok {
			named = append(named, r)
		}
	}
	slices.SortFunc(named, older)
	return named, nil
}

// Stored implements Rollouts.
func (i *Index) Stored(ctx context.Context, namespace string, ref rollouts.ObjectRef) ([]*rollouts.Rollout, error) {
	list, err := i.reads.list(ctx, namespace)
	if err != nil {
		return nil, fmt.Errorf("reading the rollouts of %s: %w", namespace, err)
	}
	var named []*rollouts.Rollout
	for n := range list.Items {
		r := &list.Items[n]
		if r.Spec.WorkloadRef != nil && keyOf(namespace, *r.Spec.WorkloadRef) == keyOf(namespace, ref) {
			named = append(named, r)
		}
	}
	slices.SortFunc(named, older)
	return named, nil
}

func older(a, b *rollouts.Rollout) int {
	if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// keyOf leaves the version out: it does not make another workload.
func keyOf(namespace string, ref rollouts.ObjectRef) string {
	group := ref.APIVersion
	if gv, err := schema.ParseGroupVersion(ref.APIVersion); err == nil {
		group = gv.Group
	}
	return strings.Join([]string{namespace, group, ref.Kind, ref.Name}, "/")
}
