// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/utils/clock"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// Mapper is a RESTMapper that discovers all kinds of the cluster at once. An unknown kind triggers a new
// discovery, at a limited rate: users choose the kinds in their objects, and their choice must not cause
// many requests.
type Mapper struct {
	client *discovery.DiscoveryClient
	clock  clock.PassiveClock

	latest atomic.Pointer[discoveryResult]

	mu        sync.Mutex
	changedAt time.Time

	refreshing sync.Mutex
	// refreshedAt is the time of the last discovery, and lastError its error. Both are guarded by refreshing.
	refreshedAt time.Time
	lastError   error
}

// discoveryResult is the result of one discovery.
type discoveryResult struct {
	meta.RESTMapper
	groups []*restmapper.APIGroupResources
	// failures has the errors of the groups that the cluster could not list.
	failures map[string]error
	// mappings caches found mappings by GroupVersionKind.
	mappings sync.Map
}

// RESTMapping implements meta.RESTMapper. It caches mappings, because caches need one for every read.
func (s *discoveryResult) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if len(versions) != 1 {
		return s.RESTMapper.RESTMapping(kind, versions...)
	}
	key := kind.WithVersion(versions[0])
	if found, ok := s.mappings.Load(key); ok {
		return found.(*meta.RESTMapping), nil
	}
	found, err := s.RESTMapper.RESTMapping(kind, versions...)
	if err == nil {
		s.mappings.Store(key, found)
	}
	return found, err
}

const (
	// unknownKindTTL is how long an unknown kind counts as not served.
	unknownKindTTL = 10 * time.Second
	// recentChangeTTL is the same duration if a CustomResourceDefinition has changed shortly before the last
	// discovery, or if the discovery failed for the group.
	recentChangeTTL = ServeDelay / 4
)

var _ meta.ResettableRESTMapper = &Mapper{}

// NewMapper returns a MapperProvider for a manager.
func NewMapper(c clock.PassiveClock) func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
	return func(config *rest.Config, h *http.Client) (meta.RESTMapper, error) {
		client, err := discovery.NewDiscoveryClientForConfigAndClient(config, h)
		if err != nil {
			return nil, fmt.Errorf("making a client of discovery: %w", err)
		}
		return &Mapper{client: client, clock: c}, nil
	}
}

// Reset records that the cluster may serve other kinds soon.
func (m *Mapper) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changedAt = m.clock.Now()
}

// weirMapper maps the kinds of Weir's API group without discovery. In a process that also serves the group,
// discovery does not show these kinds during the start.
var weirMapper = func() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper([]schema.GroupVersion{v1beta1.SchemeGroupVersion, v1alpha1.SchemeGroupVersion})
	for kind := range wireScheme.AllKnownTypes() {
		m.Add(kind, meta.RESTScopeNamespace)
	}
	return m
}()

// lookUp looks up a mapping in the latest discovery, and in a new one if the mapping is unknown.
func lookUp[T any](m *Mapper, group string, from func(meta.RESTMapper) (T, error)) (T, error) {
	var none T
	if group == rollouts.GroupName {
		return from(weirMapper)
	}
	known := m.latest.Load()
	if known != nil {
		if found, err := from(known); !meta.IsNoMatchError(err) {
			return found, err
		}
	}
	known, err := m.refresh(known, group)
	if err != nil {
		return none, err
	}
	found, err := from(known)
	if silent := known.failures[group]; silent != nil && meta.IsNoMatchError(err) {
		return none, fmt.Errorf("discovering %s: %w", group, silent)
	}
	return found, err
}

// refresh returns a newer discovery than was, or the latest one if no new discovery is allowed yet.
func (m *Mapper) refresh(was *discoveryResult, group string) (*discoveryResult, error) {
	m.refreshing.Lock()
	defer m.refreshing.Unlock()
	known := m.latest.Load()
	if known != was || !m.mayRefresh(known, group) {
		return known, m.lastError
	}
	m.refreshedAt = m.clock.Now()
	next, err := m.discover(known)
	if m.lastError = err; err != nil {
		return nil, err
	}
	m.latest.Store(next)
	return next, nil
}

