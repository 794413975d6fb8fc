// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/test/patience"
)

// TestPromoteOnce sends twenty concurrent promotes of one step. One of them succeeds, and the
// release advances by one step.
func TestPromoteOnce(t *testing.T) {
	t.Parallel()
	for round := range shortOrFull(1, 5) {
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			t.Parallel()
			a := start(t, planWithoutTraffic())
			a.release("v2")
			a.eventually("step 1 waits", a.waitsAtStep(1))
			codes := map[int]int{}
			for _, got := range concurrently(t, 20, func(int) (answer, error) {
				return testEnv.admin.post(t.Context(), a, "promote", expectStep(1))
			}) {
				codes[got.code]++
			}
			if codes[http.StatusCreated] != 1 || codes[http.StatusConflict] != 19 {
				t.Errorf("got %v, want one 201 and nineteen 409", codes)
			}
			a.eventually("step 2 waits", a.waitsAtStep(2))
			a.consistently("step 2 was not approved", a.waitsAtStep(2))
			a.checkNow(a.hasDecisions("promote 1 admin applied"))
		})
	}
}

// concurrently sends this many requests at the same time.
func concurrently(t *testing.T, times int, ask func(int) (answer, error)) []answer {
	t.Helper()
	answers := make([]answer, times)
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i := range times {
		wg.Go(func() {
			<-begin
			var err error
			if answers[i], err = ask(i); err != nil {
				t.Error(err)
			}
		})
	}
	close(begin)
	wg.Wait()
	return answers
}

// TestApprovalRightAfterPause sends an approval at the moment at which a step pauses. It must not
// be lost.
func TestApprovalRightAfterPause(t *testing.T) {
	t.Parallel()
	apps, steps := shortOrFull(2, 10), int32(shortOrFull(10, 20))
	for i := range apps {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			p := plan{replicas: steps, surge: 1}
			for n := int32(1); n <= steps; n++ {
				p.steps = append(p.steps, manualStep(strconv.Itoa(int(n))))
			}
			a := start(t, p)
			a.release("v2")
			approved := a.approveAtOnce(steps)
			a.eventually("the Rollout is Healthy", a.isHealthy)
			a.eventually("all pods run", a.runs(versions{"v2": steps}))
			var want []string
			for n := int32(1); n <= steps; n++ {
				want = append(want, fmt.Sprintf("promote %d admin applied", n))
			}
			a.checkNow(a.hasDecisions(want...))
			t.Logf("%d approvals, none lost", approved)
		})
	}
}

// approveAtOnce watches the Rollout and approves each step as soon as it pauses: with the verb,
// with the verb and expectations, and with a status write in turn.
func (a *app) approveAtOnce(steps int32) int32 {
	a.t.Helper()
	ctx, cancel := patience.Context(a.t.Context(), 2*patience.Long)
	defer cancel()
	events, err := testEnv.client.Watch(ctx, &v1beta1.RolloutList{}, client.InNamespace(a.namespace))
	if err != nil {
		a.t.Fatal(err)
	}
	defer events.Stop()
	approved := int32(0)
	for e := range events.ResultChan() {
		r, ok := e.Object.(*v1beta1.Rollout)
		if !ok || r.Status.Canary == nil || r.Status.Canary.State != "StepPaused" || r.Status.Canary.CurrentStepIndex == approved {
			continue
		}
		if got := r.Status.Canary.CurrentStepIndex; got != approved+1 {
			a.t.Fatalf("after step %d came step %d", approved, got)
		}
		approved++
		a.approve(approved, r)
		if approved == steps {
			return approved
		}
	}
	a.t.Fatalf("approved %d of %d steps, then nothing came", approved, steps)
	return approved
}

func (a *app) approve(step int32, seen *v1beta1.Rollout) {
	a.t.Helper()
	switch step % 3 {
	case 0:
		a.promote(step)
	case 1:
		a.post(testEnv.admin, "promote", "", http.StatusCreated)
	default:
		// Clients of OpenKruise send the resourceVersion that they have read.
		next := seen.DeepCopy()
		next.Status.Canary.State = "StepReady"
		patch := client.MergeFromWithOptions(seen, client.MergeFromWithOptimisticLock{})
		if err := testEnv.client.Status().Patch(a.t.Context(), next, patch); err != nil {
			a.t.Fatalf("approving step %d by the status: %v", step, err)
		}
	}
}

// TestPromoteVersusAbort sends a promote and an abort at the same time. The result must be that of
// one of the two orders, and both responses must agree with it.
func TestPromoteVersusAbort(t *testing.T) {
	t.Parallel()
	a := start(t, planWithoutTraffic())
	alice, bob := a.userWithClusterRole("alice", "weir-promoter"), a.userWithClusterRole("bob", "weir-release-manager")
	tally := map[string]int{}
	for round := range shortOrFull(5, 40) {
		a.release(fmt.Sprintf("v%d", round+2))
		a.eventually("step 1 waits", a.waitsInRound(round))
		got := concurrently(t, 2, func(i int) (answer, error) {
			who, verb := []*user{alice, bob}[i], []string{"promote", "abort"}[i]
			// The order is random; one of the users reads twice before the request.
			for range (round + i) % 2 * (round % 3) {
				if err := who.canReadRollout(t.Context(), a); err != nil {
					return answer{}, err
				}
			}
			return who.post(t.Context(), a, verb, `{}`)
		})
		promoted, aborted := got[0], got[1]
		a.eventually("the release is aborted", a.isAborted)
		a.checkAborted("v1")
		a.checkNow(func(ctx context.Context) error { return a.recordMatchesAnswers(ctx, promoted, aborted) })
		tally[fmt.Sprintf("promote %d, abort %d", promoted.code, aborted.code)]++
	}
	t.Log(tally)
}

