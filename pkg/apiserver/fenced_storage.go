// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"path"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	"k8s.io/client-go/tools/cache"

	"github.com/weir-rollouts/weir/pkg/store"
)

// fenceKey is the key whose revision identifies the leader. It is not the name of a resource.
const fenceKey = "leader"

// Fence excludes writes of earlier leaders. A new leader raises it.
type Fence interface {
	// A process calls Seen before it acquires the lease, and Raise with the result after that.
	Seen(context.Context) (int64, error)
	Raise(ctx context.Context, seen int64) error
}

// openFence opens the fence if controllers with leader election run in this process.
func (c *Config) openFence() error {
	if !c.options.hasInProcessProgram() || !c.options.InProcess.Elects() {
		return nil
	}
	etcd := c.options.Recommended.Etcd.StorageConfig
	var err error
	c.fence, err = store.OpenFence(c.options.etcd(), path.Join("/", etcd.Prefix, fenceKey))
	if err != nil {
		return err
	}
	c.closers = append(c.closers, c.fence.Close)
	c.fence.Client.KV = etcd3.NewETCDLatencyTracker(c.fence.Client.KV)
	c.Generic.RESTOptionsGetter = fencedOptionsGetter{c.Generic.RESTOptionsGetter, c.fence}
	return nil
}

// etcd returns the address and credentials of the etcd in which the server stores its objects.
func (o *Options) etcd() store.Remote {
	t := o.Recommended.Etcd.StorageConfig.Transport
	return store.Remote{Servers: t.ServerList, CAFile: t.TrustedCAFile, CertFile: t.CertFile, KeyFile: t.KeyFile}
}

// controllerFence returns the fence for the controllers; nil if there is none.
func (c *Config) controllerFence() Fence {
	if c.fence == nil {
		return nil
	}
	return c.fence
}

// fencedOptionsGetter protects the writes of the controllers in this process with the fence.
type fencedOptionsGetter struct {
	generic.RESTOptionsGetter
	fence *store.Fence
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (f fencedOptionsGetter) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := f.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err != nil {
		return options, err
	}
	open := options.Decorator
	options.Decorator = func(config *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string, error),
		newFunc, newList func() runtime.Object, attributes storage.AttrFunc, triggers storage.IndexerFuncs, indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		s, destroy, err := open(config, prefix, key, newFunc, newList, attributes, triggers, indexers)
		if err != nil {
			return s, destroy, err
		}
		leader, end, err := directStorage(f.fence.Client, config, prefix, newFunc, newList)
		if err != nil {
			destroy()
			return nil, nil, err
		}
		return fencedStorage{s, leader, config.GroupResource, newFunc}, func() { end(); destroy() }, nil
	}
	return options, nil
}

// directStorage returns a second storage of the same objects. It uses the given etcd client and
// has no watch cache.
func directStorage(with *clientv3.Client, config *storagebackend.ConfigForResource, prefix string, newFunc, newList func() runtime.Object) (storage.Interface, func(), error) {
	client := &kubernetes.Client{Client: with}
	client.Kubernetes = client
	transformer := config.Transformer
	if transformer == nil {
		transformer = identity.NewEncryptCheckTransformer()
	}
	versioner := storage.APIObjectVersioner{}
	s, err := etcd3.New(client, nil, config.Codec, newFunc, newList, config.Prefix, prefix, config.GroupResource, transformer,
		config.LeaseManagerConfig, etcd3.NewDefaultDecoder(config.Codec, versioner), versioner)
	if err != nil {
		return nil, nil, fmt.Errorf("opening an uncached storage of %s: %w", config.GroupResource, err)
	}
	return s, s.Close, nil
}

// fencedStorage sends writes of the controllers to the storage leader, and all others to the cached
// storage.
type fencedStorage struct {
	storage.Interface
	leader   storage.Interface
	resource schema.GroupResource
	newFunc  func() runtime.Object
}

func isFromController(ctx context.Context) bool { return ctx.Value(inProcessKey{}) != nil }

// Create implements storage.Interface.
func (s fencedStorage) Create(ctx context.Context, key string, o, out runtime.Object, ttl uint64) error {
	if !isFromController(ctx) {
		return s.Interface.Create(ctx, key, o, out, ttl)
	}
	return s.toConflict(key, s.leader.Create(ctx, key, o, out, ttl))
}

// Delete implements storage.Interface.
func (s fencedStorage) Delete(ctx context.Context, key string, out runtime.Object, p *storage.Preconditions,
	validate storage.ValidateObjectFunc, existing runtime.Object, o storage.DeleteOptions,
) error {
	if !isFromController(ctx) {
		return s.Interface.Delete(ctx, key, out, p, validate, existing, o)
	}
	return s.toConflict(key, s.leader.Delete(ctx, key, out, p, validate, s.cached(ctx, key), o))
}

// GuaranteedUpdate implements storage.Interface.
func (s fencedStorage) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	p *storage.Preconditions, update storage.UpdateFunc, existing runtime.Object,
) error {
	if !isFromController(ctx) {
		return s.Interface.GuaranteedUpdate(ctx, key, out, ignoreNotFound, p, update, existing)
	}
	return s.toConflict(key, s.leader.GuaranteedUpdate(ctx, key, out, ignoreNotFound, p, update, s.cached(ctx, key)))
}

func (s fencedStorage) cached(ctx context.Context, key string) runtime.Object {
	return cachedObject(ctx, s.Interface, key, s.newFunc())
}

// cachedObject returns the object from the watch cache as the first guess of a
// GuaranteedUpdate, as the server's own storage does; nil if the cache does not have it.
func cachedObject(ctx context.Context, s storage.Interface, key string, into runtime.Object) runtime.Object {
	if err := s.Get(ctx, key, storage.GetOptions{ResourceVersion: "0"}, into); err != nil {
		return nil
	}
	return into
}

// toConflict converts a fenced write to a conflict: the former leader then reads the objects again.
func (s fencedStorage) toConflict(key string, err error) error {
	if errors.Is(err, store.ErrFenced) {
		return apierrors.NewConflict(s.resource, path.Base(key), err)
	}
	return err
}
