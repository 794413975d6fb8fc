// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// irreversible wants the condition that says that nothing can go back.
func (a *app) irreversible(ctx context.Context) error {
	r, err := a.stored(ctx)
	if err != nil {
		return err
	}
	for _, c := range r.Status.Conditions {
		if c.Type == "Revertible" && c.Status == "False" && c.Reason == "StableGone" {
			return nil
		}
	}
	return fmt.Errorf("no condition says that the stable version was deleted: %s", describe(r))
}

// aloneBeside is a canary release whose stable ReplicaSet somebody deletes, so that the pods of
// the extra Deployment serve alone. From then on a ready pod must be there at every moment.
func aloneBeside(t *testing.T) *app {
	t.Helper()
	p := beside()
	p.steps = []v1beta1.Step{manual("2"), manual("50%")}
	p.routed = false
	a := start(t, p)
	a.release("v2")
	a.until("step 1 waits", a.waitsAt(1))
	a.unmake("v1")
	a.until("only pods of v2 are left", a.runs(versions{"v2": 2}))
	a.guard.atLeast(1)
	a.sees(a.waitsAt(1))
	return a
}

// Setting the earlier template, as the message says, brings its pods up before those of the
// extra Deployment go.
func TestCanaryServesAloneEarlier(t *testing.T) {
	t.Parallel()
	a := aloneBeside(t)
	a.until("it says that it cannot go back", a.irreversible)
	a.sees(a.says("abort and rollback cannot go back to it"))
	a.release("v1")
	a.until("the Rollout is Healthy", a.healthy)
	a.sees(a.extra(0))
	a.settled(versions{"v1": 6})
	a.traceless(workloadType)
}

// So does another template: the pods that serve stay beside those of its steps.
func TestCanaryServesAloneNext(t *testing.T) {
	t.Parallel()
	a := aloneBeside(t)
	a.release("v3")
	a.until("pods of v3 come beside those that serve", a.runs(versions{"v2": 2, "v3": 2}))
	a.until("step 1 waits", a.waitsAt(1))
	a.promote(1)
	a.until("step 2 waits", a.waitsAt(2))
	a.promote(2)
	a.until("the Rollout is Healthy", a.healthy)
	a.sees(a.extra(0))
	a.settled(versions{"v3": 6})
	a.traceless(workloadType)
}

// Deleting the Rollout gives the Deployment back, and its own pods come first.
func TestCanaryServesAloneDeleted(t *testing.T) {
	t.Parallel()
	a := aloneBeside(t)
	r := a.newRollout()
	r.Namespace = a.namespace
	if err := here.client.Delete(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	a.until("the Rollout is gone", a.gone(&v1beta1.Rollout{}, name))
	a.settled(versions{"v2": 6})
	a.sees(a.extra(0))
	a.traceless()
}
