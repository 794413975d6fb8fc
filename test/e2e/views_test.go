// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/test/cluster"
)

// requestTimeout is how long kube-apiserver lets a request go on that is not a watch.
const requestTimeout = time.Minute

// tree reads the tree of an application.
func (u *user) tree(ctx context.Context, a *app) (*v1beta1.RolloutTree, error) {
	response, err := u.get(ctx, a.path()+"/tree")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	tree := &v1beta1.RolloutTree{}
	return tree, json.NewDecoder(response.Body).Decode(tree)
}

func (u *user) get(ctx context.Context, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.host+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := u.http.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	body, err := io.ReadAll(response.Body)
	return nil, errors.Join(err, response.Body.Close(), fmt.Errorf("%s: %s", response.Status, body))
}

// stream is a tree that a user watches.
type stream struct {
	body   io.Closer
	events chan event
}

// event is one of a stream; the last one has an error.
type event struct {
	kind string
	tree v1beta1.RolloutTree
	err  error
}

// stream watches the tree of an application through kube-apiserver until the test ends.
func (u *user) stream(a *app) *stream {
	a.t.Helper()
	path := strings.Replace(a.path(), "/v1beta1/", "/v1beta1/watch/", 1) + "/tree"
	response, err := u.get(a.t.Context(), path)
	if err != nil {
		a.t.Fatalf("watching the tree as %s: %v", u.name, err)
	}
	s := &stream{body: response.Body, events: make(chan event, 1000)}
	go func() {
		defer close(s.events)
		decoder := json.NewDecoder(response.Body)
		for {
			var sent struct {
				Type   string          `json:"type"`
				Object json.RawMessage `json:"object"`
			}
			e := event{err: decoder.Decode(&sent)}
			if e.err == nil {
				e.kind, e.err = sent.Type, json.Unmarshal(sent.Object, &e.tree)
			}
			s.events <- e
			if e.err != nil {
				return
			}
		}
	}()
	a.t.Cleanup(func() { _ = s.body.Close() }) // it may have hasEnded
	return s
}

// until waits for an event that is right.
func (s *stream) until(a *app, what string, right func(event) bool) event {
	a.t.Helper()
	var last event
	a.until(what, func(ctx context.Context) error {
		select {
		case e, ok := <-s.events:
			if !ok {
				a.t.Fatalf("waiting for %s: the stream has ended: %v", what, last.err)
			}
			if last = e; right(e) {
				return nil
			}
		case <-ctx.Done():
		default:
		}
		return fmt.Errorf("the last event is %s with %d nodes, %w", last.kind, len(last.tree.Nodes), last.err)
	})
	return last
}

func hasEnded(e event) bool               { return e.err != nil || e.kind == "ERROR" }
func isKind(kind string) func(event) bool { return func(e event) bool { return e.kind == kind } }
func shows(right func(*v1beta1.RolloutTree) error) func(event) bool {
	return func(e event) bool { return e.err == nil && right(&e.tree) == nil }
}

// hides wants the kinds to be hidden, no other ones, and to have no nodes.
func hides(kinds ...string) func(*v1beta1.RolloutTree) error {
	return func(tree *v1beta1.RolloutTree) error {
		var hidden []string
		for _, h := range tree.Hidden {
			hidden = append(hidden, h.Kind)
			if slices.ContainsFunc(tree.Nodes, func(n v1beta1.Node) bool { return n.Kind == h.Kind }) {
				return fmt.Errorf("%s is hidden, and shown", h.Kind)
			}
			if h.Permission == "" || h.Message != "" {
				return fmt.Errorf("%s is hidden for %q, %q", h.Kind, h.Permission, h.Message)
			}
		}
		slices.Sort(hidden)
		if slices.Sort(kinds); !slices.Equal(hidden, kinds) {
			return fmt.Errorf("%v is hidden, want %v", hidden, kinds)
		}
		return nil
	}
}

// serves wants a revision to have so many ready pods, and to serve a share of the requests.
func serves(revision string, ready, traffic int32) func(*v1beta1.RolloutTree) error {
	return func(tree *v1beta1.RolloutTree) error {
		pods := int32(0)
		var r *v1beta1.Node
		for i, n := range tree.Nodes {
			switch {
			case n.Role == "revision" && n.Revision == revision:
				r = &tree.Nodes[i]
			case n.Role == "pod" && n.Revision == revision && n.Health == "Healthy":
				pods++
			}
		}
		if r == nil || r.Ready == nil || r.Traffic == nil || *r.Ready != ready || *r.Traffic != traffic || pods != ready {
			return fmt.Errorf("%s has %d ready pods and is %+v", revision, pods, r)
		}
		return nil
	}
}

