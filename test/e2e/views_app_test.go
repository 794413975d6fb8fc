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

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// tree reads the tree of an application.
func (u *user) tree(ctx context.Context, a *app) (*v1beta1.RolloutTree, error) {
	tree := &v1beta1.RolloutTree{}
	return tree, u.readView(ctx, a, "tree", tree)
}

// checkTreeAndPlan reads the tree and the plan of a paused step. They must agree with the status
// and contain all objects.
func (a *app) checkTreeAndPlan(step int32) {
	a.t.Helper()
	s := testEnv.admin.watchTree(a)
	defer s.body.Close()
	s.awaitEvent(a, "the tree", treeMatches(func(tree *v1beta1.RolloutTree) error {
		r, err := a.getRollout(a.t.Context())
		if err != nil {
			return err
		}
		for _, h := range tree.Hidden {
			if h.Permission != "" || r.Spec.Strategy.Canary == nil || r.Spec.Strategy.Canary.TrafficRoutings == nil {
				return fmt.Errorf("%s is hidden: %s", h.Kind, h.Message)
			}
		}
		update, updated := "update", int32(0)
		if c := r.Status.Canary; c != nil && c.CanaryRevision == c.StableRevision {
			update = "stable" // a rollback in batches
		}
		for _, n := range tree.Nodes {
			if n.Role == "revision" && n.Revision == update && n.Pods != nil {
				updated += *n.Pods
			}
		}
		if c := r.Status.Canary; c != nil && updated != c.CanaryReplicas {
			return fmt.Errorf("there are %d new pods, and %d in the status", updated, c.CanaryReplicas)
		}
		return nil
	}))
	var plan v1beta1.RolloutPlan
	if err := testEnv.admin.readView(a.t.Context(), a, "plan", &plan); err != nil {
		a.t.Fatal(err)
	}
	for _, f := range plan.Status.Findings {
		if f.Severity == "Error" {
			a.t.Errorf("the plan finds at step %d: %s", f.Step, f.Message)
		}
	}
	if n := int(step); len(plan.Status.Steps) < n || plan.Status.Steps[n-1].State != "Current" || len(plan.Status.Unknown) > 0 {
		a.t.Errorf("the plan of step %d: %+v", step, plan.Status)
	}
}

// checkPlanFinds checks that the plan of the next release reports the problem that will block step
// 1.
func (a *app) checkPlanFinds(code string) {
	a.t.Helper()
	var plan v1beta1.RolloutPlan
	if err := testEnv.admin.readView(a.t.Context(), a, "plan", &plan); err != nil {
		a.t.Fatal(err)
	}
	if f := plan.Status.Findings; len(f) == 0 || f[0].Severity != "Error" || f[0].Code != code || f[0].Step != 1 {
		a.t.Errorf("the plan finds %+v", f)
	}
}

// readView reads a computed view of a Rollout.
func (u *user) readView(ctx context.Context, a *app, what string, into any) error {
	response, err := u.get(ctx, strings.TrimSuffix(a.path()+"/"+what, "/"))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return json.NewDecoder(response.Body).Decode(into)
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

// treeStream is a watch of a tree.
type treeStream struct {
	body   io.Closer
	events chan event
}

// event is an event of a treeStream; the last one has an error.
type event struct {
	kind string
	tree v1beta1.RolloutTree
	err  error
}

// watchTree watches the tree of an application through kube-apiserver until the test ends.
func (u *user) watchTree(a *app) *treeStream {
	a.t.Helper()
	path := strings.Replace(a.path(), "/v1beta1/", "/v1beta1/watch/", 1) + "/tree"
	response, err := u.get(a.t.Context(), path)
	if err != nil {
		a.t.Fatalf("watching the tree as %s: %v", u.name, err)
	}
	s := &treeStream{body: response.Body, events: make(chan event, 1000)}
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
	a.t.Cleanup(func() { _ = s.body.Close() }) // the stream may have ended
	return s
}

// awaitEvent waits for a matching event.
func (s *treeStream) awaitEvent(a *app, what string, right func(event) error) event {
	a.t.Helper()
	var last event
	wrong := errors.New("no event came")
	a.eventually(what, func(ctx context.Context) error {
		select {
		case e, ok := <-s.events:
			if !ok {
				a.t.Fatalf("waiting for %s: the stream has ended: %v", what, last.err)
			}
			last = e
			wrong = right(e)
		case <-ctx.Done():
		default:
		}
		return wrong
	})
	return last
}

func hasEnded(e event) error {
	if e.err == nil && e.kind != "ERROR" {
		return fmt.Errorf("the stream continues with %s", e.kind)
	}
	return nil
}

func isKind(kind string) func(event) error {
	return func(e event) error {
		if e.kind == kind {
			return nil
		}
		return errors.Join(fmt.Errorf("the last event is %s", e.kind), e.err)
	}
}

func treeMatches(right func(*v1beta1.RolloutTree) error) func(event) error {
	return func(e event) error {
		if e.err != nil {
			return e.err
		}
		return right(&e.tree)
	}
}

// hidesKinds returns a check that exactly these kinds are hidden and have no nodes.
func hidesKinds(kinds ...string) func(*v1beta1.RolloutTree) error {
	return func(tree *v1beta1.RolloutTree) error {
		var hidden []string
		for _, h := range tree.Hidden {
			hidden = append(hidden, h.Kind)
			if slices.ContainsFunc(tree.Nodes, func(n v1beta1.Node) bool { return n.Kind == h.Kind }) {
				return fmt.Errorf("%s is hidden, but has nodes", h.Kind)
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

// revisionServes returns a check that a revision has this many ready pods and this share of the
// traffic.
func revisionServes(revision string, ready, traffic int32) func(*v1beta1.RolloutTree) error {
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

func allOf(of ...func(*v1beta1.RolloutTree) error) func(*v1beta1.RolloutTree) error {
	return func(tree *v1beta1.RolloutTree) error {
		for _, right := range of {
			if err := right(tree); err != nil {
				return err
			}
		}
		return nil
	}
}
