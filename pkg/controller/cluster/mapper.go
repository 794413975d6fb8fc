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

	served atomic.Pointer[served]

	mu      sync.Mutex
	changed time.Time

	asking sync.Mutex
	// asked is when the cluster was asked last, and failure what came of it.
	asked   time.Time
	failure error
}

// served is one answer of the cluster.
type served struct {
	meta.RESTMapper
	groups []*restmapper.APIGroupResources
	// silent are groups of which the cluster could not tell.
	silent map[string]error
	// mappings are what was found of kinds, by group, version and kind.
	mappings sync.Map
}

// RESTMapping implements meta.RESTMapper. Caches ask for that of a kind with each read.
func (s *served) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
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
	// missing is how long a kind counts as not served that was not.
	missing = 10 * time.Second
	// changing is how long it may count so where the answer may be older than what
	// definitions have brought since, or where the cluster could not tell.
	changing = Served / 4
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
	m.changed = m.clock.Now()
}

// ours are the kinds of our group. They are as they are, whether the cluster knows yet that
// they are served or not, and in the process that serves them it does not.
var ours = func() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper([]schema.GroupVersion{v1beta1.SchemeGroupVersion, v1alpha1.SchemeGroupVersion})
	for kind := range conversions.AllKnownTypes() {
		m.Add(kind, meta.RESTScopeNamespace)
	}
	return m
}()

// tell answers from what is known, and asks the cluster once if that is not enough.
func tell[T any](m *Mapper, group string, from func(meta.RESTMapper) (T, error)) (T, error) {
	var none T
	if group == rollouts.GroupName {
		return from(ours)
	}
	known := m.served.Load()
	if known != nil {
		if found, err := from(known); !meta.IsNoMatchError(err) {
			return found, err
		}
	}
	known, err := m.renewed(known, group)
	if err != nil {
		return none, err
	}
	found, err := from(known)
	if silent := known.silent[group]; silent != nil && meta.IsNoMatchError(err) {
		return none, fmt.Errorf("discovering %s: %w", group, silent)
	}
	return found, err
}

// renewed is a newer answer than the one that did not do, if there may be one.
func (m *Mapper) renewed(was *served, group string) (*served, error) {
	m.asking.Lock()
	defer m.asking.Unlock()
	known := m.served.Load()
	if known != was || !m.due(known, group) {
		return known, m.failure
	}
	m.asked = m.clock.Now()
	next, err := m.ask(known)
	if m.failure = err; err != nil {
		return nil, err
	}
	m.served.Store(next)
	return next, nil
}

// due reports whether the cluster may be asked again.
func (m *Mapper) due(known *served, group string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	after := missing
	if known == nil || m.failure != nil || known.silent[group] != nil || m.asked.Before(m.changed.Add(2*Served)) {
		after = changing
	}
	return m.asked.IsZero() || m.clock.Since(m.asked) >= after
}

// ask asks the cluster. What it cannot tell of a group now, it has told before.
func (m *Mapper) ask(was *served) (*served, error) {
	client := &noting{DiscoveryClient: m.client}
	groups, err := restmapper.GetAPIGroupResources(client)
	if err != nil {
		return nil, fmt.Errorf("discovering what the cluster serves: %w", err)
	}
	next := &served{groups: groups, silent: map[string]error{}}
	for gv, err := range client.failed {
		next.silent[gv.Group] = err
		named := func(g *restmapper.APIGroupResources) bool { return g.Group.Name == gv.Group }
		if was == nil || !slices.ContainsFunc(was.groups, named) {
			continue
		}
		next.groups = append(slices.DeleteFunc(next.groups, named), was.groups[slices.IndexFunc(was.groups, named)])
	}
	next.RESTMapper = restmapper.NewDiscoveryRESTMapper(next.groups)
	return next, nil
}

// noting keeps which groups the cluster could not tell of.
type noting struct {
	*discovery.DiscoveryClient
	failed map[schema.GroupVersion]error
}

// ServerGroupsAndResourcesWithContext implements discovery.DiscoveryInterfaceWithContext.
func (n *noting) ServerGroupsAndResourcesWithContext(ctx context.Context) ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	groups, resources, err := n.DiscoveryClient.ServerGroupsAndResourcesWithContext(ctx)
	n.failed, _ = discovery.GroupDiscoveryFailedErrorGroups(err)
	return groups, resources, err
}

// KindFor implements meta.RESTMapper.
func (m *Mapper) KindFor(r schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return tell(m, r.Group, func(k meta.RESTMapper) (schema.GroupVersionKind, error) { return k.KindFor(r) })
}

// KindsFor implements meta.RESTMapper.
func (m *Mapper) KindsFor(r schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return tell(m, r.Group, func(k meta.RESTMapper) ([]schema.GroupVersionKind, error) { return k.KindsFor(r) })
}

// ResourceFor implements meta.RESTMapper.
func (m *Mapper) ResourceFor(r schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return tell(m, r.Group, func(k meta.RESTMapper) (schema.GroupVersionResource, error) { return k.ResourceFor(r) })
}

// ResourcesFor implements meta.RESTMapper.
func (m *Mapper) ResourcesFor(r schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return tell(m, r.Group, func(k meta.RESTMapper) ([]schema.GroupVersionResource, error) { return k.ResourcesFor(r) })
}

// RESTMapping implements meta.RESTMapper.
func (m *Mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	return tell(m, kind.Group, func(k meta.RESTMapper) (*meta.RESTMapping, error) { return k.RESTMapping(kind, versions...) })
}

// RESTMappings implements meta.RESTMapper.
func (m *Mapper) RESTMappings(kind schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	return tell(m, kind.Group, func(k meta.RESTMapper) ([]*meta.RESTMapping, error) { return k.RESTMappings(kind, versions...) })
}

// ResourceSingularizer implements meta.RESTMapper.
func (m *Mapper) ResourceSingularizer(resource string) (string, error) {
	return tell(m, "", func(k meta.RESTMapper) (string, error) { return k.ResourceSingularizer(resource) })
}
