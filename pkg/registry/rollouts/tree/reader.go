// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/view"
)

// reader answers one question about objects of a namespace.
type reader func(context.Context, view.Read) ([]object.Object, error)

var errNoCluster = errors.New("the server has no cluster")

// flight reads for all that ask at the same time, each question once.
type flight struct {
	mu    sync.Mutex
	live  reader
	reads map[view.Read]func() ([]object.Object, error)
}

// flight joins the one that reads about a Rollout, or begins another, which ends after a
// while.
func (t *REST) flight(key types.NamespacedName) *flight {
	f, begun := t.joined(key)
	if begun {
		t.Clock.AfterFunc(gathering, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			delete(t.flights, key)
		})
	}
	return f
}

func (t *REST) joined(key types.NamespacedName) (f *flight, begun bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.flights[key]; f != nil {
		return f, false
	}
	f = &flight{reads: map[view.Read]func() ([]object.Object, error){}, live: t.live(key.Namespace)}
	t.flights[key] = f
	return f, true
}

// read goes on for the others when the one that began it has gone.
func (f *flight) read(ctx context.Context, r view.Read) ([]object.Object, error) {
	f.mu.Lock()
	if f.reads[r] == nil {
		f.reads[r] = sync.OnceValues(func() ([]object.Object, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
			defer cancel()
			return f.live(ctx, r)
		})
	}
	read := f.reads[r]
	f.mu.Unlock()
	return read()
}

// live reads once, from what the API server has in memory.
func (t *REST) live(namespace string) reader {
	return func(ctx context.Context, r view.Read) ([]object.Object, error) {
		options := metav1.ListOptions{ResourceVersion: "0"}
		narrow(r, &options)
		if store := t.store(r); store != nil {
			return listed(genericapirequest.WithNamespace(ctx, namespace), store, options)
		}
		if t.Cluster == nil {
			return nil, errNoCluster
		}
		list, err := t.Cluster.Resource(r.Resource()).Namespace(namespace).List(ctx, options)
		if apierrors.IsNotFound(err) {
			return nil, nil // the cluster does not serve the kind
		}
		if err != nil {
			return nil, err
		}
		var found []object.Object
		for i := range list.Items {
			o, err := r.Trimmed(&list.Items[i])
			if err != nil {
				return nil, err
			}
			found = append(found, o)
		}
		return found, nil
	}
}

// narrow asks for what is read, and no more.
func narrow(r view.Read, options *metav1.ListOptions) {
	options.LabelSelector = r.Labels
	if r.Name != "" {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, r.Name).String()
	}
}

// store is the endpoint that serves the kind in this process; nil if the cluster does.
func (t *REST) store(r view.Read) Store {
	switch {
	case r.Kind.Group != rollouts.GroupName:
		return nil
	case r.Kind.Kind == "Rollout":
		return t.Rollouts
	default:
		return t.BatchReleases
	}
}

func listed(ctx context.Context, from Store, options metav1.ListOptions) ([]object.Object, error) {
	list, err := listedBy(ctx, from, options)
	if err != nil {
		return nil, err
	}
	var found []object.Object
	err = meta.EachListItem(list, func(item runtime.Object) error {
		if o, ok := item.(object.Object); ok {
			found = append(found, o)
		}
		return nil
	})
	return found, err
}

func listedBy(ctx context.Context, from Store, options metav1.ListOptions) (runtime.Object, error) {
	internal, err := internalOptions(options)
	if err != nil {
		return nil, err
	}
	return from.List(ctx, internal)
}

func internalOptions(options metav1.ListOptions) (*metainternalversion.ListOptions, error) {
	var internal metainternalversion.ListOptions
	if err := metainternalversion.Convert_v1_ListOptions_To_internalversion_ListOptions(&options, &internal, nil); err != nil {
		return nil, fmt.Errorf("converting the options of a request: %w", err)
	}
	return &internal, nil
}

// informer watches what one question is about.
type informer struct {
	cache.SharedIndexInformer
	cancel context.CancelFunc
	mu     sync.Mutex
	// failed is what the last attempt to watch came to.
	failed error
	// tried is closed by the first failure.
	tried chan struct{}
}

// newInformer makes an informer that wakes somebody when something changes.
func (t *REST) newInformer(namespace string, r view.Read, wake func()) (*informer, error) {
	i := &informer{tried: make(chan struct{})}
	store := t.store(r)
	switch {
	case store != nil:
		i.SharedIndexInformer = cache.NewSharedIndexInformer(watched(store, namespace, r), nil, 0, cache.Indexers{})
	case t.Cluster == nil:
		return nil, errNoCluster
	default:
		i.SharedIndexInformer = dynamicinformer.NewFilteredDynamicInformer(t.Cluster, r.Resource(), namespace, 0, cache.Indexers{},
			func(options *metav1.ListOptions) { narrow(r, options) }).Informer()
	}
	_, added := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { wake() }, UpdateFunc: func(any, any) { wake() }, DeleteFunc: func(any) { wake() },
	})
	return i, errors.Join(added,
		i.SetTransform(func(obj any) (any, error) { return trimmed(r, obj) }),
		i.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { i.fail(err) }),
	)
}

// trimmed is an object of a list or of an event as it is kept.
func trimmed(r view.Read, obj any) (any, error) {
	switch o := obj.(type) {
	case *unstructured.Unstructured:
		return r.Trimmed(o)
	case runtime.CacheableObject: // was about to be encoded for several watchers
		return o.GetObject(), nil
	default:
		return obj, nil
	}
}

func (i *informer) fail(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.failed == nil {
		close(i.tried)
	}
	i.failed = err
}

func (i *informer) failure() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.failed
}

// objects are what is there, once that is known. A kind that the cluster does not serve
// has none.
func (i *informer) objects(ctx context.Context) ([]object.Object, error) {
	select {
	case <-i.HasSyncedChecker().Done():
	case <-i.tried:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := i.failure(); err != nil && !cache.IsDone(i.HasSyncedChecker()) {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, err
	}
	var found []object.Object
	for _, obj := range i.GetStore().List() {
		if o, ok := obj.(object.Object); ok {
			found = append(found, o)
		}
	}
	return found, nil
}

// watched lists and watches an endpoint of this process.
func watched(from Store, namespace string, r view.Read) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			narrow(r, &options)
			return listedBy(genericapirequest.WithNamespace(ctx, namespace), from, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			narrow(r, &options)
			internal, err := internalOptions(options)
			if err != nil {
				return nil, err
			}
			return from.Watch(genericapirequest.WithNamespace(ctx, namespace), internal)
		},
	}
}
