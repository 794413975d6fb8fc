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

// A release is aborted and tried again, and after that rolled back: the
// template is stable's, nothing is held, and each word is on record.
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
	a.eventually("its pods are there", a.runs(versions{"v1": 4, "v2": 2}))
	a.checkNow(a.hasCanaryWeight("20"))

	a.post(testEnv.admin, "rollback", "", http.StatusCreated)
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.awaitPods(versions{"v1": 6})
	a.checkRestored(workloadTypeLabel)
	a.checkNow(a.messageContains("Rollout progressing has been canceled"))
	a.checkNow(a.hasDecisions("promote 1 admin applied", "abort 2 admin applied", "retry 1 admin applied", "rollback 1 admin applied"))
}

// A release jumps forward and back: pods stay where they are on the way back,
// traffic follows, and each step is approved for itself.
func TestJump(t *testing.T) {
	t.Parallel()
	a := start(t, defaultPlan())
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.post(testEnv.admin, "jump", `{"step":4}`, http.StatusUnprocessableEntity, "1 to 3")
	a.post(testEnv.admin, "jump", `{"step":2}`, http.StatusCreated)
	a.eventually("step 2 waits", a.waitsAtStep(2))
	a.eventually("its pods are there", a.runs(versions{"v1": 3, "v2": 3}))
	a.checkNow(a.hasCanaryWeight("50"))

	// Back, by the field that clients of OpenKruise write.
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
	a.eventually("its pods are there", a.runs(versions{"v1": 3, "v2": 3}))
	a.promote(1)
	a.eventually("step 2 waits", a.waitsAtStep(2))
	a.promote(2)
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.awaitPods(versions{"v2": 6})
	a.checkRestored(workloadTypeLabel)
	a.checkNow(a.hasDecisions("jump 2 admin applied", "jump 1 admin applied", "promote 1 admin applied", "promote 2 admin applied"))
}

// A release that somebody paused stands still, whoever approves, until it is
// resumed; and the pause of the spec is another one.
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

// With the annotation the stable template is a release of its own: each step
// takes its share of the pods that are not back, and waits.
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
	a.eventually("two of three are back", a.runs(versions{"v1": 5, "v2": 1}))
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.consistently("and stays", a.runs(versions{"v1": 5, "v2": 1}))
	a.checkTreeAndPlan(1)
	a.promote(1)
	a.eventually("step 2 waits", a.waitsAtStep(2))
	a.promote(2)
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.awaitPods(versions{"v1": 6})
	a.checkNow(a.releaseSucceeded)
	a.checkRestored(workloadTypeLabel)
}

// releaseSucceeded wants the last release to have come to its end.
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
