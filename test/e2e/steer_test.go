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
	a := start(t, usual())
	a.release("v2")
	a.until("step 1 waits", a.waitsAt(1))
	a.promote(1)
	a.until("step 2 waits", a.waitsAt(2))
	a.abort()
	a.isBack("v1")
	a.post(here.admin, "promote", "", http.StatusConflict, "retry")

	a.post(here.admin, "retry", `{"reason":"the database is back"}`, http.StatusCreated)
	a.until("step 1 waits again", a.waitsAt(1))
	a.until("its pods are there", a.runs(versions{"v1": 4, "v2": 2}))
	a.sees(a.weight("20"))

	a.post(here.admin, "rollback", "", http.StatusCreated)
	a.until("the Rollout is Healthy", a.healthy)
	a.settled(versions{"v1": 6})
	a.traceless(workloadType)
	a.sees(a.says("Rollout progressing has been canceled"))
	a.sees(a.onRecord("promote 1 admin applied", "abort 2 admin applied", "retry 1 admin applied", "rollback 1 admin applied"))
}

// A release jumps forward and back: pods stay where they are on the way back,
// traffic follows, and each step is approved for itself.
func TestJump(t *testing.T) {
	t.Parallel()
	a := start(t, usual())
	a.release("v2")
	a.until("step 1 waits", a.waitsAt(1))
	a.post(here.admin, "jump", `{"step":4}`, http.StatusUnprocessableEntity, "1 to 3")
	a.post(here.admin, "jump", `{"step":2}`, http.StatusCreated)
	a.until("step 2 waits", a.waitsAt(2))
	a.until("its pods are there", a.runs(versions{"v1": 3, "v2": 3}))
	a.sees(a.weight("50"))

	// Back, by the field that clients of OpenKruise write.
	r, err := a.stored(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"canaryStatus":{"nextStepIndex":1}}}`))
	if err := here.client.Status().Patch(t.Context(), &v1beta1.Rollout{ObjectMeta: r.ObjectMeta}, patch); err != nil {
		t.Fatal(err)
	}
	a.until("step 1 waits", a.waitsAt(1))
	a.sees(a.weight("20"))
	a.until("its pods are there", a.runs(versions{"v1": 3, "v2": 3}))
	a.promote(1)
	a.until("step 2 waits", a.waitsAt(2))
	a.promote(2)
	a.until("the Rollout is Healthy", a.healthy)
	a.settled(versions{"v2": 6})
	a.traceless(workloadType)
	a.sees(a.onRecord("jump 2 admin applied", "jump 1 admin applied", "promote 1 admin applied", "promote 2 admin applied"))
}

// A release that somebody paused stands still, whoever approves, until it is
// resumed; and the pause of the spec is another one.
func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	a := start(t, plain())
	a.release("v2")
	a.until("step 1 waits", a.waitsAt(1))
	a.post(here.admin, "pause", `{"reason":"lunch"}`, http.StatusCreated)
	a.post(here.admin, "promote", "", http.StatusConflict, "paused by admin", "resume")
	a.edit(`{"spec":{"strategy":{"paused":true}}}`)
	a.post(here.admin, "resume", "", http.StatusConflict, "spec.strategy.paused")
	a.edit(`{"spec":{"strategy":{"paused":false}}}`)
	a.stays("nothing moves", a.doing("Paused"))
	a.post(here.admin, "resume", "", http.StatusCreated)
	a.promote(1)
	a.until("step 2 waits", a.waitsAt(2))
	a.sees(a.onRecord("pause 1 admin applied", "resume 1 admin applied", "promote 1 admin applied"))
}

// With the annotation the stable template is a release of its own: each step
// takes its share of the pods that are not back, and waits.
func TestRollbackInBatches(t *testing.T) {
	t.Parallel()
	a := start(t, plain())
	a.edit(`{"metadata":{"annotations":{"rollouts.kruise.io/rollback-in-batch":"true"}}}`)
	a.release("v2")
	a.until("step 1 waits", a.waitsAt(1))
	a.promote(1)
	a.until("step 2 waits", a.waitsAt(2))
	a.sees(a.runs(versions{"v1": 3, "v2": 3}))
	a.release("v1")
	a.until("two of three are back", a.runs(versions{"v1": 5, "v2": 1}))
	a.until("step 1 waits", a.waitsAt(1))
	a.stays("and stays", a.runs(versions{"v1": 5, "v2": 1}))
	a.inspects(1)
	a.promote(1)
	a.until("step 2 waits", a.waitsAt(2))
	a.promote(2)
	a.until("the Rollout is Healthy", a.healthy)
	a.settled(versions{"v1": 6})
	a.sees(a.succeeded)
	a.traceless(workloadType)
}

// succeeded wants the last release to have come to its end.
func (a *app) succeeded(ctx context.Context) error {
	r, err := a.stored(ctx)
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
