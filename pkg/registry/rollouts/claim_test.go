// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func tryCreate(t *testing.T, ns, name, body string) answer {
	t.Helper()
	return call(t, request{as: alice, method: "POST", path: list(v1beta1Path, ns), body: body})
}

// drop deletes a Rollout and removes its finalizer, as the controller does.
func drop(t *testing.T, ns, name string) {
	t.Helper()
	path := one(v1beta1Path, ns, name)
	call(t, request{as: alice, method: "DELETE", path: path}).must(t, http.StatusOK)
	patch(t, controller, path, `{"metadata":{"finalizers":null}}`).must(t, http.StatusOK)
}

// Of fifty Rollouts for one workload, one is stored. The errors of the others name it.
func TestClaimAtOnce(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	const n = 50
	answers := make([]answer, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			name := fmt.Sprintf("r%d", i)
			answers[i] = tryCreate(t, ns, name, manifest(name, "web"))
		})
	}
	wg.Wait()
	winner := ""
	count := map[int]int{}
	for i, a := range answers {
		count[a.code]++
		if a.code == http.StatusCreated {
			winner = fmt.Sprintf("r%d", i)
		}
	}
	if diff := cmp.Diff(map[int]int{http.StatusCreated: 1, http.StatusConflict: n - 1}, count); diff != "" {
		t.Fatalf("answers (-want +got):\n%s", diff)
	}
	want := fmt.Sprintf("This rollout conflict with Rollout(%s/%s), one workload only have less than one Rollout: Deployment web is already managed by Rollout %s/%s; delete one of the two, or change spec.workloadRef", ns, winner, ns, winner)
	for i, a := range answers {
		if a.code == http.StatusConflict && !strings.Contains(a.status().Message, want) {
			t.Errorf("r%d is told %q, want %q in it", i, a.status().Message, want)
		}
	}
}

// The claim follows the Rollout: it is deleted and moved with the Rollout, and a refused request does not
// change it.
func TestClaimFollows(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	create(t, ns, "first", "web")
	conflict := func(name, deployment string) {
		t.Helper()
		tryCreate(t, ns, name, manifest(name, deployment)).must(t, http.StatusConflict)
	}
	conflict("second", "web")

	// After a move, the new workload is claimed and the old one is free.
	move := func(name, to string) answer {
		return patch(t, alice, one(v1beta1Path, ns, name), `{"spec":{"workloadRef":{"name":"`+to+`"}}}`)
	}
	move("first", "api").must(t, http.StatusOK)
	conflict("second", "api")
	create(t, ns, "second", "web")
	move("first", "web").must(t, http.StatusConflict)
	conflict("third", "api")

	// Another version of the same kind is the same workload; another kind is not.
	tryCreate(t, ns, "third", strings.Replace(manifest("third", "api"), "apps/v1", "apps/v1beta2", 1)).must(t, http.StatusConflict)
	tryCreate(t, ns, "fourth", strings.Replace(manifest("fourth", "api"), "Deployment", "StatefulSet", 1)).must(t, http.StatusCreated)

	// A Rollout that is being deleted keeps its claim.
	call(t, request{as: alice, method: "DELETE", path: one(v1beta1Path, ns, "first")}).must(t, http.StatusOK)
	conflict("third", "api")
	patch(t, controller, one(v1beta1Path, ns, "first"), `{"metadata":{"finalizers":null}}`).must(t, http.StatusOK)
	create(t, ns, "third", "api")

	// A new Rollout of the same name can claim the workload.
	drop(t, ns, "second")
	create(t, ns, "second", "web")
}

// A create that is refused, or is a dry run, claims nothing.
func TestClaimOfNothing(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	call(t, request{as: alice, method: "POST", path: list(v1beta1Path, ns) + "?dryRun=All", body: manifest("dry", "web")}).must(t, http.StatusCreated)
	create(t, ns, "first", "web")
	call(t, request{as: alice, method: "POST", path: list(v1beta1Path, ns) + "?dryRun=All", body: manifest("dry", "web")}).must(t, http.StatusConflict)

	// If the name exists already, that is the error, whatever the workload is; and the workload api stays
	// free.
	for _, deployment := range []string{"web", "api"} {
		a := tryCreate(t, ns, "first", manifest("first", deployment)).must(t, http.StatusConflict)
		if r := a.status().Reason; r != "AlreadyExists" {
			t.Errorf("creating a second rollout of the name for %s: reason %s, want AlreadyExists", deployment, r)
		}
	}
	create(t, ns, "second", "api")

	// A dry run of a deletion releases nothing.
	call(t, request{as: alice, method: "DELETE", path: one(v1beta1Path, ns, "first") + "?dryRun=All"}).must(t, http.StatusOK)
	call(t, request{as: alice, method: "DELETE", path: one(v1beta1Path, ns, "first")}).must(t, http.StatusOK)
	patch(t, controller, one(v1beta1Path, ns, "first")+"?dryRun=All", `{"metadata":{"finalizers":null}}`).must(t, http.StatusOK)
	tryCreate(t, ns, "third", manifest("third", "web")).must(t, http.StatusConflict)
}

// Server-side apply can create Rollouts, too.
func TestClaimByApply(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	create(t, ns, "first", "web")
	a := call(t, request{
		as: alice, method: "PATCH", path: one(v1beta1Path, ns, "second") + "?fieldManager=gitops", body: manifest("second", "web"),
		headers: map[string]string{"Content-Type": "application/apply-patch+yaml"},
	}).must(t, http.StatusConflict)
	if m := a.status().Message; !strings.Contains(m, "Rollout("+ns+"/first)") {
		t.Errorf("message is %q, want the owner in it", m)
	}
}
