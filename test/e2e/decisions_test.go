// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// TestRetryThenRollback aborts a release, retries it, and rolls it back. The stable template is
// set, nothing is held, and all decisions are recorded.
func TestRetryThenRollback(t *testing.T) {
	t.Parallel()
	a := start(t, defaultPlan())
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.promote(1)
	a.eventually("step 2 waits", a.waitsAtStep(2))
	a.abort()
	a.checkAborted("v1")
	a.post(testEnv.admin, "promote", "", http.StatusConflict, "retry")

	a.post(testEnv.admin, "retry", `{"reason":"the database is back"}`, http.StatusCreated)
	a.eventually("step 1 waits again", a.waitsAtStep(1))
	a.eventually("the pods of the step run", a.runs(versions{"v1": 4, "v2": 2}))
	a.checkNow(a.hasCanaryWeight("20"))

	a.post(testEnv.admin, "rollback", "", http.StatusCreated)
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.awaitPods(versions{"v1": 6})
	a.checkRestored(workloadTypeLabel)
	a.checkNow(a.messageContains("Rollout progressing has been canceled"))
	a.checkNow(a.hasDecisions("promote 1 admin applied", "abort 2 admin applied", "retry 1 admin applied", "rollback 1 admin applied"))
}

// TestJump jumps forward and back. A jump back changes the traffic but not the pods, and each step
// needs its own approval.
func TestJump(t *testing.T) {
	t.Parallel()
	a := start(t, defaultPlan())
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.post(testEnv.admin, "jump", `{"step":4}`, http.StatusUnprocessableEntity, "1 to 3")
	a.post(testEnv.admin, "jump", `{"step":2}`, http.StatusCreated)
	a.eventually("step 2 waits", a.waitsAtStep(2))
	a.eventually("the pods of the step run", a.runs(versions{"v1": 3, "v2": 3}))
	a.checkNow(a.hasCanaryWeight("50"))

	// The jump back uses the field that clients of OpenKruise write.
	r, err := a.getRollout(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"canaryStatus":{"nextStepIndex":1}}}`))
	if err := testEnv.client.Status().Patch(t.Context(), &v1beta1.Rollout{ObjectMeta: r.ObjectMeta}, patch); err != nil {
		t.Fatal(err)
	}
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.checkNow(a.hasCanaryWeight("20"))
	a.eventually("the pods of the step run", a.runs(versions{"v1": 3, "v2": 3}))
	a.promote(1)
	a.eventually("step 2 waits", a.waitsAtStep(2))
	a.promote(2)
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.awaitPods(versions{"v2": 6})
	a.checkRestored(workloadTypeLabel)
	a.checkNow(a.hasDecisions("jump 1 admin applied", "jump 2 admin applied", "promote 1 admin applied", "promote 2 admin applied"))
}

// TestPauseAndResume pauses a release with the verb. Approvals have no effect until the release is
// resumed. spec.strategy.paused is independent of the verb.
func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	a := start(t, planWithoutTraffic())
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.post(testEnv.admin, "pause", `{"reason":"lunch"}`, http.StatusCreated)
	a.post(testEnv.admin, "promote", "", http.StatusConflict, "paused by admin", "resume")
	a.patchRollout(`{"spec":{"strategy":{"paused":true}}}`)
	a.post(testEnv.admin, "resume", "", http.StatusConflict, "spec.strategy.paused")
	a.patchRollout(`{"spec":{"strategy":{"paused":false}}}`)
	a.consistently("nothing moves", a.hasProgressingReason("Paused"))
	a.post(testEnv.admin, "resume", "", http.StatusCreated)
	a.promote(1)
	a.eventually("step 2 waits", a.waitsAtStep(2))
	a.checkNow(a.hasDecisions("pause 1 admin applied", "resume 1 admin applied", "promote 1 admin applied"))
}

// TestRollbackInBatches sets the stable template with the annotation rollback-in-batch. The
// rollback is then a release with steps, each of which waits after its share of the pods.
func TestRollbackInBatches(t *testing.T) {
	t.Parallel()
	a := start(t, planWithoutTraffic())
	a.patchRollout(`{"metadata":{"annotations":{"rollouts.kruise.io/rollback-in-batch":"true"}}}`)
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.promote(1)
	a.eventually("step 2 waits", a.waitsAtStep(2))
	a.checkNow(a.runs(versions{"v1": 3, "v2": 3}))
	a.release("v1")
	a.eventually("two of three pods run v1 again", a.runs(versions{"v1": 5, "v2": 1}))
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.consistently("the step stays paused", a.runs(versions{"v1": 5, "v2": 1}))
	a.checkTreeAndPlan(1)
	a.promote(1)
	a.eventually("step 2 waits", a.waitsAtStep(2))
	a.promote(2)
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.awaitPods(versions{"v1": 6})
	a.checkNow(a.releaseSucceeded)
	a.checkRestored(workloadTypeLabel)
}

// releaseSucceeded returns an error unless the last release has succeeded.
func (a *app) releaseSucceeded(ctx context.Context) error {
	r, err := a.getRollout(ctx)
	if err != nil {
		return err
	}
	for _, c := range r.Status.Conditions {
		if c.Type == "Succeeded" && c.Status == "True" {
			return nil
		}
	}
	return fmt.Errorf("the release has not succeeded: %s", describe(r))
}
