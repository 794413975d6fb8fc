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

// Mapper knows the kinds that the cluster serves, all of them from one question.
// A kind that it does not know makes it ask again, but not more often than it may:
// users choose kinds, and what they choose is not to cost requests.
type Mapper struct {
	client *discovery.DiscoveryClient
	clock  clock.PassiveClock

	latest atomic.Pointer[discoveryResult]

	mu        sync.Mutex
	changedAt time.Time

	refreshing sync.Mutex
	// refreshedAt is when the cluster was asked last, and failure what came of it.
	refreshedAt time.Time
	lastError   error
}

// discoveryResult is one answer of the cluster.
type discoveryResult struct {
	meta.RESTMapper
	groups []*restmapper.APIGroupResources
	// failures are groups of which the cluster could not tell.
	failures map[string]error
	// mappings are what was found of kinds, by group, version and kind.
	mappings sync.Map
}

// RESTMapping implements meta.RESTMapper. Caches ask for that of a kind with each read.
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
	// unknownKindTTL is how long a kind counts as not served that was not.
	unknownKindTTL = 10 * time.Second
	// recentChangeTTL is how long it may count so where the answer may be older than what
	// definitions have brought since, or where the cluster could not tell.
	recentChangeTTL = ServeDelay / 4
)

var _ meta.ResettableRESTMapper = &Mapper{}

// NewMapper is how a manager gets its mapper.
func NewMapper(c clock.PassiveClock) func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
	return func(config *rest.Config, h *http.Client) (meta.RESTMapper, error) {
		client, err := discovery.NewDiscoveryClientForConfigAndClient(config, h)
		if err != nil {
			return nil, fmt.Errorf("making a client of discovery: %w", err)
		}
		return &Mapper{client: client, clock: c}, nil
	}
}

// Reset notes that other kinds may be served soon.
func (m *Mapper) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changedAt = m.clock.Now()
}

// weirMapper are the kinds of our group. They are as they are, whether the cluster knows yet that
// they are served or not, and in the process that serves them it does not.
var weirMapper = func() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper([]schema.GroupVersion{v1beta1.SchemeGroupVersion, v1alpha1.SchemeGroupVersion})
	for kind := range wireScheme.AllKnownTypes() {
		m.Add(kind, meta.RESTScopeNamespace)
	}
	return m
}()

// lookUp answers from what is known, and asks the cluster once if that is not enough.
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

// refresh is a newer answer than the one that did not do, if there may be one.
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

// mayRefresh reports whether the cluster may be asked again.
func (m *Mapper) mayRefresh(known *discoveryResult, group string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	after := unknownKindTTL
	if known == nil || m.lastError != nil || known.failures[group] != nil || m.refreshedAt.Before(m.changedAt.Add(2*ServeDelay)) {
		after = recentChangeTTL
	}
	return m.refreshedAt.IsZero() || m.clock.Since(m.refreshedAt) >= after
}

// discover asks the cluster. What it cannot tell of a group now, it has told before.
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

// failureRecorder keeps which groups the cluster could not tell of.
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
