// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
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

// record creates another object.
func record(t *testing.T, s *apiservertest.Server) func(i int) (int, string) {
	return func(i int) (int, string) {
		return do(t, s, "POST", histories, "application/json",
			fmt.Sprintf(`{"apiVersion":"rollouts.kruise.io/v1alpha1","kind":"RolloutHistory","metadata":{"name":"h%d",%s}}`, i, annotations(i)))
	}
}

// fill writes until a write is refused with a fix, and returns the number of writes.
func fill(t *testing.T, write func(i int) (int, string)) int {
	t.Helper()
	for i := range 200 {
		switch code, answer := write(i); {
		case code == http.StatusInsufficientStorage:
			if !strings.Contains(answer, "data-limit") {
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

// stuff writes to etcd directly, which no user can, until maintenance does not help. It returns the keys
// and the error.
func stuff(t *testing.T, s *apiservertest.Server) (keys []string, full error) {
	t.Helper()
	etcd := etcdOf(t, s)
	for i := 0; i < 1000 && full == nil; i++ {
		keys = append(keys, fmt.Sprintf("/registry/rollouts.kruise.io/strangers/%d", i))
		_, err := etcd.Put(t.Context(), keys[i], strings.Repeat("x", 200_000))
		switch {
		case errors.Is(err, rpctypes.ErrNoSpace):
			full = s.Store.RunMaintenance(t.Context())
		case err != nil:
			t.Fatal(err)
		}
	}
	return keys, full
}

// Overwritten versions never fill the store: they are compacted when the space is needed.
func TestFullOfThePast(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), limited("8Mi"))
	defer stop(t, s)
	want(t, http.StatusCreated, s, "POST", list, rollout)
	for i := range 100 {
		code, answer := do(t, s, "PATCH", list+"/web", "application/merge-patch+json", `{"metadata":{`+annotations(i)+`}}`)
		if code != http.StatusOK {
			t.Fatalf("change %d is answered %d: %s", i, code, answer)
		}
	}
	want(t, http.StatusOK, s, "GET", "/healthz/storage-space", "")
	want(t, http.StatusCreated, s, "POST", list, named("second", "other"))
}

// A store in which etcd refuses writes can still be read, and the error contains a fix. The store accepts
// writes again after a deletion, or after a start with a higher limit.
func TestFullOfThePresent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir, limited("8Mi"))
	want(t, http.StatusCreated, s, "POST", list, rollout)
	n := fill(t, record(t, s))
	want(t, http.StatusOK, s, "GET", "/healthz/storage-space", "")
	keys, full := stuff(t, s)
	if full == nil || !strings.Contains(full.Error(), "--data-limit") {
		t.Errorf("tidying up does not say what to do: %v", full)
	}

	want(t, http.StatusInternalServerError, s, "GET", "/healthz/storage-space", "")
	want(t, http.StatusOK, s, "GET", "/readyz", "")
	want(t, http.StatusOK, s, "GET", list+"/web", "")
	want(t, http.StatusInsufficientStorage, s, "POST", list, named("second", "other"))
	for i := range n {
		want(t, http.StatusOK, s, "DELETE", fmt.Sprintf("%s/h%d", histories, i), "")
	}
	deletes := func(keys []string) {
		t.Helper()
		for _, key := range keys {
			if _, err := etcdOf(t, s).Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
	}
	deletes(keys[len(keys)/4:]) // etcd may have stored more than its limit before it noticed
	// The first request that ends a release finds enough space.
	want(t, http.StatusOK, s, "DELETE", list+"/web", "")
	want(t, http.StatusOK, s, "GET", "/healthz/storage-space", "")
	deletes(keys)
	n = fill(t, record(t, s))
	if _, full := stuff(t, s); full == nil {
		t.Fatal("the store is not full")
	}
	stop(t, s)

	s = start(t, dir, limited("64Mi"))
	defer stop(t, s)
	// The alarm persists after a restart, until the first write.
	want(t, http.StatusInternalServerError, s, "GET", "/healthz/storage-space", "")
	if code, answer := record(t, s)(n + 1); code != http.StatusCreated {
		t.Errorf("creating with a higher limit: %d: %s", code, answer)
	}
}
