// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts_test

import (
	"net/http"
	"testing"
)

// The store remembers a Rollout that was deleted before the controller had given the workload back.
// It does not remember a Rollout that gave its workload back, nor one that never existed.
func TestDeletionIsRemembered(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status     string
		remembered bool
	}{
		"before the controller has seen it": {`{}`, true},
		"in the middle of a release":        {`{"status":{"phase":"Progressing","workloadUID":"w"}}`, true},
		"while the workload is restored":    {`{"status":{"phase":"Terminating","workloadUID":"w"}}`, true},
		"after the workload is restored":    {`{"status":{"phase":"Terminating","workloadUID":""}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t)
			uid := create(t, ns, "web", "web").UID
			path := one(v1beta1Path, ns, "web")
			call(t, request{as: alice, method: "DELETE", path: path}).must(t, http.StatusOK)
			patch(t, controller, path+"/status", tc.status).must(t, http.StatusOK)
			patch(t, alice, path, `{"metadata":{"finalizers":null}}`).must(t, http.StatusOK)
			if !tc.remembered {
				uid = ""
			}
			for path, want := range map[string]any{path: uid, one(v1alpha1Path, ns, "web"): uid, one(v1beta1Path, ns, "other"): uid[:0]} {
				a := call(t, request{as: alice, method: "GET", path: path})
				a.must(t, http.StatusNotFound)
				if got := a.status().Details.UID; got != want {
					t.Errorf("GET %s: the uid is %q, want %q", path, got, want)
				}
			}
		})
	}
}
