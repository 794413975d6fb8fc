// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package apiservertest runs the whole API server with its embedded etcd in the process of a test, without
// a cluster. A token identifies the user, and a function decides what the user may do.
package apiservertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes/scheme"
	restclient "k8s.io/client-go/rest"

	"github.com/weir-rollouts/weir/pkg/apiserver"
	"github.com/weir-rollouts/weir/pkg/store"
)

// startTimeout limits how long a server may take to become ready.
const startTimeout = 30 * time.Second

// Server is a running server.
type Server struct {
	// API is the address of the API, and Webhook that of workload admission. They are the same unless the
	// options have a WebhookListener.
	API, Webhook string
	// Store is the embedded etcd. Its periodic maintenance does not run.
	Store *store.Store

	loopback *restclient.Config
	stop     context.CancelFunc
	done     chan error
}

// Allow reports whether a user may make a request. It is not called for members of system:masters, who may
// do everything.
type Allow func(a authorizer.Attributes) bool

// Start runs a server that stores its data in the directory, with the default options as modified by
// changes. The token of each user is the user's name. Start returns when the server is ready.
func Start(dir string, users []user.DefaultInfo, allow Allow, changes ...func(*apiserver.Options)) (*Server, error) {
	o, err := newOptions()
	if err != nil {
		return nil, err
	}
	o.Store.DataDir = filepath.Join(dir, "data")
	for _, change := range changes {
		change(o)
	}
	ctx, stop := context.WithCancel(context.Background())
	embedded, err := store.Start(ctx, o.Store)
	if err != nil {
		stop()
		return nil, err
	}
	o.UseStore(embedded)
	server, addresses, err := buildServer(o, users, allow)
	if err != nil {
		stop()
		embedded.Close()
		return nil, err
	}
	s := &Server{
		API: addresses.api, Webhook: addresses.webhook, Store: embedded, loopback: server.Generic.LoopbackClientConfig,
		stop: stop, done: make(chan error, 1),
	}
	go func() {
		err := server.Run(ctx)
		embedded.Close()
		s.done <- err
	}()
	if err := s.awaitReady(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// Stop shuts the server down gracefully.
func (s *Server) Stop() error {
	s.stop()
	return <-s.done
}

// As returns the client configuration of a user.
func (s *Server) As(name string) *restclient.Config {
	c := restclient.CopyConfig(s.loopback)
	c.BearerToken = name
	c.QPS = -1
	return c
}

type addresses struct{ api, webhook string }

func buildServer(o *apiserver.Options, users []user.DefaultInfo, allow Allow) (*apiserver.Server, addresses, error) {
	config, err := o.Config()
	if err != nil {
		return nil, addresses{}, err
	}
	tokens := map[string]*user.DefaultInfo{}
	for i := range users {
		tokens[users[i].Name] = &users[i]
	}
	config.Generic.Authentication.Authenticator = authenticatorfactory.NewFromTokens(tokens, nil)
	config.Generic.Authorization.Authorizer = authorizer.AuthorizerFunc(
		func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			if slices.Contains(a.GetUser().GetGroups(), user.SystemPrivilegedGroup) || allow(a) {
				return authorizer.DecisionAllow, "", nil
			}
			return authorizer.DecisionNoOpinion, "no rule allows it", nil
		})
	server, err := config.New()
	if err != nil {
		return nil, addresses{}, err
	}
	api := config.Generic.SecureServing.Listener.Addr().String()
	if config.Webhook != nil {
		return server, addresses{api, config.Webhook.Listener.Addr().String()}, nil
	}
	return server, addresses{api, api}, nil
}

// newOptions returns the options of a server without a cluster.
func newOptions() (*apiserver.Options, error) {
	o := apiserver.NewOptions()
	r := o.Recommended
	o.WithoutCluster()
	r.SecureServing.ServerCert.CertDirectory = ""
	var err error
	if r.SecureServing.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	return o, nil
}

func (s *Server) awaitReady(ctx context.Context) error {
	config := restclient.CopyConfig(s.loopback)
	config.NegotiatedSerializer = scheme.Codecs
	client, err := restclient.UnversionedRESTClientFor(config)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		last = client.Get().AbsPath("/readyz").Do(ctx).Error()
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the server: %w", errors.Join(err, last))
	}
	return nil
}
