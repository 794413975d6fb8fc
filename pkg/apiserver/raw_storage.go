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

// These are the resources of the group rollouts.kruise.io, each in the version in which it is stored.
var (
	rolloutResource        = v1beta1.SchemeGroupVersion.WithResource("rollouts")
	batchReleaseResource   = v1beta1.SchemeGroupVersion.WithResource("batchreleases")
	trafficRoutingResource = v1alpha1.SchemeGroupVersion.WithResource("trafficroutings")
	historyResource        = v1alpha1.SchemeGroupVersion.WithResource("rollouthistories")
)

// storageKeys are the storage keys of the resources of the group weir-rollouts.io. They begin with the name of the
// group, so that they never collide with resources of the first group.
var storageKeys = map[schema.GroupResource]string{
	weir.Resource("metricsources"): weir.GroupName + "/metricsources",
	weir.Resource("checks"):        weir.GroupName + "/checks",
	weir.Resource("clusterchecks"): weir.GroupName + "/clusterchecks",
}

// kinds are the stored kinds of the group rollouts.kruise.io.
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

// resourceName returns the resource of an object; empty if it is not one of kinds.
func resourceName(o runtime.Object) string {
	for _, k := range kinds {
		if fmt.Sprintf("%T", k.example) == fmt.Sprintf("%T", o) {
			return k.resource.Resource
		}
	}
	return ""
}

// rawStorage is the storage of the server without strategies and validation.
type rawStorage struct {
	resources map[string]resourceStorage
	claims    *claim.Claims
	closers   []func()
}

type resourceStorage struct {
	storage.Interface
	prefix string
	list   runtime.Object
}

func (s resourceStorage) key(o takeover.Object) string {
	return path.Join(s.prefix, o.GetNamespace(), o.GetName())
}

// openRawStorage opens the storage that the options describe.
func (o *Options) openRawStorage() (_ *rawStorage, failed error) {
	c := &Config{options: o, Generic: genericapiserver.NewRecommendedConfig(o.codecs)}
	if err := c.setStorage(); err != nil {
		return nil, err
	}
	s := &rawStorage{resources: map[string]resourceStorage{}}
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
		s.closers = append(s.closers, end)
		s.resources[resource] = resourceStorage{backend, prefix, k.list}
		if k.resource != rolloutResource {
			continue
		}
		claims, end, err := claim.NewStorage(options.StorageConfig, "claims")
		if err != nil {
			return nil, err
		}
		s.closers = append(s.closers, end)
		s.claims = &claim.Claims{Storage: claims, GetRollout: s.getRollout, Clock: clock.RealClock{}}
	}
	return s, nil
}

func (s *rawStorage) close() {
	for _, end := range s.closers {
		end()
	}
}

// getRollout reads a stored Rollout.
func (s *rawStorage) getRollout(ctx context.Context, namespace, name string) (*rollouts.Rollout, error) {
	r := &rollouts.Rollout{}
	r.Namespace, r.Name = namespace, name
	stored := s.resources["rollouts"]
	err := stored.Get(ctx, stored.key(r), storage.GetOptions{}, r)
	if storage.IsNotFound(err) {
		err = apierrors.NewNotFound(rollouts.Resource("rollouts"), name)
	}
	return r, err
}

// verifyOnlyContains returns an error if the storage contains an object that is not one of these. An interrupted
// import may have stored some of them.
func (s *rawStorage) verifyOnlyContains(ctx context.Context, objects []takeover.Object) error {
	known := map[string]bool{}
	for _, o := range objects {
		known[s.resources[resourceName(o)].key(o)+" "+string(o.GetUID())] = true
	}
	for resource, stored := range s.resources {
		list := stored.list.DeepCopyObject()
		if err := stored.GetList(ctx, stored.prefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything}, list); err != nil {
			return fmt.Errorf("reading the %s that are stored: %w", resource, err)
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			if o, ok := item.(takeover.Object); ok && !known[stored.key(o)+" "+string(o.GetUID())] {
				return fmt.Errorf("weir-apiserver has the object %s %s of its own already, which is not among the custom resources; "+
					"import into a new data directory, or a new etcd", resource, namespacedName(o))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// put creates an object, or replaces it if it exists with the same UID.
func (s *rawStorage) put(ctx context.Context, o takeover.Object) error {
	stored := s.resources[resourceName(o)]
	err := stored.Create(ctx, stored.key(o), o, nil, 0)
	if storage.IsExist(err) {
		uid := o.GetUID()
		err = stored.GuaranteedUpdate(ctx, stored.key(o), o.DeepCopyObject(), false, &storage.Preconditions{UID: &uid},
			func(runtime.Object, storage.ResponseMeta) (runtime.Object, *uint64, error) {
				return o.DeepCopyObject(), nil, nil
			}, nil)
	}
	if err != nil {
		return fmt.Errorf("storing %s %s: %w", resourceName(o), namespacedName(o), err)
	}
	return nil
}
