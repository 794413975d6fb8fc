// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

var eachKind = []string{"BatchRelease", "Deployment", "HorizontalPodAutoscaler", "Ingress", "PodDisruptionBudget", "Service"}

func rule(group, verb string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{verb}}
}

// allows wants why to say that a user may use the verbs, and no other ones.
func allows(verbs ...string) func(*v1beta1.RolloutTree) error {
	return func(tree *v1beta1.RolloutTree) error {
		var allowed []string
		for _, a := range tree.Why.Actions {
			if a.Allowed && !slices.Contains(allowed, a.Verb) {
				allowed = append(allowed, a.Verb)
			}
		}
		if !slices.Equal(allowed, verbs) {
			return fmt.Errorf("%v are allowed, want %v", allowed, verbs)
		}
		return nil
	}
}

// Each role sees what it may see of a release, and which verbs it may use, through
// kube-apiserver; a stream outlives the time of a request there, and ends when its right is
// taken away.
func TestViews(t *testing.T) {
	t.Parallel()
	a := start(t, usual())
	watcher := []rbacv1.PolicyRule{rule("rollouts.kruise.io", "get", "rollouts", "rollouts/tree"), rule("rollouts.kruise.io", "watch", "rollouts/tree")}
	behindPods := append(watcher[:2:2],
		rule("rollouts.kruise.io", "get", "batchreleases"), rule("apps", "get", "deployments"), rule("apps", "list", "replicasets"),
		rule("", "get", "services"), rule("networking.k8s.io", "get", "ingresses"),
		rule("autoscaling", "list", "horizontalpodautoscalers"), rule("policy", "list", "poddisruptionbudgets"))
	onePod := rule("", "list", "pods")
	onePod.ResourceNames = []string{"web-0"}
	users := map[*user]func(*v1beta1.RolloutTree) error{
		a.may("views-view", "view"):                             all(hides(), allows()),
		a.may("views-edit", "edit"):                             all(hides(), allows()),
		a.may("views-admin", "admin"):                           all(hides(), allows("promote", "abort", "rollback", "retry", "pause", "resume", "jump")),
		a.may("views-promoter", "weir-promoter"):                all(hides(eachKind[1:]...), allows("promote", "pause", "resume")),
		a.mayOnly("views-blind", watcher...):                    all(hides(eachKind...), allows()),
		a.mayOnly("views-no-pods", behindPods...):               all(hides("Pod"), allows()),
		a.mayOnly("views-a-pod", append(behindPods, onePod)...): all(hides("Pod"), allows()),
		a.mayOnly("views-approver", append(watcher, rule("rollouts.kruise.io", "create", "rollouts/promote"))...): all(hides(eachKind...), allows("promote")),
	}
	viewer, leaver := here.user(t, "views-view"), here.user(t, "views-edit")
	a.release("v2")
	a.until("step 1 waits", a.waitsAt(1))
	for u, right := range users {
		a.until("the tree of "+u.name, func(ctx context.Context) error {
			tree, err := u.tree(ctx, a)
			if err != nil {
				return err
			}
			return right(tree)
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

// What a user may not see, and what makes no sense, is refused with a word about it, through
// kube-apiserver.
func TestViewsRefused(t *testing.T) {
	t.Parallel()
	a, other := midway(t), space(t)
	getter := a.mayOnly("views-getter", rule("rollouts.kruise.io", "get", "rollouts"))
	viewer := a.may("views-refused", "view")
	for _, view := range []string{"why", "tree", "plan", "history"} {
		a.sees(getter.refused(a, view, "403", "cannot", "rollouts/"+view))
		a.sees(viewer.refused(other, view, "403", other.namespace))
		a.sees(here.admin.refused(other, view, "404", "not found"))
	}
	var spec struct{ Spec v1beta1.RolloutSpec }
	if err := here.admin.reads(t.Context(), a, "", &spec); err != nil {
		t.Fatal(err)
	}
	replan, err := json.Marshal(spec.Spec)
	if err != nil {
		t.Fatal(err)
	}
	manifest := func(size int) string {
		return `{"spec":{"workload":{"spec":{"replicas":6,"template":{"metadata":{"annotations":{"long":"` + strings.Repeat("x", size) + `"}}}}}}}`
	}
	for _, tt := range []struct {
		of   *app
		body string
		code int
		says string
	}{
		{a, `{}`, http.StatusCreated, ""},
		{a, manifest(1 << 20), http.StatusCreated, ""},
		{a, manifest(5 << 20), http.StatusRequestEntityTooLarge, "limit is 3145728"},
		{a, `{"kind":"Rollout"}`, http.StatusBadRequest, "send a RolloutPlan"},
		{a, `{"spec":{"images":7}}`, http.StatusBadRequest, "images"},
		{a, `[]`, http.StatusBadRequest, ""},
		{other, `{}`, http.StatusNotFound, "not found"},
		{other, `{"spec":{"rollout":` + string(replan) + `}}`, http.StatusCreated, ""},
	} {
		got, err := here.admin.post(t.Context(), tt.of, "plan", tt.body)
		if err != nil || got.code != tt.code || !strings.Contains(got.message, tt.says) {
			t.Errorf("a plan of %.60s: got %.200s %v, want %d %s", tt.body, got, err, tt.code, tt.says)
		}
	}
	a.sees(a.waitsAt(1))
}

// refused wants a read, and the watch of a tree, to be refused.
func (u *user) refused(a *app, view string, words ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		paths := []string{a.path() + "/" + view}
		if view == "tree" {
			paths = append(paths, strings.Replace(paths[0], "/v1beta1/", "/v1beta1/watch/", 1))
		}
		for _, path := range paths {
			response, err := u.get(ctx, path)
			if err == nil {
				return errors.Join(fmt.Errorf("%s is not refused", path), response.Body.Close())
			}
			for _, word := range words {
				if !strings.Contains(err.Error(), word) {
					return fmt.Errorf("%s is refused without %q: %w", path, word, err)
				}
			}
		}
		return nil
	}
}
