// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"path"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/utils/clock"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/claim"
	"github.com/weir-rollouts/weir/pkg/takeover"
)

// kinds are the objects that are stored. The list is v1beta1's where both have it.
var kinds = []struct {
	resource, version string
	example           takeover.Object
	list              runtime.Object
}{
	{"rollouts", "v1beta1", &rollouts.Rollout{}, &rollouts.RolloutList{}},
	{"batchreleases", "v1beta1", &rollouts.BatchRelease{}, &rollouts.BatchReleaseList{}},
	{"trafficroutings", "v1alpha1", &rollouts.TrafficRouting{}, &rollouts.TrafficRoutingList{}},
	{"rollouthistories", "v1alpha1", &rollouts.RolloutHistory{}, &rollouts.RolloutHistoryList{}},
}

// resourceOf is the resource of an object.
func resourceOf(o runtime.Object) string {
	for _, k := range kinds {
		if fmt.Sprintf("%T", k.example) == fmt.Sprintf("%T", o) {
			return k.resource
		}
	}
	return ""
}

// shelves are where the server stores, below its rules: what is put here is not
// changed by any of them.
type shelves struct {
	of     map[string]shelf
	claims *claim.Claims
	ends   []func()
}

type shelf struct {
	storage.Interface
	prefix string
	list   runtime.Object
}

func (s shelf) key(o takeover.Object) string {
	return path.Join(s.prefix, o.GetNamespace(), o.GetName())
}

// openShelves opens the storage as the server does.
func (o *Options) openShelves() (_ *shelves, failed error) {
	c := &Config{options: o, Generic: genericapiserver.NewRecommendedConfig(o.codecs)}
	if err := c.setStorage(); err != nil {
		return nil, err
	}
	s := &shelves{of: map[string]shelf{}}
	defer func() {
		if failed != nil {
			s.close()
		}
	}()
	for _, k := range kinds {
		options, err := c.Generic.RESTOptionsGetter.GetRESTOptions(rollouts.Resource(k.resource), k.example)
		if err != nil {
			return nil, fmt.Errorf("finding the storage of %s: %w", k.resource, err)
		}
		prefix := path.Join("/", options.ResourcePrefix)
		backend, end, err := factory.Create(*options.StorageConfig, k.example.DeepCopyObject, k.list.DeepCopyObject, prefix)
		if err != nil {
			return nil, fmt.Errorf("opening the storage of %s: %w", k.resource, err)
		}
		s.ends = append(s.ends, end)
		s.of[k.resource] = shelf{backend, prefix, k.list}
		if k.resource != "rollouts" {
			continue
		}
		claims, end, err := claim.NewStorage(options.StorageConfig)
		if err != nil {
			return nil, err
		}
		s.ends = append(s.ends, end)
		s.claims = &claim.Claims{Storage: claims, Stored: s.rollout, Clock: clock.RealClock{}}
	}
	return s, nil
}

func (s *shelves) close() {
	for _, end := range s.ends {
		end()
	}
}

// rollout reads one that is stored.
func (s *shelves) rollout(ctx context.Context, namespace, name string) (*rollouts.Rollout, error) {
	r := &rollouts.Rollout{}
	r.Namespace, r.Name = namespace, name
	shelf := s.of["rollouts"]
	err := shelf.Get(ctx, shelf.key(r), storage.GetOptions{}, r)
	if storage.IsNotFound(err) {
		err = apierrors.NewNotFound(rollouts.Resource("rollouts"), name)
	}
	return r, err
}

// onlyHas wants nothing to be stored already but what is to be stored, as after
// an import that was interrupted.
func (s *shelves) onlyHas(ctx context.Context, objects []takeover.Object) error {
	known := map[string]bool{}
	for _, o := range objects {
		known[s.of[resourceOf(o)].key(o)+" "+string(o.GetUID())] = true
	}
	for resource, shelf := range s.of {
		list := shelf.list.DeepCopyObject()
		if err := shelf.GetList(ctx, shelf.prefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything}, list); err != nil {
			return fmt.Errorf("reading the %s that are stored: %w", resource, err)
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			if o, ok := item.(takeover.Object); ok && !known[shelf.key(o)+" "+string(o.GetUID())] {
				return fmt.Errorf("weir-apiserver has the object %s %s/%s of its own already, which is not among the custom resources; "+
					"import into a new data directory, or a new etcd", resource, o.GetNamespace(), o.GetName())
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// put stores an object, or replaces the same one.
func (s *shelves) put(ctx context.Context, o takeover.Object) error {
	shelf := s.of[resourceOf(o)]
	err := shelf.Create(ctx, shelf.key(o), o, nil, 0)
	if storage.IsExist(err) {
		uid := o.GetUID()
		err = shelf.GuaranteedUpdate(ctx, shelf.key(o), o.DeepCopyObject(), false, &storage.Preconditions{UID: &uid},
			func(runtime.Object, storage.ResponseMeta) (runtime.Object, *uint64, error) {
				return o.DeepCopyObject(), nil, nil
			}, nil)
	}
	if err != nil {
		return fmt.Errorf("storing %s %s/%s: %w", resourceOf(o), o.GetNamespace(), o.GetName(), err)
	}
	return nil
}

// claim makes a Rollout the one of its workload.
func (s *shelves) claim(ctx context.Context, r *rollouts.Rollout) error {
	return s.claims.Acquire(ctx, claim.OwnerOf(r), r.Spec.WorkloadRef)
}
