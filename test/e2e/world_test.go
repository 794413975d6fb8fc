// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	weir "github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
	"github.com/weir-rollouts/weir/test/cluster"
)

// environment is the control plane of the tests and its users.
type environment struct {
	cluster *cluster.Cluster
	client  client.WithWatch
	admin   *user
	// policies reports whether kube-apiserver serves admission policies, as it does since
	// Kubernetes 1.36.
	policies bool

	mu    sync.Mutex
	users map[string]*user
}

func newEnvironment(c *cluster.Cluster) (*environment, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1beta1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme), weir.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	config := c.Config()
	config.WarningHandler = rest.NoWarnings{}
	cl, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	policies, err := c.ServesPolicies()
	if err != nil {
		return nil, err
	}
	w := &environment{cluster: c, client: cl, policies: policies, users: map[string]*user{}}
	w.admin, err = newUser("admin", c.Kubeconfig(), c.Config())
	return w, err
}

// user is a Kubernetes user with a client certificate.
type user struct {
	name       string
	kubeconfig string
	host       string
	http       *http.Client
}

func newUser(name, kubeconfig string, config *rest.Config) (*user, error) {
	c, err := rest.HTTPClientFor(config)
	return &user{name: name, kubeconfig: kubeconfig, host: config.Host, http: c}, err
}

func (w *environment) user(t *testing.T, name string) *user {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if u := w.users[name]; u != nil {
		return u
	}
	config, err := w.cluster.ConfigAs(name)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := w.cluster.KubeconfigAs(name)
	if err != nil {
		t.Fatal(err)
	}
	u, err := newUser(name, kubeconfig, config)
	if err != nil {
		t.Fatal(err)
	}
	w.users[name] = u
	return u
}

// answer is the response to a verb.
type answer struct {
	code    int
	message string
}

func (a answer) String() string { return fmt.Sprintf("%d %s", a.code, a.message) }

// post sends a verb for the Rollout of an application.
func (u *user) post(ctx context.Context, a *app, verb, body string) (answer, error) {
	url := u.host + a.path() + "/" + verb
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := u.http.Do(request)
	if err != nil {
		return answer{}, err
	}
	data, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return answer{}, err
	}
	got := answer{code: response.StatusCode}
	var status metav1.Status
	if response.StatusCode >= 300 {
		if err := json.Unmarshal(data, &status); err != nil {
			status.Message = string(data)
		}
		got.message = status.Message
	}
	return got, nil
}

// result is the outcome of a command.
type result struct {
	t      *testing.T
	line   string
	failed bool
	out    string
}

// kubectl runs kubectl as this user in the namespace of an application.
func (u *user) kubectl(a *app, args ...string) result {
	return u.kubectlWith(a, "", args...)
}

// kubectlWith runs kubectl with text on its standard input.
func (u *user) kubectlWith(a *app, stdin string, args ...string) result {
	a.t.Helper()
	return u.kubectlIn(a, nil, stdin, args...)
}

// kubectlIn runs kubectl with additional environment variables.
func (u *user) kubectlIn(a *app, env []string, stdin string, args ...string) result {
	a.t.Helper()
	cmd := exec.CommandContext(a.t.Context(), filepath.Join(testEnv.cluster.Bin(), "kubectl"), append([]string{"-n", a.namespace}, args...)...)
	cmd.Env = slices.Concat(os.Environ(), []string{"KUBECONFIG=" + u.kubeconfig}, env)
	cmd.Stdin = strings.NewReader(stdin)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		a.t.Fatalf("running kubectl: %v", err)
	}
	return result{t: a.t, line: "kubectl " + strings.Join(args, " "), failed: err != nil, out: out.String()}
}

// mustSucceed fails the test unless the command succeeded and its output contains the words.
func (r result) mustSucceed(words ...string) string {
	r.t.Helper()
	if r.failed {
		r.t.Fatalf("%s should have succeeded:\n%s", r.line, r.out)
	}
	r.mustContain(words)
	return r.out
}

// mustFail fails the test unless the command failed and its output contains the words.
func (r result) mustFail(words ...string) {
	r.t.Helper()
	if !r.failed {
		r.t.Fatalf("%s should have failed:\n%s", r.line, r.out)
	}
	r.mustContain(words)
}

func (r result) mustContain(words []string) {
	r.t.Helper()
	for _, word := range words {
		if !strings.Contains(r.out, word) {
			r.t.Fatalf("the output of %s should contain %q:\n%s", r.line, word, r.out)
		}
	}
}

// userWithClusterRole binds a ClusterRole to a user in the namespace of the application, and waits
// until the authorizer knows the binding.
func (a *app) userWithClusterRole(name, role string) *user {
	a.t.Helper()
	u := testEnv.user(a.t, name)
	a.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-" + role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}},
	})
	a.awaitPermission(u, role)
	return u
}

// userWithRules gives a user exactly these permissions in the namespace of the application.
func (a *app) userWithRules(name string, rules ...rbacv1.PolicyRule) *user {
	a.t.Helper()
	u := testEnv.user(a.t, name)
	a.create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules})
	a.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}},
	})
	a.awaitPermission(u, name)
	return u
}

// awaitPermission waits until the user may read Rollouts, which every role of the tests allows.
func (a *app) awaitPermission(u *user, role string) {
	a.t.Helper()
	a.eventually(u.name+" has the role "+role, func(ctx context.Context) error { return u.canReadRollout(ctx, a) })
}

// canReadRollout returns an error if the user may not read the Rollout. It returns nil if the
// Rollout does not exist.
func (u *user) canReadRollout(ctx context.Context, a *app) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.host+a.path(), nil)
	if err != nil {
		return err
	}
	response, err := u.http.Do(request)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode == http.StatusForbidden {
		return errors.New(response.Status)
	}
	return response.Body.Close()
}
