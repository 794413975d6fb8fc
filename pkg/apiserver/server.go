// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/utils/clock"

	"github.com/weir-rollouts/weir/pkg/admission/workload"
	hub "github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/rollout"
	"github.com/weir-rollouts/weir/pkg/store"
)

// Server is the API server.
type Server struct {
	Generic *genericapiserver.GenericAPIServer

	running *sync.WaitGroup
	closers []func() error
}

// New builds the server: the API groups, then the webhook.
func (c *Config) New() (*Server, error) {
	generic, err := c.Generic.Complete().New("weir-apiserver", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, fmt.Errorf("creating the generic server: %w", err)
	}
	views, err := c.newTreeConfig()
	if err != nil {
		return nil, err
	}
	rules := c.options.Rules
	rules.OwnNamespace = c.options.TLS.Namespace
	endpoints, err := rollouts.NewStorage(rollout.Config{
		Scheme:          c.options.scheme,
		Options:         c.Generic.RESTOptionsGetter,
		Authorizer:      c.Generic.Authorization.Authorizer,
		Clock:           clock.RealClock{},
		Controller:      c.options.ControllerUser,
		LegacyApprovals: c.options.LegacyApprovals == LegacyAllow,
		Rules:           rules,
		Finder:          c.finder,
		Room:            c.room,
	}, views)
	if err != nil {
		return nil, err
	}
	for _, name := range groups {
		group := genericapiserver.NewDefaultAPIGroupInfo(name, c.options.scheme, runtime.NewParameterCodec(c.options.scheme), c.options.codecs)
		group.NegotiatedSerializer = withoutProtobuf{group.NegotiatedSerializer}
		group.VersionedResourcesStorageMap = endpoints[name]
		if err := generic.InstallAPIGroup(&group); err != nil {
			return nil, fmt.Errorf("installing the API group %s: %w", name, err)
		}
	}
	if err := c.addHooks(generic, endpoints[hub.GroupName]); err != nil {
		return nil, err
	}
	return &Server{Generic: generic, running: &c.running, closers: c.closers}, nil
}

// addHooks adds the hooks that run once the server is serving.
func (c *Config) addHooks(generic *genericapiserver.GenericAPIServer, endpoints rollouts.Endpoints) error {
	// These hooks keep /readyz from succeeding before the watch caches are filled.
	hooks := map[string]genericapiserver.PostStartHookFunc{
		"storage-readiness": generic.StorageReadinessHook.Hook, "storage-room": c.followRoom,
	}
	if c.options.servesWebhook() {
		var ok bool
		if c.rollouts, ok = endpoints[v1beta1.SchemeGroupVersion.Version]["rollouts"].(workload.Source); !ok {
			return errors.New("the endpoint of rollouts can not be watched")
		}
		hooks["workload-admission"] = c.serveWebhook
	}
	if c.options.hasInProcessProgram() {
		hooks["controllers"] = c.startInProcessProgram(generic)
	}
	if c.options.Standalone.Enabled {
		hooks["standalone"] = c.announce
	}
	for name, hook := range hooks {
		if err := generic.AddPostStartHook(name, hook); err != nil {
			return fmt.Errorf("adding the hook %s: %w", name, err)
		}
	}
	return nil
}

// Run serves until the context ends, and then shuts down gracefully.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Generic.PrepareRun().RunWithContext(ctx); err != nil {
		return fmt.Errorf("serving: %w", err)
	}
	s.running.Wait()
	for _, closeClient := range s.closers {
		if err := closeClient(); err != nil {
			return fmt.Errorf("closing a client of etcd: %w", err)
		}
	}
	return nil
}

// Run starts all components, and serves until the context ends.
func Run(ctx context.Context, o *Options) (failed error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o.fail = cancel
	if o.Standalone.Enabled {
		leave, err := o.openStandalone()
		if err != nil {
			return err
		}
		defer func() { failed = errors.Join(failed, leave()) }()
	}
	if err := o.openCertificates(ctx); err != nil {
		return err
	}
	if !o.usesExternalEtcd() {
		embedded, err := o.openStore(ctx, cancel)
		if err != nil {
			return err
		}
		// The embedded etcd must be closed last: the server has closed its clients by then.
		defer embedded.Close()
	}
	config, err := o.Config()
	if err != nil {
		return err
	}
	server, err := config.New()
	if err != nil {
		return err
	}
	err = server.Run(ctx)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return errors.Join(cause, err)
	}
	return err
}

// openStore starts the embedded etcd. If it fails later, the server stops.
func (o *Options) openStore(ctx context.Context, cancel context.CancelCauseFunc) (*store.Store, error) {
	embedded, err := store.Start(ctx, o.Store)
	if err != nil {
		return nil, err
	}
	go func() {
		select {
		case failure := <-embedded.Failed():
			cancel(fmt.Errorf("running the embedded etcd: %w", failure))
		case <-ctx.Done():
		}
	}()
	embedded.Maintain(ctx)
	o.UseStore(embedded)
	return embedded, nil
}

// UseStore makes the server store its objects in a running embedded etcd.
func (o *Options) UseStore(embedded *store.Store) {
	o.embedded = embedded
	o.Recommended.Etcd.StorageConfig.Transport.ServerList = []string{embedded.Endpoint()}
}
