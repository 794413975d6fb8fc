// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"context"
	"errors"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/look"
	"github.com/weir-rollouts/weir/pkg/view"
)

// flight reads for all that ask at the same time, each question once.
type flight struct {
	mu    sync.Mutex
	live  look.Reader
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
	f = &flight{reads: map[view.Read]func() ([]object.Object, error){}, live: t.Live(key.Namespace)}
	t.flights[key] = f
	return f, true
}

// read goes on for the others when the one that began it has gone.
func (f *flight) read(ctx context.Context, r view.Read) ([]object.Object, error) {
	f.mu.Lock()
	if f.reads[r] == nil {
		f.reads[r] = sync.OnceValues(func() ([]object.Object, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), look.Patience)
			defer cancel()
			return f.live(ctx, r)
		})
	}
	read := f.reads[r]
	f.mu.Unlock()
	return read()
}

// informer watches what one question is about.
type informer struct {
	cache.SharedIndexInformer
	cancel context.CancelFunc
	// users is the number of subscriptions.
	users int
	mu    sync.Mutex
	// failed is what the last attempt to watch came to.
	failed error
	// tried is closed by the first failure.
	tried chan struct{}
}

// newInformer makes an informer.
func (t *REST) newInformer(namespace string, r view.Read) (*informer, error) {
	i := &informer{tried: make(chan struct{})}
	store := t.Store(r)
	switch {
	case store != nil:
		i.SharedIndexInformer = cache.NewSharedIndexInformer(watched(store, namespace, r), nil, 0, cache.Indexers{})
	case t.Cluster == nil:
		return nil, look.ErrNoCluster
	default:
		i.SharedIndexInformer = dynamicinformer.NewFilteredDynamicInformer(t.Cluster, r.Resource(), namespace, 0, cache.Indexers{},
			func(options *metav1.ListOptions) { look.Narrow(r, options) }).Informer()
	}
	return i, errors.Join(
		i.SetTransform(func(obj any) (any, error) { return trimmed(r, obj) }),
		i.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { i.fail(err) }),
	)
}

// trimmed is an object of a list or of an event as it is kept.
func trimmed(r view.Read, obj any) (any, error) {
	switch o := obj.(type) {
	case *unstructured.Unstructured:
		return r.TrimObject(o)
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
func watched(from look.Store, namespace string, r view.Read) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			look.Narrow(r, &options)
			return look.List(genericapirequest.WithNamespace(ctx, namespace), from, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			look.Narrow(r, &options)
			internal, err := look.Internal(options)
			if err != nil {
				return nil, err
			}
			return from.Watch(genericapirequest.WithNamespace(ctx, namespace), internal)
		},
	}
}
