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
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/utils/clock"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	weir "github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/claim"
	"github.com/weir-rollouts/weir/pkg/takeover"
)

// The resources of the group, in the version that each is stored in.
var (
	rolloutResource        = v1beta1.SchemeGroupVersion.WithResource("rollouts")
	batchReleaseResource   = v1beta1.SchemeGroupVersion.WithResource("batchreleases")
	trafficRoutingResource = v1alpha1.SchemeGroupVersion.WithResource("trafficroutings")
	historyResource        = v1alpha1.SchemeGroupVersion.WithResource("rollouthistories")
)

// keys are where resources of the second group are stored: apart from the first, which
// could have some of the same names.
var keys = map[schema.GroupResource]string{
	weir.Resource("metricsources"): weir.GroupName + "/metricsources",
	weir.Resource("checks"):        weir.GroupName + "/checks",
	weir.Resource("clusterchecks"): weir.GroupName + "/clusterchecks",
}

// kinds are the objects of the first group that are stored.
var kinds = []struct {
	resource schema.GroupVersionResource
	example  takeover.Object
	list     runtime.Object
}{
	{rolloutResource, &rollouts.Rollout{}, &rollouts.RolloutList{}},
	{batchReleaseResource, &rollouts.BatchRelease{}, &rollouts.BatchReleaseList{}},
	{trafficRoutingResource, &rollouts.TrafficRouting{}, &rollouts.TrafficRoutingList{}},
	{historyResource, &rollouts.RolloutHistory{}, &rollouts.RolloutHistoryList{}},
}

// resourceOf is the resource of an object.
func resourceOf(o runtime.Object) string {
	for _, k := range kinds {
		if fmt.Sprintf("%T", k.example) == fmt.Sprintf("%T", o) {
			return k.resource.Resource
		}
	}
	return ""
}

// rawStorage is the storage of the server below its rules: no strategy and no
// validation changes what is put here.
type rawStorage struct {
	of     map[string]resourceStorage
	claims *claim.Claims
	ends   []func()
}

type resourceStorage struct {
	storage.Interface
	prefix string
	list   runtime.Object
}

func (s resourceStorage) key(o takeover.Object) string {
	return path.Join(s.prefix, o.GetNamespace(), o.GetName())
}

// openRawStorage opens the storage with the options of the server.
func (o *Options) openRawStorage() (_ *rawStorage, failed error) {
	c := &Config{options: o, Generic: genericapiserver.NewRecommendedConfig(o.codecs)}
	if err := c.setStorage(); err != nil {
		return nil, err
	}
	s := &rawStorage{of: map[string]resourceStorage{}}
	defer func() {
		if failed != nil {
			s.close()
		}
	}()
	for _, k := range kinds {
		resource := k.resource.Resource
		options, err := c.Generic.RESTOptionsGetter.GetRESTOptions(k.resource.GroupResource(), k.example)
		if err != nil {
			return nil, fmt.Errorf("finding the storage of %s: %w", resource, err)
		}
		prefix := path.Join("/", options.ResourcePrefix)
		backend, end, err := factory.Create(*options.StorageConfig, k.example.DeepCopyObject, k.list.DeepCopyObject, prefix)
		if err != nil {
			return nil, fmt.Errorf("opening the storage of %s: %w", resource, err)
		}
		s.ends = append(s.ends, end)
		s.of[resource] = resourceStorage{backend, prefix, k.list}
		if k.resource != rolloutResource {
			continue
		}
		claims, end, err := claim.NewStorage(options.StorageConfig, "claims")
		if err != nil {
			return nil, err
		}
		s.ends = append(s.ends, end)
		s.claims = &claim.Claims{Storage: claims, GetRollout: s.rollout, Clock: clock.RealClock{}}
	}
	return s, nil
}

func (s *rawStorage) close() {
	for _, end := range s.ends {
		end()
	}
}

// rollout reads a stored Rollout.
func (s *rawStorage) rollout(ctx context.Context, namespace, name string) (*rollouts.Rollout, error) {
	r := &rollouts.Rollout{}
	r.Namespace, r.Name = namespace, name
	stored := s.of["rollouts"]
	err := stored.Get(ctx, stored.key(r), storage.GetOptions{}, r)
	if storage.IsNotFound(err) {
		err = apierrors.NewNotFound(rollouts.Resource("rollouts"), name)
	}
	return r, err
}

// onlyHas fails if the storage has an object that is not one of these. An import
// that was interrupted may have stored some of them.
func (s *rawStorage) onlyHas(ctx context.Context, objects []takeover.Object) error {
	known := map[string]bool{}
	for _, o := range objects {
		known[s.of[resourceOf(o)].key(o)+" "+string(o.GetUID())] = true
	}
	for resource, stored := range s.of {
		list := stored.list.DeepCopyObject()
		if err := stored.GetList(ctx, stored.prefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything}, list); err != nil {
			return fmt.Errorf("reading the %s that are stored: %w", resource, err)
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			if o, ok := item.(takeover.Object); ok && !known[stored.key(o)+" "+string(o.GetUID())] {
				return fmt.Errorf("weir-apiserver has the object %s %s of its own already, which is not among the custom resources; "+
					"import into a new data directory, or a new etcd", resource, nameOf(o))
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
func (s *rawStorage) put(ctx context.Context, o takeover.Object) error {
	stored := s.of[resourceOf(o)]
	err := stored.Create(ctx, stored.key(o), o, nil, 0)
	if storage.IsExist(err) {
		uid := o.GetUID()
		err = stored.GuaranteedUpdate(ctx, stored.key(o), o.DeepCopyObject(), false, &storage.Preconditions{UID: &uid},
			func(runtime.Object, storage.ResponseMeta) (runtime.Object, *uint64, error) {
				return o.DeepCopyObject(), nil, nil
			}, nil)
	}
	if err != nil {
		return fmt.Errorf("storing %s %s: %w", resourceOf(o), nameOf(o), err)
	}
	return nil
}
