// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// TestClock sets the start of a pause to the future and to the past, as a changed clock does. A
// timed pause must end after its duration, and not an hour later. A pause without a duration must
// not end.
func TestClock(t *testing.T) {
	t.Parallel()
	const pause = 5 * time.Second
	p := planWithoutTraffic()
	p.steps[0] = timedStep("2", int32(pause/time.Second))
	a := start(t, p)
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	began := time.Now() // the earliest possible restart of the pause
	a.setWaitStart(time.Now().Add(time.Hour))
	a.eventually("the pause starts again", a.hasWaitStart(time.Now()))
	a.eventually("step 2 waits", a.waitsAtStep(2))
	if waited := time.Since(began); waited < pause-time.Second { // Kubernetes keeps times to the second
		t.Errorf("step 1 has passed after %s", waited)
	}
	a.setWaitStart(time.Now().Add(-time.Hour))
	a.consistently("step 2 waits for an approval", a.waitsAtStep(2))
	a.promoteAll()
	a.eventually("the release is complete", a.released("v2"))
}

// setWaitStart stores when the pause began, as weir-controller does.
func (a *app) setWaitStart(at time.Time) {
	a.t.Helper()
	r := &v1beta1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: a.rollout}}
	patch := fmt.Appendf(nil, `{"status":{"canaryStatus":{"lastUpdateTime":%q}}}`, at.UTC().Format(time.RFC3339))
	if err := testEnv.controllerClient(a.t).Status().Patch(a.t.Context(), r, client.RawPatch(types.MergePatchType, patch)); err != nil {
		a.t.Fatal(err)
	}
}

// hasWaitStart returns a check that the pause began at this time, or a moment later.
func (a *app) hasWaitStart(at time.Time) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := a.getRollout(ctx)
		if err == nil && r.Status.Canary.LastUpdateTime.After(at.Add(time.Minute)) {
			err = fmt.Errorf("the pause began at %s", r.Status.Canary.LastUpdateTime)
		}
		return err
	}
}
