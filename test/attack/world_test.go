// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/test/cluster"
)

// environment is the control plane of the tests and its users.
type environment struct {
	cluster *cluster.Cluster
	client  client.WithWatch
	admin   *user
	// policies reports whether kube-apiserver serves them.
	policies bool

	mu    sync.Mutex
	users map[role]*user
	// admissionProbe is the application that shows which admission paths are in force.
	admissionProbe *app
}

func newEnvironment(ctx context.Context, c *cluster.Cluster) (*environment, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1beta1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	config := c.Config()
	config.WarningHandler = rest.NoWarnings{}
	cl, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	w := &environment{cluster: c, client: cl, users: map[role]*user{}}
	if w.policies, err = c.ServesPolicies(); err != nil {
		return nil, err
	}
	for name, rules := range roles {
		r := &rbacv1.ClusterRole{Rules: rules}
		r.Name = "attack-" + string(name)
		if err := cl.Create(ctx, r); err != nil {
			return nil, fmt.Errorf("making role %s: %w", name, err)
		}
	}
	w.admin, err = newUser("admin", c.Config())
	return w, err
}

// user is a user with a client certificate, or without one.
type user struct {
	name string
	host string
	http *http.Client
}

func newUser(name string, config *rest.Config) (*user, error) {
	c, err := rest.HTTPClientFor(config)
	return &user{name: name, host: config.Host, http: c}, err
}

// user returns a user with this role in some namespace.
func (w *environment) user(t *testing.T, r role) *user {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if u := w.users[r]; u != nil {
		return u
	}
	config, err := w.cluster.ConfigAs(string(r))
	if r == nobody {
		config = w.cluster.Config()
		config.CertFile, config.KeyFile = "", ""
	}
	if err != nil {
		t.Fatal(err)
	}
	u, err := newUser(string(r), config)
	if err != nil {
		t.Fatal(err)
	}
	w.users[r] = u
	return u
}

// The media types of patches.
const (
	mergePatch = "application/merge-patch+json"
	applyPatch = "application/apply-patch+yaml"
	// noContentType omits the content type of the body.
	noContentType = "none"
)

// request is a raw API request.
type request struct {
	method, path, body string
	// kind is the media type of the body; empty means JSON.
	kind string
	more http.Header
}

// answer is the response to a request.
type answer struct {
	request  request
	code     int
	body     string
	header   http.Header
	warnings []string
}

func (a answer) String() string {
	return fmt.Sprintf("%s %s: %d %.240s", a.request.method, a.request.path, a.code, strings.TrimSpace(a.body))
}

// send calls the API.
func (u *user) send(ctx context.Context, r request) (answer, error) {
	out, err := http.NewRequestWithContext(ctx, r.method, u.host+r.path, strings.NewReader(r.body))
	if err != nil {
		return answer{}, err
	}
	out.Header.Set("Content-Type", "application/json")
	switch r.kind {
	case "":
	case noContentType:
		out.Header.Del("Content-Type")
	default:
		out.Header.Set("Content-Type", r.kind)
	}
	maps.Copy(out.Header, r.more)
	in, err := u.http.Do(out)
	if err != nil {
		return answer{}, err
	}
	body, err := io.ReadAll(in.Body)
	got := answer{request: r, code: in.StatusCode, body: string(body), header: in.Header, warnings: in.Header.Values("Warning")}
	return got, errors.Join(err, in.Body.Close())
}

// mustSend sends a request of an authorized user, which must succeed.
func (a *app) mustSend(u *user, r request) answer {
	a.t.Helper()
	got, err := u.send(a.t.Context(), r)
	if err != nil {
		a.t.Fatal(err)
	}
	if got.code >= http.StatusMultipleChoices {
		a.t.Fatalf("%s by %s should have succeeded", got, u.name)
	}
	return got
}

// attackWith sends a request of the attacker and keeps the answer.
func (a *app) attackWith(u *user, r request) answer {
	a.t.Helper()
	got, err := u.send(a.t.Context(), r)
	if err != nil {
		a.t.Fatal(err)
	}
	a.answers = append(a.answers, got)
	return got
}
