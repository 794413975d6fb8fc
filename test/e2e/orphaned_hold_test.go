// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/test/cluster"
)

// TestOrphanedHold removes the finalizer of a Rollout while weir-controller is down, so the Rollout
// is deleted without restoring its workload. When weir-controller runs again, it restores the
// workload, but does not release an aborted version. This test does not run in parallel with
// others, which need the controller.
func TestOrphanedHold(t *testing.T) {
	aborted := start(t, defaultPlan())
	apps := map[string]*app{}
	for _, style := range selectCases(styles, "partition") {
		apps[style] = start(t, styles[style]())
		apps[style].release("v2")
	}
	aborted.release("v2")
	aborted.eventually("step 1 waits", aborted.waitsAtStep(1))
	aborted.abort()
	aborted.guard.atMost("v2", 0)
	for _, a := range apps {
		a.eventually("step 1 waits", a.waitsInAnyStyle(1))
	}
	if err := testEnv.cluster.Kill(cluster.WeirController); err != nil {
		t.Fatal(err)
	}
	for _, a := range append(slices.Collect(maps.Values(apps)), aborted) {
		testEnv.admin.kubectl(a, "delete", "rollout", name, "--wait=false").mustSucceed()
		testEnv.admin.kubectl(a, "patch", "rollout", name, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`).mustSucceed()
		a.eventually("the Rollout is gone", a.isGone(&v1beta1.Rollout{}, name))
		a.checkNow(a.hasHoldRecords)
	}
	if err := testEnv.cluster.Start(cluster.WeirController); err != nil {
		t.Fatal(err)
	}
	for _, a := range apps {
		a.eventually("an event reports it", a.hasEvent("WorkloadGivenBack", 1))
		a.awaitPods(versions{"v2": 6})
		a.eventually("no record of the hold is left", a.hasNoHoldRecords)
	}
	aborted.eventually("an event reports it", aborted.hasEvent("WorkloadGivenBack", 1))
	aborted.eventually("no record of the hold is left", aborted.hasNoHoldRecords)
	aborted.checkNow(aborted.isHeld)
	aborted.checkNow(aborted.runs(versions{"v1": 6}))
}

// hasHoldRecords returns an error unless Weir holds the Deployment.
func (a *app) hasHoldRecords(ctx context.Context) error {
	d, err := a.getDeployment(ctx)
	if err == nil && d.Annotations["rollouts.kruise.io/in-progressing"] == "" {
		err = errors.New("the Deployment is not held")
	}
	return err
}

// TestManualHold writes the records of a hold manually, also without any effect on the workload, as
// Weir may leave them. Both are removed.
func TestManualHold(t *testing.T) {
	t.Parallel()
	t.Run("by hand", func(t *testing.T) {
		t.Parallel()
		a := newNamespace(t)
		a.plan = planWithoutTraffic()
		a.create(a.newDeployment())
		a.eventually("the Deployment is ready", a.runs(versions{"v1": 6}))
		for times := range int32(2) {
			if err := a.patchDeployment(`{"metadata":{"annotations":{"rollouts.kruise.io/in-progressing":"{\"rolloutName\":\"none\"}"}},"spec":{"paused":true}}`); err != nil {
				t.Fatal(err)
			}
			a.eventually("an event reports it", a.hasEvent("WorkloadGivenBack", times+1))
			a.eventually("no record of the hold is left", a.hasNoHoldRecords)
		}
		a.release("v2")
		a.eventually("the Deployment is not held", a.runs(versions{"v2": 6}))
	})
	t.Run("of no new template", func(t *testing.T) {
		t.Parallel()
		a := start(t, planWithoutTraffic())
		a.patchNamedDeployment(testEnv.controllerClient(t), name, held)
		a.eventually("the Deployment is restored", func(ctx context.Context) error {
			if a.isHeld(ctx) == nil {
				return errors.New("the workload is still held")
			}
			return a.isHealthy(ctx)
		})
		a.checkRestored(workloadTypeLabel)
	})
}

// hasEvent returns a check that the workload has an event that was counted this often.
func (a *app) hasEvent(reason string, times int32) func(context.Context) error {
	return func(ctx context.Context) error {
		var list corev1.EventList
		if err := testEnv.client.List(ctx, &list, client.InNamespace(a.namespace)); err != nil {
			return err
		}
		for i := range list.Items {
			e := &list.Items[i]
			if e.Reason == reason && e.InvolvedObject.Kind != "Rollout" && (times == 1 || e.Series != nil && e.Series.Count == times) {
				return nil
			}
		}
		return fmt.Errorf("no event %s among %d", reason, len(list.Items))
	}
}

// hasNoHoldRecords returns an error if Deployment or ReplicaSets have annotations of Weir.
func (a *app) hasNoHoldRecords(ctx context.Context) error {
	d, err := a.getDeployment(ctx)
	if err != nil {
		return err
	}
	sets, err := a.replicaSets(ctx)
	objects := []metav1.Object{d}
	for i := range sets {
		objects = append(objects, &sets[i])
	}
	for _, o := range objects {
		for _, marks := range []map[string]string{o.GetLabels(), o.GetAnnotations()} {
			for key := range marks {
				if strings.Contains(key, "kruise.io") {
					return fmt.Errorf("%s is left on %s", key, o.GetName())
				}
			}
		}
	}
	return err
}
