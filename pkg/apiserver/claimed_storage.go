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

	"github.com/weir-rollouts/weir/pkg/registry/rollouts/claim"
	"github.com/weir-rollouts/weir/pkg/store"
)

// openClaimedStorage makes the storage of Rollouts write a Rollout and the claim of its workload in one
// transaction.
func (c *Config) openClaimedStorage() error {
	client, err := store.OpenConditional(c.options.etcd())
	if err != nil {
		return err
	}
	c.closers = append(c.closers, client.Close)
	client.KV = etcd3.NewETCDLatencyTracker(client.KV)
	c.Generic.RESTOptionsGetter = claimedOptionsGetter{c.Generic.RESTOptionsGetter, client}
	return nil
}

// etcd returns the address and credentials of the etcd in which the server stores its objects.
func (o *Options) etcd() store.Remote {
	t := o.Recommended.Etcd.StorageConfig.Transport
	return store.Remote{Servers: t.ServerList, CAFile: t.TrustedCAFile, CertFile: t.CertFile, KeyFile: t.KeyFile}
}

// claimedOptionsGetter wraps the storage of Rollouts in a claimedStorage.
type claimedOptionsGetter struct {
	generic.RESTOptionsGetter
	client *clientv3.Client
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (o claimedOptionsGetter) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := o.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err != nil || resource != rolloutResource.GroupResource() {
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
		direct, end, err := directStorage(o.client, config, prefix, newFunc, newList)
		if err != nil {
			destroy()
			return nil, nil, err
		}
		return claimedStorage{s, direct, config.Prefix, newFunc}, func() { end(); destroy() }, nil
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

// claimedStorage writes a Rollout through the storage direct if its request claims a workload,
// and through the cached storage otherwise.
type claimedStorage struct {
	storage.Interface
	direct  storage.Interface
	prefix  string
	newFunc func() runtime.Object
}

// Create implements storage.Interface.
func (s claimedStorage) Create(ctx context.Context, key string, o, out runtime.Object, ttl uint64) error {
	with, claims := s.withClaim(ctx)
	if !claims {
		return s.Interface.Create(ctx, key, o, out, ttl)
	}
	return claimError(key, s.direct.Create(with, key, o, out, ttl))
}

// GuaranteedUpdate implements storage.Interface.
func (s claimedStorage) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	p *storage.Preconditions, update storage.UpdateFunc, existing runtime.Object,
) error {
	with, claims := s.withClaim(ctx)
	if !claims {
		return s.Interface.GuaranteedUpdate(ctx, key, out, ignoreNotFound, p, update, existing)
	}
	return claimError(key, s.direct.GuaranteedUpdate(with, key, out, ignoreNotFound, p, update, cachedObject(ctx, s.Interface, key, s.newFunc())))
}

// withClaim reports whether the request may claim a workload, and returns a context whose
// transactions compare the revision of that claim.
func (s claimedStorage) withClaim(ctx context.Context) (context.Context, bool) {
	held := claim.AcquiredClaimFrom(ctx)
	if held == nil {
		return ctx, false
	}
	return store.WithCondition(ctx, func() (store.Condition, bool) {
		return store.Condition{Key: path.Join("/", s.prefix) + held.Key, Revision: held.Revision}, held.Key != ""
	}), true
}

// cachedObject returns the object from the watch cache as the first guess of a
// GuaranteedUpdate, as the server's own storage does; nil if the cache does not have it.
func cachedObject(ctx context.Context, s storage.Interface, key string, into runtime.Object) runtime.Object {
	if err := s.Get(ctx, key, storage.GetOptions{ResourceVersion: "0"}, into); err != nil {
		return nil
	}
	return into
}

// claimError returns a conflict if the claim of a write has changed. The client then reads the object again
// and repeats the request.
func claimError(key string, err error) error {
	if errors.Is(err, store.ErrConditionFailed) {
		return apierrors.NewConflict(rolloutResource.GroupResource(), path.Base(key),
			errors.New("another request claimed the same workload at the same time; send the request again"))
	}
	return err
}
