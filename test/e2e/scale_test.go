// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestScaleMidStep scales a Deployment during steps. The new version keeps its share.
func TestScaleMidStep(t *testing.T) {
	t.Parallel()
	p := defaultPlan()
	p.steps[0] = withTraffic(manualStep("20%"), "20%")
	a := start(t, p)
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.eventually("the pods of the step run", a.runs(versions{"v1": 4, "v2": 2}))
	a.scale(10)
	a.awaitPods(versions{"v1": 8, "v2": 2})
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.scale(3)
	a.awaitPods(versions{"v1": 2, "v2": 1})
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.promote(1)
	a.eventually("step 2 waits", a.waitsAtStep(2))
	a.eventually("the pods of the step run", a.runs(versions{"v1": 1, "v2": 2}))
	a.scale(8)
	a.awaitPods(versions{"v1": 4, "v2": 4})
	a.eventually("step 2 waits", a.waitsAtStep(2))
	a.promote(2)
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.eventually("the pods of the step run", a.runs(versions{"v2": 8}))
	a.checkRestored(workloadTypeLabel)
}

// TestScaleToZeroHeld scales to zero and back while a step is paused. Afterwards the new
// version has at most the pods that were approved.
func TestScaleToZeroHeld(t *testing.T) {
	t.Parallel()
	a := start(t, defaultPlan())
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.guard.atMost("v2", 2)
	for range shortOrFull(1, 3) {
		a.scale(0)
		a.awaitPods(versions{})
		a.scale(6)
		a.awaitPods(versions{"v1": 4, "v2": 2})
		a.eventually("step 1 waits", a.waitsAtStep(1))
	}
	a.scale(0)
	a.awaitPods(versions{})
	a.post(testEnv.admin, "abort", "", 201)
	a.eventually("the release is aborted", a.isAborted)
	a.guard.atMost("v2", 0)
	a.scale(6)
	a.awaitPods(versions{"v1": 6})
	a.checkAborted("v1")
	a.cancel("v1")
}

// TestScaleToZeroAborted scales to zero and back after an abort. Only pods of the stable version
// are created.
func TestScaleToZeroAborted(t *testing.T) {
	t.Parallel()
	a := start(t, defaultPlan())
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.promote(1)
	a.eventually("step 2 waits", a.waitsAtStep(2))
	a.abort()
	a.checkAborted("v1")
	a.guard.atMost("v2", 0)
	for range shortOrFull(1, 3) {
		a.scale(0)
		a.awaitPods(versions{})
		// If the Deployment were scaled up before the empty ReplicaSet of v2 is deleted, v2 would get the pods.
		a.eventually("the ReplicaSet of v2 is gone", func(ctx context.Context) error {
			sets, err := a.replicaSets(ctx)
			if err == nil && slices.ContainsFunc(sets, func(rs appsv1.ReplicaSet) bool { return versionOf(&rs.Spec.Template.Spec) == "v2" }) {
				err = errors.New("the ReplicaSet of v2 exists")
			}
			return err
		})
		a.scale(4)
		a.awaitPods(versions{"v1": 4})
		a.scale(6)
		a.awaitPods(versions{"v1": 6})
	}
	a.checkAborted("v1")
	a.release("v3")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.eventually("the pods of the step run", a.runs(versions{"v1": 4, "v3": 2}))
	a.promoteAll()
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.eventually("the pods of the step run", a.runs(versions{"v3": 6}))
	a.checkRestored(workloadTypeLabel)
}

