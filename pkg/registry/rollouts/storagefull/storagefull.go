// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package storagefull wraps storages. It refuses writes that etcd has no room for, with the
// code 507 and a message for the client. The package does not depend on the kinds it stores.
package storagefull

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

// Room decides whether the store has room for a write.
type Room interface {
	// Admit returns an error for the client if there is no room: the error names what is full
	// and what to do. Otherwise the caller must call done when the write has ended.
	Admit(ctx context.Context, w Write) (done func(), _ error)
	// AdmitsAll reports whether any write of this request is admitted, so that its size need
	// not be measured.
	AdmitsAll(ctx context.Context) bool
	// Space reports how much objects of a namespace may grow now. The error names what is full
	// and what to do; it is nil if the space is Ample.
	Space(ctx context.Context, namespace string) (Space, error)
	// Reclaim frees space after etcd refused a write (NOSPACE), so that etcd accepts writes again.
	Reclaim(ctx context.Context)
}

// Space is how much objects of a namespace may grow.
type Space int

const (
	// Ample means that objects can be created.
	Ample Space = iota
	// Scarce means that only small additions are admitted.
	Scarce
	// Exhausted means that nothing is admitted that grows.
	Exhausted
)

// Write describes a write that a request is about to make.
type Write struct {
	Namespace string
	// Before is the size of the stored object, 0 for a new object. After is the size of the
	// object that the request would store.
	Before, After int64
	// Removes is true if the write removes finalizers from the object.
	Removes bool
	// Object is the object that the request would store, in the internal version.
	Object runtime.Object
}

// OptionsGetter wraps each store that it opens in a Storage. If Room is nil, every write is sent to etcd.
type OptionsGetter struct {
	generic.RESTOptionsGetter
	Room Room
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (g OptionsGetter) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := g.RESTOptionsGetter.GetRESTOptions(resource, example)
	open := options.Decorator
	options.Decorator = func(config *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string, error),
		one, list func() runtime.Object, attributes storage.AttrFunc, triggers storage.IndexerFuncs, indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		s, destroy, err := open(config, prefix, key, one, list, attributes, triggers, indexers)
		return Storage{Interface: s, Room: g.Room, Codec: config.Codec}, destroy, err
	}
	return options, err
}

// Storage asks whether there is room before each write, and answers 507 if there is none.
type Storage struct {
	storage.Interface
	// Room is nil if all writes are admitted.
	Room  Room
	Codec runtime.Encoder
}

// Create implements storage.Interface.
func (s Storage) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	if s.needsCheck(ctx) {
		done, err := s.admit(ctx, nil, obj)
		if err != nil {
			return err
		}
		defer done()
	}
	return s.writeWithReclaim(ctx, func() error { return s.Interface.Create(ctx, key, obj, out, ttl) })
}

// GuaranteedUpdate implements storage.Interface.
func (s Storage) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object,
) error {
	if !s.needsCheck(ctx) {
		return s.writeWithReclaim(ctx, func() error {
			return s.Interface.GuaranteedUpdate(ctx, key, out, ignoreNotFound, preconditions, update, cached)
		})
	}
	done := func() {}
	defer func() { done() }()
	admitted := func(stored runtime.Object, meta storage.ResponseMeta) (runtime.Object, *uint64, error) {
		before := stored.DeepCopyObject()
		next, ttl, err := update(stored, meta)
		if err != nil {
			return next, ttl, err
		}
		done() // the previous attempt ended with a conflict
		done = func() {}
		finished, err := s.admit(ctx, before, next)
		if err == nil {
			done = finished
		}
		return next, ttl, err
	}
	return s.writeWithReclaim(ctx, func() error {
		return s.Interface.GuaranteedUpdate(ctx, key, out, ignoreNotFound, preconditions, admitted, cached)
	})
}

// needsCheck reports whether the request must ask Room before it writes.
func (s Storage) needsCheck(ctx context.Context) bool { return s.Room != nil && !s.Room.AdmitsAll(ctx) }

// admit asks whether there is room for a write. Before is nil for a new object.
func (s Storage) admit(ctx context.Context, before, after runtime.Object) (done func(), err error) {
	var w Write
	if w.After, err = s.encodedSize(after); err != nil {
		return nil, err
	}
	object, err := apimeta.Accessor(after)
	if err != nil {
		return nil, fmt.Errorf("reading the namespace of what is stored: %w", err)
	}
	w.Namespace, w.Object = object.GetNamespace(), after
	if before != nil {
		if w.Before, err = s.encodedSize(before); err != nil {
			return nil, err
		}
		stored, err := apimeta.Accessor(before)
		if err != nil {
			return nil, fmt.Errorf("reading the finalizers of what is stored: %w", err)
		}
		w.Removes = len(object.GetFinalizers()) < len(stored.GetFinalizers())
	}
	if done, err = s.Room.Admit(ctx, w); err != nil {
		return nil, insufficientStorage(err.Error())
	}
	return done, nil
}

// encodedSize returns the encoded size of an object.
func (s Storage) encodedSize(o runtime.Object) (int64, error) {
	var n byteCounter
	if err := s.Codec.Encode(o, &n); err != nil {
		return 0, fmt.Errorf("encoding what is stored: %w", err)
	}
	return int64(n), nil
}

type byteCounter int64

// Write implements io.Writer.
func (n *byteCounter) Write(p []byte) (int, error) {
	*n += byteCounter(len(p))
	return len(p), nil
}

// writeWithReclaim runs a write. If etcd refuses the write for lack of space, afterReclaim frees
// space and repeats the write once.
func (s Storage) writeWithReclaim(ctx context.Context, write func() error) error {
	err := write()
	if s.Room != nil && errors.Is(err, rpctypes.ErrNoSpace) {
		s.Room.Reclaim(ctx)
		err = write()
	}
	return statusError(err)
}

// statusError converts the error of etcd for lack of space into a response for clients. It returns other
// errors unchanged.
func statusError(err error) error {
	if !errors.Is(err, rpctypes.ErrNoSpace) {
		return err
	}
	return noSpaceError{insufficientStorage("the etcd of weir-apiserver has reached its size limit: it accepts only deletions and reads. " +
		"Delete RolloutHistories that nobody needs, or raise the limit " +
		"(--data-limit of weir-apiserver; --quota-backend-bytes of an external etcd)")}
}

// noSpaceError is the answer to a write that etcd refused for lack of space. A write to one Storage
// may include a write to another. The outer Storage must recognize the cause to free space.
type noSpaceError struct{ *apierrors.StatusError }

// Unwrap returns the error of etcd.
func (noSpaceError) Unwrap() error { return rpctypes.ErrNoSpace }

// IsInsufficient reports whether a write was refused because there is no room for it.
func IsInsufficient(err error) bool { return apierrors.ReasonForError(err) == reason }

const reason = "InsufficientStorage"

func insufficientStorage(message string) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInsufficientStorage, Reason: reason, Message: message,
	}}
}