// waitsInRound returns a check that the release of this round is paused at step 1.
func (a *app) waitsInRound(round int) func(context.Context) error {
	version := fmt.Sprintf("v%d", round+2)
	return func(ctx context.Context) error {
		if err := a.waitsAtStep(1)(ctx); err != nil {
			return err
		}
		return a.runs(versions{"v1": 4, version: 2})(ctx)
	}
}

// recordMatchesAnswers checks that the recorded decisions agree with the responses.
func (a *app) recordMatchesAnswers(ctx context.Context, promoted, aborted answer) error {
	r, err := a.getRollout(ctx)
	if err != nil {
		return err
	}
	var record []string
	for _, d := range r.Status.Decisions {
		if d.Revision == r.Status.Canary.CanaryRevision {
			record = append(record, fmt.Sprintf("%s by %s", d.Verb, d.User))
		}
	}
	want := "abort by bob"
	switch {
	case aborted.code != http.StatusCreated:
		return fmt.Errorf("abort was answered %s, although the release was in progress", aborted)
	case promoted.code == http.StatusCreated:
		want = "promote by alice, abort by bob"
	case promoted.code != http.StatusConflict || !strings.Contains(promoted.message, "aborted by bob"):
		return fmt.Errorf("promote was answered %s, want 409 that names who aborted", promoted)
	}
	if got := strings.Join(record, ", "); got != want {
		return fmt.Errorf("recorded decisions are %q after answers %s and %s, want %q", got, promoted, aborted, want)
	}
	return nil
}

// rolloutWriter are the permissions of other tools that write Rollouts.
var rolloutWriter = rbacv1.PolicyRule{
	APIGroups: []string{"rollouts.kruise.io"}, Resources: []string{"rollouts", "rollouts/status"},
	Verbs: []string{"get", "list", "watch", "update", "patch"},
}

// TestLegacyApproval approves with a status write as clients of OpenKruise do, in both versions.
// This requires the permission to promote.
func TestLegacyApproval(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			a := start(t, planWithoutTraffic())
			alice := a.userWithClusterRole("alice", "weir-promoter")
			writer := a.newStatusWriter()
			patch := []string{"patch", "rollouts." + version + ".rollouts.kruise.io", "web", "--subresource=status", "--type=merge",
				`-p={"status":{"canaryStatus":{"currentStepState":"StepReady"}}}`}
			alice.kubectl(a, patch...).mustFail("Conflict", "no release is in progress")
			a.release("v2")
			a.eventually("step 1 waits", a.waitsAtStep(1))
			writer.kubectl(a, patch...).mustFail("Forbidden", "rollouts/promote", "walter")
			a.checkNow(a.waitsAtStep(1))
			alice.kubectl(a, patch...).mustSucceed("patched")
			a.eventually("step 2 waits", a.waitsAtStep(2))
			alice.kubectl(a, patch...).mustSucceed("patched")
			a.eventually("the Rollout is Healthy", a.isHealthy)
			a.checkNow(a.hasDecisions("promote 1 alice applied", "promote 2 alice applied"))
			a.checkNow(a.via("status"))
		})
	}
}

func (a *app) via(want string) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := a.getRollout(ctx)
		if err != nil {
			return err
		}
		for _, d := range r.Status.Decisions {
			if string(d.Via) != want {
				return fmt.Errorf("decision %d came in via %s, want %s", d.ID, d.Via, want)
			}
		}
		return nil
	}
}

// TestStatusWritesAreRestricted writes the status as a user who may only change the fields that
// request something. Other fields stay unchanged.
func TestStatusWritesAreRestricted(t *testing.T) {
	t.Parallel()
	a := start(t, planWithoutTraffic())
	a.userWithRules("walter", rbacv1.PolicyRule{
		APIGroups: []string{"rollouts.kruise.io"}, Resources: []string{"rollouts", "rollouts/status"},
		Verbs: []string{"get", "patch"},
	})
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.promote(1)
	a.eventually("step 2 waits", a.waitsAtStep(2))
	before, err := a.getRollout(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	forged := map[string]any{
		"phase": "Healthy", "message": "all is well", "decisions": []any{},
		"canaryStatus": map[string]any{"canaryRevision": "other", "canaryReplicas": 100},
	}
	body, err := json.Marshal(map[string]any{"status": forged})
	if err != nil {
		t.Fatal(err)
	}
	testEnv.user(t, "walter").kubectl(a, "patch", "rollout", "web", "--subresource=status", "--type=merge", "-p", string(body)).mustSucceed()
	after, err := a.getRollout(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a.checkEqual("the status", before.Status, after.Status)
	// The administrator may write the progress, but not the recorded decisions.
	forged = map[string]any{"decisions": []any{}}
	body, err = json.Marshal(map[string]any{"status": forged})
	if err != nil {
		t.Fatal(err)
	}
	r := &v1beta1.Rollout{}
	r.Namespace, r.Name = a.namespace, a.rollout
	if err := testEnv.client.Status().Patch(t.Context(), r, client.RawPatch(types.MergePatchType, body)); err != nil {
		t.Fatal(err)
	}
	a.checkNow(a.hasDecisions("promote 1 admin applied"))
}
