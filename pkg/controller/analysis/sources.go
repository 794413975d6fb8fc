// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/validation"
	weir "github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/judge"
	"github.com/weir-rollouts/weir/pkg/metric"
	"github.com/weir-rollouts/weir/pkg/source"
)

// Cluster implements Sources with the objects of a cluster.
type Cluster struct {
	// Reader reads from caches. Live reads Secrets, Jobs and endpoints from kube-apiserver, so that no cache
	// has copies of them. Writer creates Jobs.
	Reader, Live client.Reader
	Writer       client.Writer
	Rules        source.AddressRules
	Services     source.ServiceClient
	Clock        clock.PassiveClock

	apiServers apiServers
	// renewals read a source's configuration and Secret. Only callers that need the same
	// source wait for the read.
	renewals singleflight.Group
	mu       sync.Mutex
	clients  map[string]*cachedClient
}

// NewCluster returns the sources of a cluster. If hosts is not empty, no other hosts are connected to.
func NewCluster(reader, live client.Reader, writer client.Writer, hosts []string, now clock.PassiveClock) *Cluster {
	c := &Cluster{Reader: boundedReader{reader}, Live: boundedReader{live}, Writer: boundedWriter{writer}, Clock: now}
	c.Rules = source.AddressRules{Hosts: hosts, APIServers: c.apiServerAddresses}
	c.Services.Rules = c.Rules
	return c
}

// cachedClient is the client of a source, with the versions of the source and the Secret from which it was
// made. After until, the Secret must be read again.
type cachedClient struct {
	source, secret string
	until          time.Time
	client         *source.Client
}

// secretMaxAge is how long a Secret is used before it is read again.
const secretMaxAge = time.Minute

// Source implements Sources.
func (c *Cluster) Source(ctx context.Context, name, namespace string) (*Source, error) {
	var found weir.MetricSource
	if err := c.Reader.Get(ctx, types.NamespacedName{Name: name}, &found); err != nil {
		if apierrors.IsNotFound(err) {
			c.closeClient(name)
			return nil, fmt.Errorf("metricsource %s does not exist; ask a cluster administrator to create it", name)
		}
		return nil, fmt.Errorf("reading metricsource %s: %w", name, err)
	}
	if err := c.checkNamespace(ctx, &found, namespace); err != nil {
		return nil, err
	}
	if err := c.refreshAPIServers(ctx); err != nil {
		return nil, transientError{err}
	}
	asked, err := c.clientFor(ctx, &found)
	if err != nil {
		return nil, fmt.Errorf("metricsource %s: %w", name, err)
	}
	spec := &found.Spec
	return &Source{
		Query:   c.queryFunc(asked),
		Dialect: metric.Dialect{Labels: metric.Spelling(spec.Spelling()), Newborn: metric.Newborn(spec.CountsNewborn())},
		Lag:     spec.Lag(), RawQueries: spec.AllowsRawQueries(), Skew: asked.Skew(),
	}, nil
}

// queryFunc returns the function of Source.Query that queries a client.
func (c *Cluster) queryFunc(asked *source.Client) func(context.Context, RangeQuery) ([]metric.Series, judge.Fault) {
	return func(ctx context.Context, r RangeQuery) ([]metric.Series, judge.Fault) {
		answer, fault := asked.Query(ctx, c.Clock.Now(), source.RangeQuery{PromQL: r.PromQL, Namespace: r.Namespace, Start: r.Start, Step: r.Step, Windows: r.Windows, BypassCache: r.BypassCache})
		if fault != nil {
			return nil, judge.Fault{Why: fault.Why, Since: fault.Since}
		}
		return answer, judge.Fault{}
	}
}

// checkNamespace returns an error if a source is not for a namespace.
func (c *Cluster) checkNamespace(ctx context.Context, s *weir.MetricSource, namespace string) error {
	if s.Spec.Namespaces == nil {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(s.Spec.Namespaces)
	if err != nil {
		return fmt.Errorf("metricsource %s: spec.namespaces: %w", s.Name, err)
	}
	var of metav1.PartialObjectMetadata
	of.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := c.Reader.Get(ctx, types.NamespacedName{Name: namespace}, &of); err != nil {
		return fmt.Errorf("reading the labels of namespace %s: %w", namespace, err)
	}
	if !selector.Matches(labels.Set(of.Labels)) {
		return fmt.Errorf("metricsource %s is not for namespace %s, whose labels spec.namespaces does not select", s.Name, namespace)
	}
	return nil
}

// clientFor returns the client of a source. The client is replaced when the source or its Secret
// has changed.
func (c *Cluster) clientFor(ctx context.Context, s *weir.MetricSource) (*source.Client, error) {
	version := string(s.UID) + "/" + s.ResourceVersion
	if made := c.cachedClient(s.Name, version); made != nil {
		return made, nil
	}
	renewal := c.renewals.DoChan(s.Name+"\x00"+version, func() (any, error) {
		config, secret, err := c.sourceConfig(context.WithoutCancel(ctx), s)
		if err != nil {
			return nil, err
		}
		return c.renewClient(s.Name, cachedClient{source: version, secret: secret}, config) //nolint:contextcheck // the client outlives this request: it refreshes tokens for later queries
	})
	select {
	case result := <-renewal:
		if result.Err != nil {
			return nil, result.Err
		}
		return result.Val.(*source.Client), nil
	case <-ctx.Done():
		return nil, transientError{ctx.Err()}
	}
}

// cachedClient returns the cached client of a version of a source; nil if there is none, or if its
// Secret must be read again.
func (c *Cluster) cachedClient(name, version string) *source.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	if was := c.clients[name]; was != nil && was.source == version && c.Clock.Now().Before(was.until) {
		return was.client
	}
	return nil
}

