// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"net/http"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/weir-rollouts/weir/pkg/apiserver/apiservertest"
)

// stored is a storage key. Storage keys never change.
const stored = "/registry/rollouts.kruise.io/rollouts/ns/web"

func etcdOf(t *testing.T, s *apiservertest.Server) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Store.Endpoint()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // its server is gone
	return c
}

// An object that was stored in the older version is served in both versions. A patch that changes nothing
// rewrites it in the newer version without losing a field. Another such patch writes nothing.
func TestMigration(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	defer stop(t, s)
	etcd := etcdOf(t, s)
	const older = `{"apiVersion":"rollouts.kruise.io/v1alpha1","kind":"Rollout","metadata":{"name":"web","namespace":"ns",
		"uid":"5b1f0a0e-0000-4000-8000-000000000001","generation":3,"creationTimestamp":"2024-01-02T03:04:05Z",
		"finalizers":["rollouts.kruise.io/rollout"],"annotations":{"rollouts.kruise.io/rolling-style":"partition",
		"rollouts.kruise.io/hash":"142676058685b102d8dd4d7a8a588c8335497c8b4bbda6849b7c86fdc96a2ba1"}},
		"spec":{"objectRef":{"workloadRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}},
		"strategy":{"canary":{"steps":[{"weight":20,"pause":{}},{"replicas":"100%"}]}}},
		"status":{"phase":"Healthy","canaryStatus":{"observedWorkloadGeneration":7}}}`
	if _, err := etcd.Put(t.Context(), stored, older); err != nil {
		t.Fatal(err)
	}
	read := func() (string, int64) {
		t.Helper()
		got, err := etcd.Get(t.Context(), stored)
		if err != nil || len(got.Kvs) != 1 {
			t.Fatalf("reading from etcd: %v, %v", got, err)
		}
		return string(got.Kvs[0].Value), got.Kvs[0].ModRevision
	}
	beta := want(t, http.StatusOK, s, "GET", list+"/web", "")
	alphaPath := strings.Replace(list, "v1beta1", "v1alpha1", 1) + "/web"
	alpha := want(t, http.StatusOK, s, "GET", alphaPath, "")
	for _, text := range []string{`"observedWorkloadGeneration":7`, `"generation":3`, "5b1f0a0e-0000-4000-8000-000000000001", "2024-01-02T03:04:05Z"} {
		if !strings.Contains(beta, text) {
			t.Errorf("%s is missing in %s", text, beta)
		}
	}

	want(t, http.StatusOK, s, "PATCH", list+"/web", "{}")
	value, revision := read()
	if !strings.HasPrefix(value, `{"kind":"Rollout","apiVersion":"rollouts.kruise.io/v1beta1"`) {
		t.Errorf("after a patch that changes nothing is stored: %s", value)
	}
	unversioned := func(object string) string {
		return strings.Replace(object, `"resourceVersion":"`+versionOf(t, object)+`",`, "", 1)
	}
	if got := want(t, http.StatusOK, s, "GET", list+"/web", ""); unversioned(got) != unversioned(beta) {
		t.Errorf("before:\n%s\nafter:\n%s", beta, got)
	}
	if got := want(t, http.StatusOK, s, "GET", alphaPath, ""); unversioned(got) != unversioned(alpha) {
		t.Errorf("before:\n%s\nafter:\n%s", alpha, got)
	}
	want(t, http.StatusOK, s, "PATCH", list+"/web", "{}")
	if _, again := read(); again != revision {
		t.Errorf("a patch after that wrote revision %d over %d", again, revision)
	}
}
