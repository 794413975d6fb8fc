// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// InProcessProgram is a program that runs in the process of the server, as a client of the server and of the cluster:
// the controllers.
type InProcessProgram interface {
	AddFlags(*pflag.FlagSet)
	Validate() error
	// Enabled reports whether the program should run.
	Enabled() bool
	// Run runs the program until the context ends. The configuration reaches the server and the cluster.
	// Run returns ErrLeadLost if it was the leader and lost the lease.
	Run(context.Context, *rest.Config) error
}

// ErrLeadLost is the error of controllers that lost the leader election lease, for instance because
// kube-apiserver did not answer in time. The server continues, and restarts the controllers.
var ErrLeadLost = errors.New("the controllers lost the leader election lease")

// inProcessKey is the context key that marks requests from this process. Other clients cannot set it.
type inProcessKey struct{}

// inProcessAuthenticator authenticates requests from this process as the user of the controller.
type inProcessAuthenticator struct {
	authenticator.Request
	controller string
}

// AuthenticateRequest implements authenticator.Request.
func (a inProcessAuthenticator) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if r.Context().Value(inProcessKey{}) == nil {
		return a.Request.AuthenticateRequest(r)
	}
	groups := []string{user.AllAuthenticated}
	if namespace, _, err := serviceaccount.SplitUsername(a.controller); err == nil {
		groups = append(groups, serviceaccount.MakeGroupNames(namespace)...)
	}
	return &authenticator.Response{User: &user.DefaultInfo{Name: a.controller, Groups: groups}}, true, nil
}

// startInProcessProgram returns a hook that starts the controllers once the server is serving. If they fail to start,
// the server stops, so that the failure is visible.
func (c *Config) startInProcessProgram(generic *genericapiserver.GenericAPIServer) genericapiserver.PostStartHookFunc {
	return func(hook genericapiserver.PostStartHookContext) error {
		cluster, err := dynamic.NewForConfig(c.Generic.ClientConfig)
		if err != nil {
			return fmt.Errorf("creating a client: %w", err)
		}
		c.running.Go(func() {
			err := keepRunning(hook.Context, clock.RealClock{}, func(ctx context.Context) error {
				if err := awaitAPI(ctx, cluster); err != nil {
					return err
				}
				return runInProcess(ctx, c.options.InProcess, generic.Handler, c.Generic.ClientConfig)
			})
			if hook.Err() == nil {
				c.options.fail(fmt.Errorf("running the controllers: %w", cmp.Or(err, errEnded)))
			}
		})
		return nil
	}
}

var errEnded = errors.New("they ended")

// keepRunning runs the controllers until the context ends. It returns their error if they end
// before they have ever been the leader. After that it restarts them each time they end, because
// the API and the webhook must stay up when kube-apiserver is unavailable for some seconds.
func keepRunning(ctx context.Context, c clock.Clock, run func(context.Context) error) error {
	haveLed := false
	pause := wait.Backoff{Duration: time.Second, Factor: 2, Steps: math.MaxInt32, Cap: 30 * time.Second}
	next := pause
	for {
		err := run(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the server is stopping, which also ends the controllers
		}
		if errors.Is(err, ErrLeadLost) {
			haveLed, next = true, pause
		}
		if !haveLed {
			return err
		}
		klog.ErrorS(err, "The controllers ended; restarting them in this process")
		select {
		case <-ctx.Done():
			return nil
		case <-c.After(next.Step()):
		}
	}
}

// runInProcess runs the program and returns when it has ended. Requests of the program to our API groups go to
// the server directly: without the aggregator, TLS, and a second authentication. Authorization, admission,
// audit and flow control still apply.
func runInProcess(ctx context.Context, b InProcessProgram, handler http.Handler, cluster *rest.Config) error {
	listener := newPipeListener()
	server := &http.Server{ //nolint:gosec // its only client is this process
		Handler:     handler,
		BaseContext: func(net.Listener) context.Context { return context.WithValue(ctx, inProcessKey{}, true) },
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	own := &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return listener.dial(ctx) },
		MaxIdleConnsPerHost: 100,
	}
	config := rest.CopyConfig(cluster)
	config.Wrap(func(outside http.RoundTripper) http.RoundTripper {
		return groupRoundTripper{own: own, outside: outside}
	})
	err := b.Run(ctx, config)
	if closed := server.Close(); closed != nil {
		err = errors.Join(err, fmt.Errorf("closing the connections of the process: %w", closed))
	}
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// groupRoundTripper sends requests to our API groups to this process, and all others to the cluster.
type groupRoundTripper struct {
	own, outside http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b groupRoundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	if !slices.ContainsFunc(groups, func(group string) bool { return strings.HasPrefix(r.URL.Path, "/apis/"+group+"/") }) {
		return b.outside.RoundTrip(r)
	}
	inside := r.Clone(r.Context())
	inside.URL.Scheme = "http"
	inside.Header.Del("Authorization")
	return b.own.RoundTrip(inside)
}

// WrappedRoundTripper implements net.RoundTripperWrapper of apimachinery.
func (b groupRoundTripper) WrappedRoundTripper() http.RoundTripper { return b.outside }