// renewClient returns the cached client of a source if the source and its Secret are unchanged, and
// replaces the client otherwise.
func (c *Cluster) renewClient(name string, now cachedClient, config source.Config) (*source.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.clients[name]
	now.until = c.Clock.Now().Add(secretMaxAge)
	if was != nil && was.source == now.source && was.secret == now.secret {
		was.until = now.until
		return was.client, nil
	}
	made, err := source.New(config, c.Rules)
	if err != nil {
		return nil, err
	}
	if was != nil {
		was.client.Close()
	}
	if c.clients == nil {
		c.clients = map[string]*cachedClient{}
	}
	now.client = made
	c.clients[name] = &now
	return made, nil
}

// closeClient closes the client of a deleted source, and removes its answers and connections.
func (c *Cluster) closeClient(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if was := c.clients[name]; was != nil {
		was.client.Close()
		delete(c.clients, name)
	}
}

// sourceConfig returns the configuration of a source with the content of its Secret, and the
// version of the Secret.
func (c *Cluster) sourceConfig(ctx context.Context, s *weir.MetricSource) (config source.Config, version string, err error) {
	p := s.Spec.Prometheus
	if p == nil {
		return config, "", errors.New("spec.prometheus is missing")
	}
	config = source.Config{URL: p.URL, Headers: p.Headers, QueriesPerSecond: s.Spec.Rate(), ServerName: p.ServerName, Now: c.Clock.Now}
	if p.Auth == nil {
		return config, "", nil
	}
	var secret corev1.Secret
	if err := c.Live.Get(ctx, types.NamespacedName{Namespace: weir.SecretNamespace, Name: p.Auth.Secret}, &secret); err != nil {
		err = fmt.Errorf("reading secret %s in namespace %s: %w", p.Auth.Secret, weir.SecretNamespace, err)
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			return config, "", err
		}
		return config, "", transientError{err}
	}
	of := func(key string) string { return string(secret.Data[key]) }
	config.Username, config.Password, config.Token = of(weir.SecretUsername), of(weir.SecretPassword), of(weir.SecretToken)
	config.CA, config.Certificate, config.Key = of(weir.SecretCA), of(weir.SecretCertificate), of(weir.SecretKey)
	if id := of(weir.SecretClientID); id != "" {
		config.OAuth2 = &source.OAuth2{ID: id, Secret: of(weir.SecretClientSecret), TokenURL: of(weir.SecretTokenURL)}
	}
	return config, secret.ResourceVersion, nil
}

// ResolveCheck implements Sources.
func (c *Cluster) ResolveCheck(ctx context.Context, namespace string, check rollouts.Check) (used rollouts.Check, trusted bool, err error) {
	ref := check.Use
	if ref == nil {
		return check, false, nil
	}
	var spec *weir.CheckSpec
	if ref.Kind == "ClusterCheck" {
		var found weir.ClusterCheck
		err, spec, trusted = c.Reader.Get(ctx, types.NamespacedName{Name: ref.Name}, &found), &found.Spec, true
	} else {
		var found weir.Check
		err, spec = c.Reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: ref.Name}, &found), &found.Spec
	}
	if err != nil {
		return check, false, fmt.Errorf("reading %s %s: %w", ref.Kind, ref.Name, err)
	}
	filled, errs := spec.With(ref.Args)
	if len(errs) > 0 {
		return check, false, fmt.Errorf("%s %s: %w", ref.Kind, ref.Name, errs.ToAggregate())
	}
	// Arguments may make a valid Check invalid, so the filled-in check is validated again.
	if errs := validation.ValidateCheck(filled, field.NewPath("spec")); len(errs) > 0 {
		return check, false, fmt.Errorf("%s %s, with args %s: %w", ref.Kind, ref.Name, ref.Args, errs.ToAggregate())
	}
	return *filled, trusted, nil
}
