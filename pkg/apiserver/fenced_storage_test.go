// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/client-go/rest"

	"github.com/weir-rollouts/weir/pkg/store"
)

// elected is an in-process program with leader election.
type elected struct{}

func (elected) AddFlags(*pflag.FlagSet)                        {}
func (elected) Validate() error                                { return nil }
func (elected) Enabled() bool                                  { return true }
func (elected) Elects() bool                                   { return true }
func (elected) Run(context.Context, *rest.Config, Fence) error { return nil }

// anybody authenticates every request.
type anybody struct{}

func (anybody) AuthenticateRequest(*http.Request) (*authenticator.Response, bool, error) {
	return &authenticator.Response{User: &user.DefaultInfo{Name: "alice"}}, true, nil
}

// replica is a server whose controllers may become the leader.
type replica struct {
	t      *testing.T
	config *Config
	server *Server
}

func newReplica(t *testing.T, etcd *store.Store) *replica {
	t.Helper()
	o := NewOptions()
	o.WithoutCluster()
	o.InProcess, o.WebhookPort = elected{}, 0
	o.UseStore(etcd)
	var err error
	if o.Recommended.SecureServing.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	o.Recommended.SecureServing.ServerCert.CertDirectory = ""
	config, err := o.Config()
	if err != nil {
		t.Fatal(err)
	}
	config.Generic.Authentication.Authenticator = inProcessAuthenticator{anybody{}, o.ControllerUser}
	config.Generic.Authorization.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	server, err := config.New()
	if err != nil {
		t.Fatal(err)
	}
	server.Generic.PrepareRun()
	t.Cleanup(func() {
		server.Generic.Destroy()
		if err := config.fence.Close(); err != nil {
			t.Error(err)
		}
	})
	return &replica{t, config, server}
}

// leads acquires the leadership as the leader election does.
func (r *replica) leads() {
	r.t.Helper()
	seen, err := r.config.fence.Seen(r.t.Context())
	if err == nil {
		err = r.config.controllerFence().Raise(r.t.Context(), seen)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// asks sends a request, as a controller of the process or as another client.
func (r *replica) asks(ctx context.Context, method, path, body string, want int) {
	r.t.Helper()
	request := httptest.NewRequestWithContext(ctx, method, "/apis/rollouts.kruise.io/v1beta1/namespaces/shop/"+path, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	answer := httptest.NewRecorder()
	r.server.Generic.Handler.ServeHTTP(answer, request)
	if answer.Code != want {
		r.t.Errorf("%s %s: %d, want %d: %s", method, path, answer.Code, want, answer.Body)
	}
	if want == http.StatusConflict && !strings.Contains(answer.Body.String(), store.ErrFenced.Error()) {
		r.t.Errorf("%s %s says %s", method, path, answer.Body)
	}
}

// A controller can write only while it leads: not before, and no longer after a controller of another
// server has become the leader, even if it still believes that it has the lease. Other writes and all reads
// are not affected.
func TestFenced(t *testing.T) {
	etcd, err := store.Start(t.Context(), store.Options{DataDir: t.TempDir(), Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Close)
	older, newer := newReplica(t, etcd), newReplica(t, etcd)
	people, controller := t.Context(), context.WithValue(t.Context(), inProcessKey{}, true)
	const rollout = `{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"Rollout","metadata":{"name":"web"},"spec":{
		"workloadRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"strategy":{"canary":{"steps":[{"replicas":"100%"}]}}}}`
	batch := func(name string) string {
		return `{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"BatchRelease","metadata":{"name":"` + name + `"},"spec":{
			"workloadRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"` + name + `"},"releasePlan":{"batches":[{"canaryReplicas":"100%"}]}}}`
	}
	label := func(value string) string { return `{"metadata":{"labels":{"by":"` + value + `"}}}` }

	older.asks(people, http.MethodPost, "rollouts", rollout, http.StatusCreated)
	older.asks(controller, http.MethodPatch, "rollouts/web", label("nobody"), http.StatusConflict)
	older.leads()
	older.asks(controller, http.MethodPatch, "rollouts/web", label("older"), http.StatusOK)
	older.asks(controller, http.MethodPost, "batchreleases", batch("web"), http.StatusCreated)

	newer.leads()
	older.asks(controller, http.MethodPatch, "rollouts/web", label("late"), http.StatusConflict)
	older.asks(controller, http.MethodPost, "batchreleases", batch("late"), http.StatusConflict)
	older.asks(controller, http.MethodDelete, "batchreleases/web", "", http.StatusConflict)
	older.asks(controller, http.MethodGet, "rollouts/web", "", http.StatusOK)
	older.asks(people, http.MethodPatch, "rollouts/web", label("user"), http.StatusOK)
	newer.asks(controller, http.MethodPatch, "rollouts/web", label("newer"), http.StatusOK)
	newer.asks(controller, http.MethodDelete, "batchreleases/web", "", http.StatusOK)
}
