// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// unmake deletes the ReplicaSet of a version, and its pods with it.
func (a *app) unmake(version string) {
	a.t.Helper()
	a.guard.atLeast(0)
	sets, err := a.sets(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	for i := range sets {
		if versionOf(&sets[i].Spec.Template.Spec) == version && *sets[i].Spec.Replicas > 0 {
			if err := here.client.Delete(a.t.Context(), &sets[i], client.PropagationPolicy("Background")); err != nil {
				a.t.Fatal(err)
			}
		}
	}
}

// has wants so many ready pods of a version, whatever else runs.
func (a *app) has(version string, n int32) func(context.Context) error {
	return func(ctx context.Context) error {
		sets, err := a.sets(ctx)
		if err != nil {
			return err
		}
		got := int32(0)
		for i := range sets {
			if versionOf(&sets[i].Spec.Template.Spec) == version {
				got += sets[i].Status.ReadyReplicas
			}
		}
		if got != n {
			return fmt.Errorf("%d pods of %s, want %d", got, version, n)
		}
		return nil
	}
}

// Somebody deletes the ReplicaSet of the stable version in the middle of a
// release. The native controller gives its pods to whatever it finds. The version
// comes back at its share, the step goes on waiting, and an abort, a second loss
// and a rollback end where they always do.
func TestStableDeleted(t *testing.T) {
	t.Parallel()
	a := start(t, usual())
	a.release("v2")
	a.until("step 1 waits", a.waitsAt(1))
	a.unmake("v1")
	a.until("somebody is told", a.warned("StableRecreated"))
	a.until("both versions are as the step wants them", a.runs(versions{"v1": 4, "v2": 2}))
	a.sees(a.waitsAt(1))
	a.until("the Service selects stable again", a.serves(name, versions{"v1": 4}))
	a.sees(a.weight("20"))
	a.guard.atLeast(5)
	a.abort()
	a.isBack("v1")
	a.unmake("v1")
	a.until("all pods run v1 again", a.runs(versions{"v1": 6}))
	a.until("the release is aborted again", a.isAborted)
	a.unmake("v1")
	a.post(here.admin, "rollback", "", http.StatusCreated)
	a.until("the Rollout is Healthy", a.healthy)
	a.settled(versions{"v1": 6})
	a.traceless(workloadType)
}

// In the other styles the native controller sizes the workload. It revives the
// newest version of the history, which is none of the release.
func TestStableDeletedBeside(t *testing.T) {
	t.Parallel()
	for style, p := range map[string]plan{"canary": extra(), "blue-green": switched()} {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			a := start(t, p)
			a.release("v2")
			a.until("step 1 waits", a.says("manually confirm"))
			a.promoteAll()
			a.until("the Rollout is Healthy", a.healthy)
			a.settled(versions{"v2": 6})
			a.release("v3")
			a.until("step 1 waits", a.says("manually confirm"))
			a.unmake("v2")
			a.until("stable is back", a.has("v2", 6))
			a.until("no older version serves", a.has("v1", 0))
			a.until("step 1 waits", a.says("manually confirm"))
			a.until("the Service selects stable again", a.serves(name, versions{"v2": 6}))
			a.abort()
			a.until("its pods are there", a.runs(versions{"v2": 6}))
			a.post(here.admin, "rollback", "", http.StatusCreated)
			a.until("the Rollout is Healthy", a.healthy)
			a.settled(versions{"v2": 6})
			a.traceless(workloadType)
		})
	}
}
