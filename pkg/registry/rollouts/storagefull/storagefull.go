// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package storagefull answers one question: what is a client told when etcd has
// no space left? It must not know what is stored.
package storagefull

import (
	"context"
	"errors"
	"net/http"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

// Getter wraps each store that it opens in a Storage.
type Getter struct{ generic.RESTOptionsGetter }

// GetRESTOptions implements generic.RESTOptionsGetter.
func (g Getter) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := g.RESTOptionsGetter.GetRESTOptions(resource, example)
	open := options.Decorator
	options.Decorator = func(config *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string, error),
		one, list func() runtime.Object, attributes storage.AttrFunc, triggers storage.IndexerFuncs, indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		s, destroy, err := open(config, prefix, key, one, list, attributes, triggers, indexers)
		return Storage{s}, destroy, err
	}
	return options, err
}

// Storage answers 507 when etcd is full.
type Storage struct{ storage.Interface }

// Create implements storage.Interface.
func (s Storage) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	return statusError(s.Interface.Create(ctx, key, obj, out, ttl))
}

// GuaranteedUpdate implements storage.Interface.
func (s Storage) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object,
) error {
	return statusError(s.Interface.GuaranteedUpdate(ctx, key, out, ignoreNotFound, preconditions, update, cached))
}

// statusError is the answer to a write that etcd refused for lack of space. It
// passes other errors on.
func statusError(err error) error {
	if !errors.Is(err, rpctypes.ErrNoSpace) {
		return err
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInsufficientStorage, Reason: "InsufficientStorage",
		Message: "the etcd of weir-apiserver is at its size limit and accepts nothing but deletions; " +
			"what is there can be read. Delete RolloutHistories that nobody needs, or raise the limit: " +
			"--data-limit of weir-apiserver, --quota-backend-bytes of an external etcd",
	}}
}
