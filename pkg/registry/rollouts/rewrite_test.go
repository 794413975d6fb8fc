// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts_test

import (
	"net/http"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestRewriteFails updates a Rollout whose earlier decisions cannot be read, for example because the
// encryption key is missing. The update is stored, so the client must get a success, with a warning. The
// earlier decisions stay unchanged, and the next update rewrites them.
func TestRewriteFails(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	olderRelease(t, ns, 130)
	verb(t, alice, v1beta1Path, ns, "promote", `{"reason":"one more"}`).must(t, http.StatusCreated)
	earlier, err := etcd(t).Get(t.Context(), stored+"decisions/"+ns+"/", clientv3.WithPrefix())
	if err != nil || len(earlier.Kvs) != 1 {
		t.Fatalf("%d keys of earlier decisions: %v", len(earlier.Kvs), err)
	}
	key, whole := string(earlier.Kvs[0].Key), string(earlier.Kvs[0].Value)
	write := func(value string) {
		t.Helper()
		if _, err := etcd(t).Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	label := func(value string) answer {
		return patch(t, alice, one(v1beta1Path, ns, "web"), `{"metadata":{"labels":{"by":"`+value+`"}}}`)
	}

	write("unreadable")
	a := label("first").must(t, http.StatusOK)
	if got := asStored(t, ns).Labels["by"]; got != "first" {
		t.Errorf("the label is stored as %q", got)
	}
	if got := strings.Join(a.warnings, "\n"); !strings.Contains(got, "earlier decisions are not yet rewritten") {
		t.Errorf("the answer warns of %q", got)
	}
	if got := earlierKeys(t, ns); len(got) != 1 || got[0] != "unreadable" {
		t.Errorf("the earlier decisions are now %q", got)
	}

	write(" " + whole) // readable, and not as it would be written
	if a := label("second").must(t, http.StatusOK); len(a.warnings) > 0 {
		t.Errorf("the answer warns of %q", a.warnings)
	}
	if got := earlierKeys(t, ns); len(got) != 1 || got[0] != whole {
		t.Errorf("the earlier decisions are not rewritten")
	}
	wantIDs(t, "the Rollout", get(t, ns, "web").Status.Decisions, 1, 131)
}
