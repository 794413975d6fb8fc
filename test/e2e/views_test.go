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

// requestTimeout is the timeout of kube-apiserver for requests other than watches.
const requestTimeout = time.Minute

var eachKind = []string{"BatchRelease", "Deployment", "HorizontalPodAutoscaler", "Ingress", "PodDisruptionBudget", "Service"}

func rule(group, verb string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{verb}}
}

// allowsVerbs returns a check that the view lists exactly these verbs as allowed for the user.
func allowsVerbs(verbs ...string) func(*v1beta1.RolloutTree) error {
	return func(tree *v1beta1.RolloutTree) error {
		var allowed []string
		for _, a := range tree.Why.Actions {
			if a.Allowed && !slices.Contains(allowed, a.Verb) {
				allowed = append(allowed, a.Verb)
			}
		}
		slices.Sort(allowed)
		if want := slices.Sorted(slices.Values(verbs)); !slices.Equal(allowed, want) {
			return fmt.Errorf("%v are allowed, want %v", allowed, verbs)
		}
		return nil
	}
}

// TestViews checks for each role which objects of a release and which verbs the views show, through
// kube-apiserver. A watch lasts longer than the request timeout, and ends when the user loses the
// permission.
func TestViews(t *testing.T) {
	t.Parallel()
	a := start(t, defaultPlan())
	watcher := []rbacv1.PolicyRule{rule("rollouts.kruise.io", "get", "rollouts", "rollouts/tree"), rule("rollouts.kruise.io", "watch", "rollouts/tree")}
	behindPods := append(watcher[:2:2],
		rule("rollouts.kruise.io", "get", "batchreleases"), rule("apps", "get", "deployments"), rule("apps", "list", "replicasets"),
		rule("", "get", "services"), rule("networking.k8s.io", "get", "ingresses"),
		rule("autoscaling", "list", "horizontalpodautoscalers"), rule("policy", "list", "poddisruptionbudgets"))
	onePod := rule("", "list", "pods")
	onePod.ResourceNames = []string{"web-0"}
	users := map[*user]func(*v1beta1.RolloutTree) error{
		a.userWithClusterRole("views-view", "view"):                                                                     allOf(hidesKinds(), allowsVerbs()),
		a.userWithClusterRole("views-edit", "edit"):                                                                     allOf(hidesKinds(), allowsVerbs()),
		a.userWithClusterRole("views-admin", "admin"):                                                                   allOf(hidesKinds(), allowsVerbs("promote", "abort", "rollback", "retry", "pause", "resume", "jump")),
		a.userWithClusterRole("views-promoter", "weir-promoter"):                                                        allOf(hidesKinds(eachKind[1:]...), allowsVerbs("promote", "pause", "resume")),
		a.userWithRules("views-blind", watcher...):                                                                      allOf(hidesKinds(eachKind...), allowsVerbs()),
		a.userWithRules("views-no-pods", behindPods...):                                                                 allOf(hidesKinds("Pod"), allowsVerbs()),
		a.userWithRules("views-a-pod", append(behindPods, onePod)...):                                                   allOf(hidesKinds("Pod"), allowsVerbs()),
		a.userWithRules("views-approver", append(watcher, rule("rollouts.kruise.io", "create", "rollouts/promote"))...): allOf(hidesKinds(eachKind...), allowsVerbs("promote")),
	}
	viewer, leaver := testEnv.user(t, "views-view"), testEnv.user(t, "views-edit")
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	for u, right := range users {
		a.eventually("the tree of "+u.name, func(ctx context.Context) error {
			tree, err := u.tree(ctx, a)
			if err != nil {
				return err
			}
			return right(tree)
		})
	}
	began := time.Now()
	long, short := viewer.watchTree(a), leaver.watchTree(a)
	long.awaitEvent(a, "the state", isKind("ADDED"))
	long.awaitEvent(a, "step 1", treeMatches(allOf(revisionServes("update", 2, 20), revisionServes("stable", 4, 80), hidesKinds())))
	short.awaitEvent(a, "the state", isKind("ADDED"))
	a.deleteObject(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "views-edit-edit"}})
	short.awaitEvent(a, "the end without a right", hasEnded)
	a.eventually("a minute is over", func(context.Context) error {
		if left := requestTimeout + time.Second - time.Since(began); left > 0 {
			return fmt.Errorf("%s are left", left)
		}
		return nil
	})
	a.promote(1)
	long.awaitEvent(a, "step 2", treeMatches(allOf(revisionServes("update", 3, 50), revisionServes("stable", 3, 50))))
	a.checkNow(a.hasDecisions("promote 1 admin applied"))
}

func (a *app) deleteObject(o client.Object) {
	a.t.Helper()
	o.SetNamespace(a.namespace)
	if err := testEnv.client.Delete(a.t.Context(), o); err != nil {
		a.t.Fatal(err)
	}
}

// TestViewsKilled kills a server with open watches. They end, and new watches begin with the
// current state.
func TestViewsKilled(t *testing.T) {
	a := start(t, defaultPlan())
	u := a.userWithClusterRole("views-killed", "view")
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	var streams []*treeStream
	for range shortOrFull(10, 100) {
		s := u.watchTree(a)
		s.awaitEvent(a, "the state", isKind("ADDED"))
		streams = append(streams, s)
	}
	if err := testEnv.cluster.Kill(cluster.WeirAPIServer); err != nil {
		t.Fatal(err)
	}
	for _, s := range streams {
		s.awaitEvent(a, "the end", hasEnded)
	}
	if err := testEnv.cluster.Start(cluster.WeirAPIServer); err != nil {
		t.Fatal(err)
	}
	a.eventually("the server answers", func(ctx context.Context) error {
		_, err := u.tree(ctx, a)
		return err
	})
	u.watchTree(a).awaitEvent(a, "the state", treeMatches(revisionServes("update", 2, 20)))
}

// TestViewsRefused checks the error messages of forbidden and invalid requests, through
// kube-apiserver.
func TestViewsRefused(t *testing.T) {
	t.Parallel()
	a, other := startPausedAtStep1(t), newNamespace(t)
	getter := a.userWithRules("views-getter", rule("rollouts.kruise.io", "get", "rollouts"))
	viewer := a.userWithClusterRole("views-refused", "view")
	for _, view := range []string{"why", "tree", "plan", "history"} {
		a.checkNow(getter.viewIsRefused(a, view, "403", "cannot", "rollouts/"+view))
		a.checkNow(viewer.viewIsRefused(other, view, "403", other.namespace))
		a.checkNow(testEnv.admin.viewIsRefused(other, view, "404", "not found"))
	}
	var spec struct{ Spec v1beta1.RolloutSpec }
	if err := testEnv.admin.readView(t.Context(), a, "", &spec); err != nil {
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
		got, err := testEnv.admin.post(t.Context(), tt.of, "plan", tt.body)
		if err != nil || got.code != tt.code || !strings.Contains(got.message, tt.says) {
			t.Errorf("a plan of %.60s: got %.200s %v, want %d %s", tt.body, got, err, tt.code, tt.says)
		}
	}
	a.checkNow(a.waitsAtStep(1))
}

// viewIsRefused returns a check that a read, and the watch of a tree, are refused.
func (u *user) viewIsRefused(a *app, view string, words ...string) func(context.Context) error {
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
