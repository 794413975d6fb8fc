// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	restclient "k8s.io/client-go/rest"

	"github.com/weir-rollouts/weir/pkg/apiserver"
	"github.com/weir-rollouts/weir/pkg/apiserver/apiservertest"
	"github.com/weir-rollouts/weir/test/patience"
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

// The webhook holds workloads that Rollouts of the same server reference. It needs no other component.
func TestWebhookHolds(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	if code, answer := do(t, s, "POST", list, "application/json", rollout); code != http.StatusCreated {
		t.Fatalf("creating: %d: %s", code, answer)
	}
	if code, answer := do(t, s, "PATCH", list+"/web/status", "application/merge-patch+json", `{"status":{"phase":"Healthy"}}`); code != http.StatusOK {
		t.Fatalf("writing the status: %d: %s", code, answer)
	}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // self-signed
	var last string
	ctx, cancel := patience.Context(t.Context(), patience.Long)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+s.Webhook+"/admission/v1/workloads", bytes.NewBufferString(review))
		if err != nil {
			return false, err
		}
		res, err := client.Do(r)
		if err != nil {
			return false, err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			return false, err
		}
		last = string(body)
		var answer admissionv1.AdmissionReview
		return json.Unmarshal(body, &answer) == nil && bytes.Contains(answer.Response.Patch, []byte("/spec/paused")), nil
	})
	if err != nil {
		t.Errorf("the update was not held: %v: %s", err, last)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
}