func all(of ...func(*v1beta1.RolloutTree) error) func(*v1beta1.RolloutTree) error {
	return func(tree *v1beta1.RolloutTree) error {
		for _, right := range of {
			if err := right(tree); err != nil {
				return err
			}
		}
		return nil
	}
}

var (
	behindPods = []string{"Pod"}
	eachKind   = []string{"BatchRelease", "Deployment", "HorizontalPodAutoscaler", "Ingress", "PodDisruptionBudget", "Service"}
)

// Each role sees what it may see of a release, through kube-apiserver; a stream outlives the
// time of a request there, and ends when its right is taken away.
func TestViews(t *testing.T) {
	t.Parallel()
	a := start(t, usual())
	rule := func(group, verb string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{verb}}
	}
	watcher := []rbacv1.PolicyRule{rule("rollouts.kruise.io", "get", "rollouts", "rollouts/tree"), rule("rollouts.kruise.io", "watch", "rollouts/tree")}
	users := map[*user][]string{
		a.may("views-view", "view"):          nil,
		a.may("views-edit", "edit"):          nil,
		a.mayOnly("views-blind", watcher...): eachKind,
		a.mayOnly("views-no-pods", append(watcher,
			rule("rollouts.kruise.io", "get", "batchreleases"), rule("apps", "get", "deployments"), rule("apps", "list", "replicasets"),
			rule("", "get", "services"), rule("networking.k8s.io", "get", "ingresses"),
			rule("autoscaling", "list", "horizontalpodautoscalers"), rule("policy", "list", "poddisruptionbudgets"))...): behindPods,
	}
	viewer, leaver := here.user(t, "views-view"), here.user(t, "views-edit")
	a.release("v2")
	a.until("step 1 waits", a.waitsAt(1))
	for u, hidden := range users {
		a.until("the tree of "+u.name, func(ctx context.Context) error {
			tree, err := u.tree(ctx, a)
			if err != nil {
				return err
			}
			return hides(hidden...)(tree)
		})
	}
	began := time.Now()
	long, short := viewer.stream(a), leaver.stream(a)
	long.until(a, "the state", isKind("ADDED"))
	long.until(a, "step 1", shows(all(serves("update", 2, 20), serves("stable", 4, 80), hides())))
	short.until(a, "the state", isKind("ADDED"))
	a.remove(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "views-edit-edit"}})
	short.until(a, "the end without a right", hasEnded)
	a.until("a minute is over", func(context.Context) error {
		if left := requestTimeout + time.Second - time.Since(began); left > 0 {
			return fmt.Errorf("%s are left", left)
		}
		return nil
	})
	a.promote(1)
	long.until(a, "step 2", shows(all(serves("update", 3, 50), serves("stable", 3, 50))))
	a.sees(a.onRecord("promote 1 admin applied"))
}

func (a *app) remove(o client.Object) {
	a.t.Helper()
	o.SetNamespace(a.namespace)
	if err := here.client.Delete(a.t.Context(), o); err != nil {
		a.t.Fatal(err)
	}
}

// A server that is killed under open streams ends them, and the next one begins with the
// state.
func TestViewsKilled(t *testing.T) {
	a := start(t, usual())
	u := a.may("views-killed", "view")
	a.release("v2")
	a.until("step 1 waits", a.waitsAt(1))
	var streams []*stream
	for range few(10, 100) {
		s := u.stream(a)
		s.until(a, "the state", isKind("ADDED"))
		streams = append(streams, s)
	}
	if err := here.cluster.Kill(cluster.WeirAPIServer); err != nil {
		t.Fatal(err)
	}
	for _, s := range streams {
		s.until(a, "the end", hasEnded)
	}
	if err := here.cluster.Start(cluster.WeirAPIServer); err != nil {
		t.Fatal(err)
	}
	a.until("the server answers", func(ctx context.Context) error {
		_, err := u.tree(ctx, a)
		return err
	})
	u.stream(a).until(a, "the state", shows(serves("update", 2, 20)))
}
