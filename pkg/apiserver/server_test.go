// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	restclient "k8s.io/client-go/rest"

	"github.com/weir-rollouts/weir/pkg/apiserver"
	"github.com/weir-rollouts/weir/pkg/apiserver/apiservertest"
)

const (
	list    = "/apis/rollouts.kruise.io/v1beta1/namespaces/ns/rollouts"
	rollout = `{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"Rollout","metadata":{"name":"web"},"spec":{
		"workloadRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"strategy":{"canary":{"steps":[{"replicas":"100%"}]}}}}`
	review = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"UPDATE",
		"kind":{"group":"apps","version":"v1","kind":"Deployment"},"namespace":"ns","name":"web",
		"oldObject":{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"v1"}]}}}},
		"object":{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"v2"}]}}}}}}`
)

func start(t *testing.T, dir string, changes ...func(*apiserver.Options)) *apiservertest.Server {
	t.Helper()
	s, err := apiservertest.Start(dir, []user.DefaultInfo{{Name: "admin", Groups: []string{user.SystemPrivilegedGroup}}},
		func(authorizer.Attributes) bool { return false }, changes...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func do(t *testing.T, s *apiservertest.Server, method, path, contentType, body string) (int, string) {
	t.Helper()
	config := s.As("admin")
	client, err := restclient.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, config.Host+path, bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", contentType)
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(answer)
}

// A server that is restarted on the same directory has all objects and the claims of workloads.
func TestRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	if code, answer := do(t, s, "POST", list, "application/json", rollout); code != http.StatusCreated {
		t.Fatalf("creating: %d: %s", code, answer)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	s = start(t, dir)
	if code, answer := do(t, s, "GET", list+"/web", "", ""); code != http.StatusOK {
		t.Errorf("reading after a restart: %d: %s", code, answer)
	}
	other := bytes.Replace([]byte(rollout), []byte(`"metadata":{"name":"web"}`), []byte(`"metadata":{"name":"other"}`), 1)
	if code, answer := do(t, s, "POST", list, "application/json", string(other)); code != http.StatusConflict {
		t.Errorf("creating another after a restart: %d: %s", code, answer)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
}
