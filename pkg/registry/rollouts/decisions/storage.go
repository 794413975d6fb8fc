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

// Getter wraps the store of Rollouts that it opens in a Storage.
type Getter struct {
	generic.RESTOptionsGetter
	Earlier *Earlier
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (g Getter) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
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

// Storage moves decisions of a Rollout before each write where there are many. A Rollout
// that is read by its name has all of them, one of a list or a watch the latest.
type Storage struct {
	storage.Interface
	earlier *Earlier
}

// Get implements storage.Interface.
func (s Storage) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	if err := s.Interface.Get(ctx, key, opts, out); err != nil {
		return err
	}
	return s.earlier.Join(ctx, out.(*rollouts.Rollout))
}

// GetList implements storage.Interface. A list of one name is not recursive.
func (s Storage) GetList(ctx context.Context, key string, opts storage.ListOptions, out runtime.Object) error {
	if err := s.Interface.GetList(ctx, key, opts, out); err != nil || opts.Recursive {
		return err
	}
	return apimeta.EachListItem(out, func(item runtime.Object) error { return s.earlier.Join(ctx, item.(*rollouts.Rollout)) })
}

// GuaranteedUpdate implements storage.Interface.
func (s Storage) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object,
) error {
	moving := func(stored runtime.Object, meta storage.ResponseMeta) (runtime.Object, *uint64, error) {
		r := stored.(*rollouts.Rollout)
		if !verb.Outgrown(&r.Status) {
			return update(stored, meta)
		}
		without, err := s.earlier.move(ctx, r)
		if storagefull.IsInsufficient(err) {
			// A later write moves the decisions. The write of this request may need no more room,
			// or may have room that a move has not, such as an abort.
			return update(stored, meta)
		}
		if err != nil {
			return nil, nil, err
		}
		return update(without, meta)
	}
	return s.Interface.GuaranteedUpdate(ctx, key, out, ignoreNotFound, preconditions, moving, cached)
}

// Delete implements storage.Interface. What is left of a Rollout whose server dies in between
// goes with the next one of its name.
func (s Storage) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, cached runtime.Object, opts storage.DeleteOptions,
) error {
	if err := s.Interface.Delete(ctx, key, out, preconditions, validate, cached, opts); err != nil {
		return err
	}
	r := out.(*rollouts.Rollout)
	if err := s.earlier.forget(ctx, r); err != nil {
		klog.ErrorS(err, "Leaving earlier decisions behind", "rollout", klog.KObj(r))
	}
	return nil
}
