// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/healthz"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/component-base/version"
	"k8s.io/utils/clock"

	"github.com/weir-rollouts/weir/pkg/admission/workload"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/generated/openapi"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/rollout"
)

// Config is the complete configuration of the server.
type Config struct {
	// Generic is the configuration of the generic server. Without a cluster, the caller must set its
	// authentication and authorization.
	Generic *genericapiserver.RecommendedConfig
	// Webhook is the port that only serves workload admission; nil if workload admission is disabled, or served
	// only at the port of the API.
	Webhook *genericapiserver.SecureServingInfo

	options *Options
	// finder looks up the objects that Rollouts reference; nil if there is no cluster.
	finder rollout.Finder
	// room decides which writes the store has room for. The functions in follow keep its usage
	// up to date.
	room           room
	usageFollowers []func(ctx context.Context, counted func())
	// closers close the etcd clients when the server ends.
	closers []func() error
	// connections limits the connections of the API's port.
	connections *limitedListener
	// hasWebhookPort reports whether workload admission has a port of its own.
	hasWebhookPort bool
	// webhookClientCA verifies the clients of workload admission; nil accepts all clients.
	webhookClientCA dynamiccertificates.CAContentProvider
	// admission serves workload admission; nil until its hook has run.
	admission atomic.Pointer[http.Handler]
	// rollouts is the storage in which admission looks up Rollouts; set once the endpoints exist.
	rollouts workload.Source
	// running waits for goroutines before the process ends: for the last response of the webhook, and for the
	// controllers, which release the lease.
	running sync.WaitGroup
}

// Config applies the options.
func (o *Options) Config() (*Config, error) {
	// Applying the options below sets the bind port to that of the listener, so the ports are compared first.
	c := &Config{options: o, hasWebhookPort: o.hasWebhookListener()}
	c.Generic = genericapiserver.NewRecommendedConfig(o.codecs)
	c.setOpenAPI()
	c.Generic.BuildHandlerChainFunc = func(api http.Handler, g *genericapiserver.Config) http.Handler {
		inner := serveDashboard(prepareRequests(api, fieldCheck{o.scheme, o.ControllerUser}, g.Serializer), o.Pages)
		chain := genericapiserver.DefaultBuildHandlerChain(refuseCrossSite(inner, g.Serializer), g)
		all := exemptAggregator(limitBodyTime(c.serveAdmission(chain), g.RequestTimeout, clock.RealClock{}.Now), c.connections, isFromFrontProxy(g.Authentication.RequestHeaderConfig))
		return drainConnections(all, g.ShutdownInitiatedNotify(), g.ShutdownDelayDuration)
	}
	if err := o.Run.ApplyTo(&c.Generic.Config); err != nil {
		return nil, fmt.Errorf("applying the run options: %w", err)
	}
	if err := o.adaptToCluster(); err != nil {
		return nil, err
	}
	if serving := o.Recommended.SecureServing; serving.ServerCert.GeneratedCert == nil {
		loopback := []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
		if err := serving.MaybeDefaultWithSelfSignedCerts("localhost", nil, loopback); err != nil {
			return nil, fmt.Errorf("making a self-signed certificate: %w", err)
		}
	}
	// The storage options are applied below, because RecommendedOptions ignores half of them.
	recommended := *o.Recommended
	recommended.Etcd = nil
	if err := recommended.ApplyTo(c.Generic); err != nil {
		return nil, fmt.Errorf("applying the options: %w", err)
	}
	c.setAccess()
	if err := c.setClients(); err != nil {
		return nil, err
	}
	if err := c.setStorage(); err != nil {
		return nil, err
	}
	if err := c.openClaimedStorage(); err != nil {
		return nil, err
	}
	if err := c.openRoom(); err != nil {
		return nil, err
	}
	return c, c.openWebhook()
}

// setClients creates the clients of the cluster, if there is one.
func (c *Config) setClients() error {
	cluster := c.Generic.ClientConfig
	if cluster == nil {
		return nil
	}
	finder, err := newFinder(cluster)
	if err != nil {
		return err
	}
	c.finder = finder
	return nil
}

// setAccess sets authentication and authorization.
func (c *Config) setAccess() {
	if serving := c.Generic.SecureServing; serving != nil && serving.Listener != nil {
		c.connections = newLimitedListener(serving.Listener)
		serving.Listener = newListenerGate(c.connections, isFrontProxyKnown(c.Generic.Authentication.RequestHeaderConfig))
	}
	if c.options.Standalone.Enabled {
		c.setStandalone()
	}
	if inner := c.Generic.Authentication.Authenticator; inner != nil {
		c.Generic.Authentication.Authenticator = inProcessAuthenticator{anonymousHealthAuthenticator{inner}, c.options.ControllerUser}
	}
	if inner := c.Generic.Authorization.Authorizer; inner != nil {
		c.Generic.Authorization.Authorizer = controllerAuthorizer{inner, c.options.ControllerUser}
	}
}

func (c *Config) setOpenAPI() {
	namer := openapinamer.NewDefinitionNamer(newPublishedScheme())
	v2 := genericapiserver.DefaultOpenAPIConfig(openapi.GetOpenAPIDefinitions, namer)
	v3 := genericapiserver.DefaultOpenAPIV3Config(openapi.GetOpenAPIDefinitions, namer)
	v2.Info.Title, v3.Info.Title = "Weir", "Weir"
	v2.Info.Version, v3.Info.Version = version.Get().GitVersion, version.Get().GitVersion
	c.Generic.OpenAPIConfig, c.Generic.OpenAPIV3Config = v2, v3
}

func (c *Config) setStorage() error {
	o := c.options
	etcd := o.Recommended.Etcd
	config := etcd.StorageConfig
	config.StorageObjectCountTracker = c.Generic.StorageObjectCountTracker
	encoding := serverstorage.NewDefaultResourceEncodingConfig(o.scheme)
	for _, k := range kinds {
		encoding.SetResourceEncoding(k.resource.GroupResource(), k.resource.GroupVersion(), rollouts.SchemeGroupVersion)
	}
	factory := serverstorage.NewDefaultStorageFactory(config, etcd.DefaultStorageMediaType, o.codecs,
		encoding, serverstorage.NewResourceConfig(), storageKeys)
	if err := etcd.ApplyWithStorageFactoryTo(factory, &c.Generic.Config); err != nil {
		return fmt.Errorf("applying the storage options: %w", err)
	}
	if o.embedded != nil {
		// This check is for people and monitoring. It is not in /readyz, because a full store still serves
		// reads and deletions, and taking the server out of service would not free space.
		c.Generic.HealthzChecks = append(c.Generic.HealthzChecks, healthz.NamedCheck("storage-space", o.checkStorageSpace))
	}
	return nil
}

// checkStorageSpace is a health check that fails while the embedded etcd refuses writes.
func (o *Options) checkStorageSpace(*http.Request) error {
	if u := o.embedded.Usage(); u.Full {
		return fmt.Errorf("%d of %d bytes are in use", u.InUse, u.Limit)
	}
	return nil
}
