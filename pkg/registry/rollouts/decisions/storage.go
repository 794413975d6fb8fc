// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package decisions

import (
	"context"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/storagefull"
	"github.com/weir-rollouts/weir/pkg/verb"
)

// OptionsGetter wraps each store of Rollouts that it opens in a Storage.
type OptionsGetter struct {
	generic.RESTOptionsGetter
	Earlier *EarlierStore
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (g OptionsGetter) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := g.RESTOptionsGetter.GetRESTOptions(resource, example)
	open := options.Decorator
	options.Decorator = func(config *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string, error),
		one, list func() runtime.Object, attributes storage.AttrFunc, triggers storage.IndexerFuncs, indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		s, destroy, err := open(config, prefix, key, one, list, attributes, triggers, indexers)
		return Storage{s, g.Earlier}, destroy, err
	}
	return options, err
}

// Storage moves decisions out of a Rollout before a write if the status has too many. A Rollout that is
// read by its name has all decisions. Rollouts in lists and watch events have only the latest.
type Storage struct {
	storage.Interface
	earlier *EarlierStore
}

// Get implements storage.Interface.
func (s Storage) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	if err := s.Interface.Get(ctx, key, opts, out); err != nil {
		return err
	}
	return s.earlier.PrependTo(ctx, out.(*rollouts.Rollout))
}

// GetList implements storage.Interface. A list that is not recursive is a read of one name.
func (s Storage) GetList(ctx context.Context, key string, opts storage.ListOptions, out runtime.Object) error {
	if err := s.Interface.GetList(ctx, key, opts, out); err != nil || opts.Recursive {
		return err
	}
	return apimeta.EachListItem(out, func(item runtime.Object) error { return s.earlier.PrependTo(ctx, item.(*rollouts.Rollout)) })
}

// GuaranteedUpdate implements storage.Interface.
func (s Storage) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object,
) error {
	moving := func(stored runtime.Object, meta storage.ResponseMeta) (runtime.Object, *uint64, error) {
		r := stored.(*rollouts.Rollout)
		if !verb.HasTooManyDecisions(&r.Status) {
			return update(stored, meta)
		}
		without, err := s.earlier.moveOut(ctx, r)
		if storagefull.IsInsufficient(err) {
			// The write must not fail for lack of space that only the move needs: an abort, for example, is
			// admitted even then. A later write moves the decisions.
			return update(stored, meta)
		}
		if err != nil {
			return nil, nil, err
		}
		return update(without, meta)
	}
	return s.Interface.GuaranteedUpdate(ctx, key, out, ignoreNotFound, preconditions, moving, cached)
}

// Delete implements storage.Interface. If the server crashes before the earlier decisions are deleted,
// deleting the next Rollout of this name deletes them.
func (s Storage) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, cached runtime.Object, opts storage.DeleteOptions,
) error {
	if err := s.Interface.Delete(ctx, key, out, preconditions, validate, cached, opts); err != nil {
		return err
	}
	r := out.(*rollouts.Rollout)
	if err := s.earlier.deleteAll(ctx, r); err != nil {
		klog.ErrorS(err, "Leaving earlier decisions behind", "rollout", klog.KObj(r))
	}
	return nil
}
