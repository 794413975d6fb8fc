// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/weir-rollouts/weir/pkg/apiserver"
	"github.com/weir-rollouts/weir/pkg/apiserver/apiservertest"
)

const histories = "/apis/rollouts.kruise.io/v1alpha1/namespaces/ns/rollouthistories"

func limited(limit string) func(*apiserver.Options) {
	return func(o *apiserver.Options) {
		o.Store.Limit = resource.QuantityValue{Quantity: resource.MustParse(limit)}
	}
}

// annotations are large.
func annotations(i int) string {
	return fmt.Sprintf(`"annotations":{"a":"%d-%s"}`, i, strings.Repeat("a", 200_000))
}

// fill writes until that is refused, with what to do, and returns how often.
func fill(t *testing.T, write func(i int) (int, string)) int {
	t.Helper()
	for i := range 200 {
		switch code, answer := write(i); {
		case code == http.StatusInsufficientStorage:
			if !strings.Contains(answer, "--data-limit") {
				t.Errorf("the refusal does not say what to do: %s", answer)
			}
			return i
		case code >= 300:
			t.Fatalf("writing: %d: %s", code, answer)
		}
	}
	t.Fatal("nothing was refused")
	return 0
}

// overwrite changes one object again and again.
func overwrite(t *testing.T, s *apiservertest.Server) func(i int) (int, string) {
	return func(i int) (int, string) {
		return do(t, s, "PATCH", list+"/web", "application/merge-patch+json", `{"metadata":{`+annotations(i)+`}}`)
	}
}

// record makes one more object.
func record(t *testing.T, s *apiservertest.Server) func(i int) (int, string) {
	return func(i int) (int, string) {
		return do(t, s, "POST", histories, "application/json",
			fmt.Sprintf(`{"apiVersion":"rollouts.kruise.io/v1alpha1","kind":"RolloutHistory","metadata":{"name":"h%d",%s}}`, i, annotations(i)))
	}
}

// A store full of what was overwritten refuses writes, says so, and recovers by
// itself. Until then everything can be read.
func TestFullOfThePast(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), limited("8Mi"))
	defer stop(t, s)
	want(t, http.StatusCreated, s, "POST", list, rollout)
	want(t, http.StatusOK, s, "GET", "/healthz/storage-space", "")
	fill(t, overwrite(t, s))

	want(t, http.StatusInternalServerError, s, "GET", "/healthz/storage-space", "")
	want(t, http.StatusOK, s, "GET", "/readyz", "")
	want(t, http.StatusOK, s, "GET", list+"/web", "")
	want(t, http.StatusInsufficientStorage, s, "POST", list, named("second", "other"))
	want(t, http.StatusInsufficientStorage, s, "DELETE", list+"/web", "") // it has a finalizer

	if err := s.Store.Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, http.StatusOK, s, "GET", "/healthz/storage-space", "")
	want(t, http.StatusCreated, s, "POST", list, named("second", "other"))
}

// A store full of what is there accepts writes again when something is deleted,
// or when it starts with a higher limit.
func TestFullOfThePresent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir, limited("8Mi"))
	n := 0
	more := func(i int) (int, string) { return record(t, s)(n + i) }
	var full error
	for full == nil {
		n += fill(t, more) + 1 // the write that etcd refuses first is stored all the same
		full = s.Store.Tidy(t.Context())
	}
	if !strings.Contains(full.Error(), "--data-limit") {
		t.Errorf("tidying up does not say what to do: %v", full)
	}
	want(t, http.StatusInternalServerError, s, "GET", "/healthz/storage-space", "")
	for i := range n / 2 {
		want(t, http.StatusOK, s, "DELETE", fmt.Sprintf("%s/h%d", histories, i), "")
	}
	if err := s.Store.Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	n += fill(t, more) + 1
	stop(t, s)

	s = start(t, dir, limited("64Mi"))
	defer stop(t, s)
	if code, _ := more(0); code != http.StatusInsufficientStorage {
		t.Errorf("the alarm did not outlive the server: %d", code)
	}
	if err := s.Store.Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if code, answer := more(0); code != http.StatusCreated {
		t.Errorf("creating with a higher limit: %d: %s", code, answer)
	}
}
