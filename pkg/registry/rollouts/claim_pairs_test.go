// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// TestClaimPairs sends 200 pairs of concurrent requests: two creates, two moves, or a create and a move,
// for one workload each. At every moment at most one stored Rollout references a workload, and that Rollout
// has the claim.
func TestClaimPairs(t *testing.T) {
	t.Parallel()
	const pairs = 200
	ns := namespace(t)
	made := func(name, deployment string) func() answer {
		return func() answer { return tryCreate(t, ns, name, manifest(name, deployment)) }
	}
	moved := func(name, from, to string) func() answer {
		create(t, ns, name, from)
		return func() answer {
			var a answer
			// Moving to a workload and back releases claims that other requests acquire.
			for _, ref := range []string{to, from, to} {
				a = patch(t, alice, one(v1beta1Path, ns, name), `{"spec":{"workloadRef":{"name":"`+ref+`"}}}`)
			}
			return a
		}
	}
	type pair struct{ one, other func() answer }
	var all []pair
	for i := range pairs {
		a, b, web := fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i), fmt.Sprintf("web%d", i)
		switch i % 4 {
		case 0:
			all = append(all, pair{made(a, web), made(b, web)})
		case 1:
			all = append(all, pair{moved(a, a, web), moved(b, b, web)})
		case 2:
			all = append(all, pair{made(a, web), moved(b, b, web)})
		case 3: // two requests of one Rollout, and then another one
			move := moved(a, a, web)
			all = append(all, pair{move, func() answer { move(); return made(b, web)() }})
		}
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, 20)
	for _, p := range all {
		for _, send := range []func() answer{p.one, p.other} {
			wg.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				if a := send(); !slices.Contains([]int{http.StatusOK, http.StatusCreated, http.StatusConflict}, a.code) {
					t.Errorf("answered %d: %s", a.code, a.body)
				}
			})
		}
	}
	wg.Wait()
	names := namedBy(t, ns)
	for i := range pairs {
		web := fmt.Sprintf("web%d", i)
		if len(names[web]) > 1 {
			t.Errorf("%s is named by %v", web, names[web])
		}
		late := tryCreate(t, ns, "late-"+web, manifest("late-"+web, web))
		if want := map[int]int{0: http.StatusCreated, 1: http.StatusConflict}[len(names[web])]; late.code != want {
			t.Errorf("%s is named by %v, and one more Rollout of it is answered %d: %s", web, names[web], late.code, late.body)
		}
	}
}

// namedBy returns the stored Rollouts by the workload that they reference.
func namedBy(t *testing.T, ns string) map[string][]string {
	t.Helper()
	var stored v1beta1.RolloutList
	if err := json.Unmarshal(call(t, request{as: alice, method: "GET", path: list(v1beta1Path, ns)}).must(t, http.StatusOK).body, &stored); err != nil {
		t.Fatal(err)
	}
	names := map[string][]string{}
	for _, r := range stored.Items {
		names[r.Spec.WorkloadRef.Name] = append(names[r.Spec.WorkloadRef.Name], r.Name)
	}
	return names
}

// TestFailedMoveReleases sends pairs of PUTs of one version. One of them moves the Rollout to another
// workload. If the move loses after it has claimed its workload, it releases the claim at once: the next
// Rollout need not wait for a minute.
func TestFailedMoveReleases(t *testing.T) {
	t.Parallel()
	const n = 100
	ns := namespace(t)
	var wg sync.WaitGroup
	slots := make(chan struct{}, 10)
	for i := range n {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			name, to := fmt.Sprintf("r%d", i), fmt.Sprintf("to%d", i)
			if a := tryCreate(t, ns, name, manifest(name, name)); a.code != http.StatusCreated {
				t.Errorf("creating %s: %d: %s", name, a.code, a.body)
				return
			}
			put := func(change func(r *v1beta1.Rollout)) func() answer {
				r := get(t, ns, name)
				change(r)
				return func() answer {
					return call(t, request{as: alice, method: "PUT", path: one(v1beta1Path, ns, name), body: r})
				}
			}
			move := put(func(r *v1beta1.Rollout) { r.Spec.WorkloadRef.Name = to })
			label := put(func(r *v1beta1.Rollout) { r.Labels = map[string]string{"a": "b"} })
			var moved answer
			var both sync.WaitGroup
			both.Go(func() { moved = move() })
			both.Go(func() { label() })
			both.Wait()
			if moved.code == http.StatusConflict {
				if a := tryCreate(t, ns, "next-"+name, manifest("next-"+name, to)); a.code != http.StatusCreated {
					t.Errorf("%s is not free after a move that failed: %d: %s", to, a.code, a.body)
				}
			}
		})
	}
	wg.Wait()
}
