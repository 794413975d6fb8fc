// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/client-go/rest"
)

// client is an in-process program that sends some requests and ends.
type client func(context.Context, *rest.Config) error

func (client) AddFlags(*pflag.FlagSet)                              {}
func (client) Validate() error                                      { return nil }
func (client) Enabled() bool                                        { return true }
func (c client) Run(ctx context.Context, config *rest.Config) error { return c(ctx, config) }

// nobody authenticates no request.
type nobody struct{}

func (nobody) AuthenticateRequest(*http.Request) (*authenticator.Response, bool, error) {
	return nil, false, nil
}

// TestBesideManyRequests sends many requests, one after the other on each connection. None fails because of
// an expired deadline of an earlier request.
func TestBesideManyRequests(t *testing.T) {
	t.Parallel()
	const clients, each = 16, 2000
	inside := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		runtime.Gosched()
		if r.Context().Err() != nil {
			http.Error(w, "given up", http.StatusGatewayTimeout)
		}
	})
	err := runInProcess(t.Context(), client(func(ctx context.Context, config *rest.Config) error {
		c, err := rest.HTTPClientFor(config)
		if err != nil {
			return err
		}
		ended := make(chan error, clients)
		for range clients {
			go func() { ended <- ask(ctx, c, config.Host+"/apis/rollouts.kruise.io/v1beta1", each) }()
		}
		for range clients {
			err = errors.Join(err, <-ended)
		}
		return err
	}), inside, &rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		t.Error(err)
	}
}

// ask sends the given number of requests, and requires a response to each.
func ask(ctx context.Context, c *http.Client, url string, times int) error {
	for range times {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := c.Do(request)
		if err != nil {
			return err
		}
		if err := response.Body.Close(); err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			return errors.New("answered " + response.Status)
		}
	}
	return nil
}

// TestBeside checks which requests of the in-process program go to the server, and as which user. A request
// from outside is never authenticated as that user, whatever its headers contain.
func TestBeside(t *testing.T) {
	t.Parallel()
	who := inProcessAuthenticator{nobody{}, "system:serviceaccount:weir-system:weir-controller"}
	answer := func(from string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			name := "nobody"
			if by, ok, err := who.AuthenticateRequest(r); ok && err == nil {
				name = strings.Join(append([]string{by.User.GetName()}, by.User.GetGroups()...), " ")
			}
			_, _ = io.WriteString(w, from+" to "+name+" with "+r.Header.Get("Authorization"))
		})
	}
	inside, outside := answer("inside"), httptest.NewServer(answer("outside"))
	defer outside.Close()
	errEnd := errors.New("the end")
	got := map[string]string{}
	err := runInProcess(t.Context(), client(func(ctx context.Context, config *rest.Config) error {
		c, err := rest.HTTPClientFor(config)
		if err != nil {
			return err
		}
		for _, path := range []string{"/apis/rollouts.kruise.io/v1beta1/rollouts", "/apis/rollouts.kruise.iox/v1", "/api/v1/pods"} {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, outside.URL+path, nil)
			if err != nil {
				return err
			}
			response, err := c.Do(request)
			if err != nil {
				return err
			}
			body, err := io.ReadAll(response.Body)
			if err := errors.Join(err, response.Body.Close()); err != nil {
				return err
			}
			got[path] = string(body)
		}
		return errEnd
	}), inside, &rest.Config{Host: outside.URL, BearerToken: "secret"})
	if !errors.Is(err, errEnd) {
		t.Error(err)
	}
	want := map[string]string{
		"/apis/rollouts.kruise.io/v1beta1/rollouts": "inside to system:serviceaccount:weir-system:weir-controller" +
			" system:authenticated system:serviceaccounts system:serviceaccounts:weir-system with ",
		"/apis/rollouts.kruise.iox/v1": "outside to nobody with Bearer secret",
		"/api/v1/pods":                 "outside to nobody with Bearer secret",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}
