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
)

// TestHistoriesCountForTheirNamespace is about a tenant who changes templates repeatedly. The controller
// stores a history of each release. These histories must not use up the space of other namespaces.
func TestHistoriesCountForTheirNamespace(t *testing.T) {
	t.Parallel()
	c := startCrowded(t, "32Mi")
	c.releases("full", "web")
	create := func(i int) (int, string) {
		return c.sends(controller, http.MethodPost, "/apis/rollouts.kruise.io/v1alpha1/namespaces/full/rollouthistories",
			fmt.Sprintf(`{"apiVersion":"rollouts.kruise.io/v1alpha1","kind":"RolloutHistory","metadata":{"name":"h%d",%s}}`, i, annotations(i)))
	}
	for i := range 100 {
		code, answer := create(i)
		if code == http.StatusCreated {
			continue
		}
		if code != http.StatusInsufficientStorage || !strings.Contains(answer, `namespace \"full\" stores`) {
			t.Errorf("history %d is answered %d: %.500s", i, code, answer)
		}
		if i < 20 || i > 8<<20/200_000 {
			t.Errorf("%d histories of 200 kB are stored in a namespace that may have 8 MiB", i)
		}
		break
	}
	c.wants(http.StatusCreated, tenant, http.MethodPost, "elsewhere/rollouts", large("web"))
	// The release continues.
	c.wants(http.StatusOK, controller, http.MethodPatch, "full/rollouts/web/status", `{"status":{"message":"continues"}}`)
	c.wants(http.StatusCreated, tenant, http.MethodPost, "full/rollouts/web/promote", "{}")
}

// decides records more decisions about a Rollout than its status may contain.
func (c crowded) decides(path string) {
	c.t.Helper()
	for i := range 41 {
		// Consecutive decisions of one user would be merged.
		who, verb := "admin", "pause"
		if i%2 == 1 {
			who, verb = tenant, "resume"
		}
		c.wants(http.StatusCreated, who, http.MethodPost, path+"/"+verb, "{}")
	}
}

// A write moves earlier decisions if there are many. Without space for them, the write is still admitted if
// it does not grow the object.
func TestUpdateWithoutRoomForDecisions(t *testing.T) {
	t.Parallel()
	c := startCrowded(t, "32Mi")
	c.releases("full", "web")
	c.decides("full/rollouts/web")
	if _, refusal := c.fills(60, "full"); refusal == "" {
		t.Fatal("the namespace is not full")
	}
	for i := 0; ; i++ { // what room is left
		body := strings.Replace(named(fmt.Sprint("small", i), fmt.Sprint("small", i)), `"metadata":{`, `"metadata":{"annotations":{"note":"`+strings.Repeat("x", 2000)+`"},`, 1)
		if code, _ := c.sends(tenant, http.MethodPost, "full/rollouts", body); code == http.StatusInsufficientStorage {
			break
		}
	}
	c.wants(http.StatusOK, tenant, http.MethodPatch, "full/rollouts/web", fmt.Sprintf(`{"metadata":{"annotations":{"note":%q}}}`, strings.Repeat("x", 239_900)))
	c.wants(http.StatusCreated, tenant, http.MethodPost, "full/rollouts/web/abort", "{}")
}

// An abort also moves earlier decisions, and frees the space of old versions.
func TestAbortWithManyDecisionsInAFullStore(t *testing.T) {
	t.Parallel()
	c := startCrowded(t, "16Mi")
	c.releases("a", "web")
	c.decides("a/rollouts/web")
	etcd := etcdOf(t, c.Server)
	for i := 0; ; i++ {
		_, err := etcd.Put(t.Context(), "/registry/rollouts.kruise.io/strangers/0", strings.Repeat("x", 500_000))
		if errors.Is(err, rpctypes.ErrNoSpace) {
			break
		}
		if err != nil || i > 1000 {
			t.Fatalf("write %d: %v, with %+v", i, err, c.Store.Usage())
		}
	}
	c.wants(http.StatusCreated, tenant, http.MethodPost, "a/rollouts/web/abort", "{}")
}