// TestScaleToZeroMidStep deletes all pods while a step is paused, and scales up again. The new
// version ends up with its share.
func TestScaleToZeroMidStep(t *testing.T) {
	t.Parallel()
	for _, style := range selectCases(styles, "blue-green") {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			a := start(t, styles[style]())
			a.release("v2")
			a.eventually("step 1 waits", a.waitsInAnyStyle(1))
			a.guard.atLeast(0)
			a.scale(0)
			a.eventually("no pod is left", a.runs(versions{}))
			a.eventually("step 1 still waits", a.waitsInAnyStyle(1))
			a.scale(6)
			// If the Deployment is scaled up before the empty new ReplicaSet is deleted, that one first gets all pods.
			a.eventually("the new version has its share", a.runs(map[string]versions{
				"partition": {"v1": 4, "v2": 2}, "canary": {"v1": 6, "v2": 1}, "blue-green": {"v1": 6, "v2": 3},
			}[style]))
			a.eventually("step 1 waits", a.waitsInAnyStyle(1))
			a.abort()
			a.eventually("all pods run v1", a.runs(versions{"v1": 6}))
		})
	}
}

// TestScaleWhileAborting scales during an abort, up, down and to zero.
func TestScaleWhileAborting(t *testing.T) {
	t.Parallel()
	sizes := map[string]int32{"up": 12, "down": 3, "to zero": 0}
	for _, name := range selectCases(sizes, "to zero") {
		replicas := sizes[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := start(t, defaultPlan())
			a.release("v2")
			a.eventually("step 1 waits", a.waitsAtStep(1))
			a.promote(1)
			a.eventually("step 2 waits", a.waitsAtStep(2))
			a.post(testEnv.admin, "abort", "", 201)
			a.scale(replicas)
			a.eventually("the release is aborted", a.isAborted)
			a.guard.atMost("v2", 0)
			a.awaitPods(versions{"v1": replicas})
			a.scale(6)
			a.awaitPods(versions{"v1": 6})
			a.checkAborted("v1")
			a.cancel("v1")
		})
	}
}

// TestOwnerLimitsHold checks maxSurge and maxUnavailable for several values.
func TestOwnerLimitsHold(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ surge, unavailable int32 }{
		"surge only":       {surge: 1},
		"unavailable only": {unavailable: 1},
		"both":             {surge: 3, unavailable: 2},
		"all at once":      {surge: 10},
	}
	for _, name := range selectCases(cases, "surge only", "unavailable only") {
		limits := cases[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := planWithoutTraffic()
			p.replicas, p.surge, p.unavailable = 10, limits.surge, limits.unavailable
			a := start(t, p)
			a.watchReplicaSetSizes(p.replicas + max(1, p.surge))
			a.release("v2")
			a.eventually("step 1 waits", a.waitsAtStep(1))
			a.promote(1)
			a.eventually("step 2 waits", a.waitsAtStep(2))
			a.abort()
			a.checkAborted("v1")
			a.release("v3")
			a.eventually("step 1 waits", a.waitsAtStep(1))
			a.promoteAll()
			a.eventually("the Rollout is Healthy", a.isHealthy)
			a.eventually("the pods of the step run", a.runs(versions{"v3": 10}))
			a.checkRestored(workloadTypeLabel)
		})
	}
}

// watchReplicaSetSizes reports a fault if the ReplicaSets together request more pods than allowed.
// Sizes are watched because pods are created and deleted later than sizes change.
func (a *app) watchReplicaSetSizes(most int32) {
	a.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	events, err := testEnv.client.Watch(ctx, &appsv1.ReplicaSetList{}, client.InNamespace(a.namespace))
	if err != nil {
		cancel()
		a.t.Fatal(err)
	}
	done := make(chan struct{})
	a.t.Cleanup(func() {
		cancel()
		<-done
	})
	go func() {
		defer close(done)
		sizes := map[string]int32{}
		for e := range events.ResultChan() {
			rs, ok := e.Object.(*appsv1.ReplicaSet)
			if !ok {
				continue
			}
			sizes[rs.Name] = *rs.Spec.Replicas
			var all int32
			for _, n := range sizes {
				all += n
			}
			if all > most {
				a.t.Errorf("sizes %v together exceed %d", sizes, most)
			}
		}
	}()
}
