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

// Beside is what runs in the process of the server, as a client of it and of the cluster:
// the controllers.
type Beside interface {
	AddFlags(*pflag.FlagSet)
	Validate() error
	// Enabled reports whether it runs at all.
	Enabled() bool
	// Elects reports whether one of several leads, which raises the fence then.
	Elects() bool
	// Run runs it until the context ends. The configuration reaches both. The fence is nil
	// without an election. Run returns ErrLeadLost if it led and leads no longer.
	Run(context.Context, *rest.Config, Fence) error
}

// ErrLeadLost is the error of controllers that lost the leader election lease, for instance because
// kube-apiserver did not answer in time. They start again, and the server goes on serving.
var ErrLeadLost = errors.New("the controllers lost the leader election lease")

// inProcess marks the context of requests that come from this process. Nobody else can
// make one.
type inProcess struct{}

// besideAuthenticator takes requests that come from this process for those of the
// controller.
type besideAuthenticator struct {
	authenticator.Request
	controller string
}

// AuthenticateRequest implements authenticator.Request.
func (a besideAuthenticator) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if r.Context().Value(inProcess{}) == nil {
		return a.Request.AuthenticateRequest(r)
	}
	groups := []string{user.AllAuthenticated}
	if namespace, _, err := serviceaccount.SplitUsername(a.controller); err == nil {
		groups = append(groups, serviceaccount.MakeGroupNames(namespace)...)
	}
	return &authenticator.Response{User: &user.DefaultInfo{Name: a.controller, Groups: groups}}, true, nil
}

// startBeside starts the controllers once the server serves. The server ends if they cannot
// start, so that the failure is seen.
func (c *Config) startBeside(generic *genericapiserver.GenericAPIServer) genericapiserver.PostStartHookFunc {
	return func(hook genericapiserver.PostStartHookContext) error {
		cluster, err := dynamic.NewForConfig(c.Generic.ClientConfig)
		if err != nil {
			return fmt.Errorf("creating a client: %w", err)
		}
		c.ends.Go(func() {
			err := keepRunning(hook.Context, clock.RealClock{}, func(ctx context.Context) error {
				if err := awaitAPI(ctx, cluster); err != nil {
					return err
				}
				return runBeside(ctx, c.options.Beside, generic.Handler, c.Generic.ClientConfig, c.raises())
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
			return nil //nolint:nilerr // the server ends, and whatever ended the controllers with it
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

// runBeside runs what is beside the server, and returns when it has ended. It asks the server
// itself about our group: without the aggregator, TLS, and a second authentication. What
// the server does about a request stays: authorization, admission, audit and flow control.
func runBeside(ctx context.Context, b Beside, handler http.Handler, cluster *rest.Config, fence Fence) error {
	listener := newPipes()
	server := &http.Server{ //nolint:gosec // its only client is this process
		Handler:     handler,
		BaseContext: func(net.Listener) context.Context { return context.WithValue(ctx, inProcess{}, true) },
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	own := &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return listener.dial(ctx) },
		MaxIdleConnsPerHost: 100,
	}
	config := rest.CopyConfig(cluster)
	config.Wrap(func(outside http.RoundTripper) http.RoundTripper { return byGroup{own: own, outside: outside} })
	err := b.Run(ctx, config, fence)
	if closed := server.Close(); closed != nil {
		err = errors.Join(err, fmt.Errorf("closing the connections of the process: %w", closed))
	}
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// byGroup sends requests about our groups to this process, and all others outside.
type byGroup struct {
	own, outside http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b byGroup) RoundTrip(r *http.Request) (*http.Response, error) {
	if !slices.ContainsFunc(groups, func(group string) bool { return strings.HasPrefix(r.URL.Path, "/apis/"+group+"/") }) {
		return b.outside.RoundTrip(r)
	}
	inside := r.Clone(r.Context())
	inside.URL.Scheme = "http"
	inside.Header.Del("Authorization")
	return b.own.RoundTrip(inside)
}

// WrappedRoundTripper implements net.RoundTripperWrapper of apimachinery.
func (b byGroup) WrappedRoundTripper() http.RoundTripper { return b.outside }