// mayRefresh reports whether enough time has passed for a new discovery.
func (m *Mapper) mayRefresh(known *discoveryResult, group string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	after := unknownKindTTL
	if known == nil || m.lastError != nil || known.failures[group] != nil || m.refreshedAt.Before(m.changedAt.Add(2*ServeDelay)) {
		after = recentChangeTTL
	}
	return m.refreshedAt.IsZero() || m.clock.Since(m.refreshedAt) >= after
}

// discover runs a discovery. If a group fails, the result has the group's kinds of the previous discovery.
func (m *Mapper) discover(was *discoveryResult) (*discoveryResult, error) {
	client := &failureRecorder{DiscoveryClient: m.client}
	groups, err := restmapper.GetAPIGroupResources(client)
	if err != nil {
		return nil, fmt.Errorf("discovering what the cluster serves: %w", err)
	}
	next := &discoveryResult{groups: groups, failures: map[string]error{}}
	for gv, err := range client.failed {
		next.failures[gv.Group] = err
		named := func(g *restmapper.APIGroupResources) bool { return g.Group.Name == gv.Group }
		if was == nil || !slices.ContainsFunc(was.groups, named) {
			continue
		}
		next.groups = append(slices.DeleteFunc(next.groups, named), was.groups[slices.IndexFunc(was.groups, named)])
	}
	next.RESTMapper = restmapper.NewDiscoveryRESTMapper(next.groups)
	return next, nil
}

// failureRecorder is a discovery client that keeps the errors of failed groups.
type failureRecorder struct {
	*discovery.DiscoveryClient
	failed map[schema.GroupVersion]error
}

// ServerGroupsAndResourcesWithContext implements discovery.DiscoveryInterfaceWithContext.
func (n *failureRecorder) ServerGroupsAndResourcesWithContext(ctx context.Context) ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	groups, resources, err := n.DiscoveryClient.ServerGroupsAndResourcesWithContext(ctx)
	n.failed, _ = discovery.GroupDiscoveryFailedErrorGroups(err)
	return groups, resources, err
}

// KindFor implements meta.RESTMapper.
func (m *Mapper) KindFor(r schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return lookUp(m, r.Group, func(k meta.RESTMapper) (schema.GroupVersionKind, error) { return k.KindFor(r) })
}

// KindsFor implements meta.RESTMapper.
func (m *Mapper) KindsFor(r schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return lookUp(m, r.Group, func(k meta.RESTMapper) ([]schema.GroupVersionKind, error) { return k.KindsFor(r) })
}

// ResourceFor implements meta.RESTMapper.
func (m *Mapper) ResourceFor(r schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return lookUp(m, r.Group, func(k meta.RESTMapper) (schema.GroupVersionResource, error) { return k.ResourceFor(r) })
}

// ResourcesFor implements meta.RESTMapper.
func (m *Mapper) ResourcesFor(r schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return lookUp(m, r.Group, func(k meta.RESTMapper) ([]schema.GroupVersionResource, error) { return k.ResourcesFor(r) })
}

// RESTMapping implements meta.RESTMapper.
func (m *Mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	return lookUp(m, kind.Group, func(k meta.RESTMapper) (*meta.RESTMapping, error) { return k.RESTMapping(kind, versions...) })
}

// RESTMappings implements meta.RESTMapper.
func (m *Mapper) RESTMappings(kind schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	return lookUp(m, kind.Group, func(k meta.RESTMapper) ([]*meta.RESTMapping, error) { return k.RESTMappings(kind, versions...) })
}

// ResourceSingularizer implements meta.RESTMapper.
func (m *Mapper) ResourceSingularizer(resource string) (string, error) {
	return lookUp(m, "", func(k meta.RESTMapper) (string, error) { return k.ResourceSingularizer(resource) })
}
