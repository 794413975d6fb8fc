// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/test/cluster"
)

// newDirectUser is a user who connects to weir-apiserver directly instead of through
// kube-apiserver.
func newDirectUser(t *testing.T, name string) *user {
	t.Helper()
	config := &rest.Config{}
	if name != "" {
		var err error
		if config, err = testEnv.cluster.ConfigAs(name); err != nil {
			t.Fatal(err)
		}
	}
	config.CAFile, config.CAData = "", authorities(t)
	config.Host = "https://" + testEnv.cluster.Address(cluster.WeirAPIServer)
	u, err := newUser(name, "", config)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestClientCannotSpoofIdentity sends the headers with which kube-apiserver passes on identities
// directly to weir-apiserver. The client is identified by its certificate, even if the certificate
// has kube-apiserver's name but was signed by another CA.
func TestClientCannotSpoofIdentity(t *testing.T) {
	t.Parallel()
	a := start(t, planWithoutTraffic())
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	alice := a.userWithClusterRole("alice", "weir-promoter")
	spoof := http.Header{
		"X-Remote-User": {"admin"}, "X-Remote-Group": {"system:masters"}, "X-Remote-Uid": {"1"},
		"X-Remote-Extra-Authentication.kubernetes.io%2Fcredential-Id": {"x"},
	}
	get := request{method: "GET", path: a.path(), more: spoof}
	promote := request{method: "POST", path: a.path() + "/promote", more: spoof, body: "{}"}
	for name, code := range map[string]int{"mallory": http.StatusForbidden, "front-proxy-client": http.StatusForbidden, "": http.StatusForbidden} {
		u := newDirectUser(t, name)
		for _, r := range []request{get, promote} {
			said := name
			if said == "" {
				said = "system:anonymous"
			}
			if got := u.send(t, r); got.code != http.StatusUnauthorized {
				got.mustAnswer(code, said)
			}
		}
	}
	// Impersonation is a permission of its own.
	forAdmin := http.Header{"Impersonate-User": {"admin"}, "Impersonate-Group": {"system:masters"}}
	newDirectUser(t, "mallory").send(t, request{method: "GET", path: a.path(), more: forAdmin}).mustAnswer(http.StatusForbidden, "mallory", "impersonate")
	a.checkNow(a.hasDecisions())

	// The permissions of a user are the same with and without kube-apiserver.
	a.eventually("the authorizer knows alice", func(ctx context.Context) error { return newDirectUser(t, alice.name).canReadRollout(ctx, a) })
	newDirectUser(t, alice.name).send(t, promote).mustAnswer(http.StatusCreated)
	a.eventually("step 2 waits", a.waitsAtStep(2))
	a.checkNow(a.hasDecisions("promote 1 alice applied"))
}

// TestClientTooLarge checks that oversized requests get 413, with and without kube-apiserver, and
// that the server continues to work.
func TestClientTooLarge(t *testing.T) {
	t.Parallel()
	a := newNamespace(t)
	a.newRolloutWithoutWorkload("web")
	note := strings.Repeat("x", 4<<20)
	body := fmt.Sprintf(`{"apiVersion":"%s","kind":"Rollout","metadata":{"name":"large","annotations":{"note":"%s"}},"spec":{}}`, newVersion, note)
	for _, r := range []request{
		{method: "POST", path: a.listPath(newVersion), body: body},
		{method: "PUT", path: a.rolloutPath(oldVersion, "web"), body: body},
		{method: "PATCH", path: a.rolloutPath(newVersion, "web"), body: body, contentType: mergePatch},
		{method: "PATCH", path: a.rolloutPath(newVersion, "web") + "/status", body: body, contentType: mergePatch},
		{method: "PATCH", path: a.rolloutPath(newVersion, "web") + "?fieldManager=tool", body: body, contentType: applyPatch},
		{method: "POST", path: a.rolloutPath(newVersion, "web") + "/promote", body: `{"reason":"` + note + `"}`},
	} {
		for _, u := range []*user{testEnv.admin, a.newDirectAdmin()} {
			answer := u.send(t, r)
			if answer.code != http.StatusRequestEntityTooLarge || len(answer.body) > 1000 {
				t.Errorf("%s %s: got %d, want 413: %.300s", r.method, r.path, answer.code, answer.body)
			}
		}
	}
	// Objects that are small enough for a request but too large for the store are refused, too.
	small := strings.Replace(body, note, note[:2<<20], 1)
	testEnv.admin.send(t, request{method: "POST", path: a.listPath(newVersion), body: small}).mustAnswer(http.StatusUnprocessableEntity, "annotations")
	a.awaitObserved("web")
}

// newDirectAdmin is an administrator of the namespace who connects to weir-apiserver directly.
func (a *app) newDirectAdmin() *user {
	a.t.Helper()
	a.once.Do(func() {
		a.userWithRules("nora", rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})
	})
	u := newDirectUser(a.t, "nora")
	a.eventually("the authorizer knows nora", func(ctx context.Context) error { return u.canReadRollout(ctx, a) })
	return u
}

// TestClientConcurrentCreates creates a hundred Rollouts for one workload concurrently, in both API
// versions. One succeeds, and the response to every other request names the one that claimed the
// workload.
func TestClientConcurrentCreates(t *testing.T) {
	t.Parallel()
	a := newNamespace(t)
	bodies := map[bool]string{
		true: `{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"Rollout","metadata":{"name":"%s"},"spec":{
			"workloadRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"strategy":{"canary":{"steps":[{"replicas":"20%%"}]}}}}`,
		false: `{"apiVersion":"rollouts.kruise.io/v1alpha1","kind":"Rollout","metadata":{"name":"%s"},"spec":{
			"objectRef":{"workloadRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}},"strategy":{"canary":{"steps":[{"weight":20}]}}}}`,
	}
	owner := regexp.MustCompile(`Rollout\(` + a.namespace + `/(web-\d+)\)`)
	var mu sync.Mutex
	winner, losers := "", map[string]int{}
	for range concurrently(t, 100, func(i int) (answer, error) {
		name, version := fmt.Sprintf("web-%d", i), newVersion
		if i%2 == 1 {
			version = oldVersion
		}
		got := testEnv.admin.send(t, request{method: "POST", path: a.listPath(version), body: fmt.Sprintf(bodies[i%2 == 0], name)})
		mu.Lock()
		defer mu.Unlock()
		switch got.code {
		case http.StatusCreated:
			if winner != "" {
				t.Errorf("both %s and %s claimed the workload", winner, name)
			}
			winner = name
		case http.StatusConflict:
			if named := owner.FindSubmatch(got.body); named != nil {
				losers[string(named[1])]++
				break
			}
			t.Errorf("the response to %s does not name the Rollout that claimed the workload: %s", name, got.body)
		default:
			t.Errorf("%s: %d %s", name, got.code, got.body)
		}
		return answer{}, nil
	}) {
	}
	var list v1beta1.RolloutList
	if err := testEnv.client.List(t.Context(), &list, client.InNamespace(a.namespace)); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0].Name != winner {
		t.Errorf("%d Rollouts are stored, and the created one is %q", len(list.Items), winner)
	}
	for named, n := range losers {
		if named != winner {
			t.Errorf("%d responses name %s, not %s", n, named, winner)
		}
	}
}
