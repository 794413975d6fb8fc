// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/test/cluster"
)

// TestRestore deletes all data of weir-apiserver during a release, and restores a snapshot that was
// taken while it ran. The controller keeps running. The release continues from the snapshot, with
// the same UID and all its decisions, and no step passes without approval.
func TestRestore(t *testing.T) {
	p := defaultPlan()
	p.steps = append(p.steps[:2:2], withTraffic(manualStep("4"), "60%"), p.steps[2])
	cases := map[string]struct {
		// approved is the last step that was approved between the snapshot and the loss.
		approved int32
		// pods are those when step 2 pauses again.
		pods versions
	}{
		"nothing happened": {1, versions{"v1": 3, "v2": 3}},
		// Steps that were approved after the snapshot need another approval. Pods that were updated stay.
		"a step was approved": {2, versions{"v1": 2, "v2": 4}},
	}
	for _, c := range selectCases(cases, "nothing happened") {
		t.Run(c, func(t *testing.T) {
			a := start(t, p)
			a.release("v2")
			a.eventually("step 1 waits", a.waitsAtStep(1))
			a.approveSteps(1, 1)
			before, err := a.getRollout(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			a.deleteOtherObjects() // otherwise the snapshot would contain objects that are being deleted
			snapshot := filepath.Join(t.TempDir(), "weir.db")
			a.runSnapshotCommand("snapshot", snapshot)
			a.approveSteps(2, cases[c].approved)
			a.replaceStore(snapshot)

			after, err := a.getRollout(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if after.UID != before.UID {
				t.Errorf("the uid was %s and is %s", before.UID, after.UID)
			}
			a.eventually("step 2 waits", a.waitsAtStep(2))
			a.eventually("the pods are the same as before", a.runs(cases[c].pods))
			a.checkNow(a.hasDecisions("promote 1 admin applied"))
			a.approveSteps(2, 2)
			a.checkNow(a.hasDecisions("promote 1 admin applied", "promote 2 admin applied"))
			a.promote(3)
			a.eventually("the Rollout is Healthy", a.released("v2"))
			a.checkNow(a.hasDecisions("promote 1 admin applied", "promote 2 admin applied", "promote 3 admin applied"))
			a.checkRestored(workloadTypeLabel)
		})
	}
}

// TestDataLost deletes all data of weir-apiserver during a release, without a snapshot. The
// workload stays held: no further pod gets the new template, and the stable pods serve. A recreated
// Rollout is paused. Resuming it continues with step 1; deleting it releases the template.
func TestDataLost(t *testing.T) {
	apps := map[string]*app{}
	for _, style := range selectCases(styles, "partition") {
		a := start(t, styles[style]())
		a.release("v2")
		a.eventually("step 1 waits", a.waitsInAnyStyle(1))
		apps[style] = a
	}
	released := start(t, defaultPlan())
	released.release("v2")
	released.eventually("step 1 waits", released.waitsAtStep(1))
	for _, a := range append(slices.Collect(maps.Values(apps)), released) {
		a.guard.atMost("v2", a.countPodsOf("v2"))
	}
	if err := errors.Join(testEnv.cluster.Kill(cluster.WeirAPIServer), os.RemoveAll(testEnv.cluster.WeirData()), testEnv.cluster.Start(cluster.WeirAPIServer)); err != nil {
		t.Fatal(err)
	}
	for _, a := range append(slices.Collect(maps.Values(apps)), released) {
		a.eventually("an event reports it", a.hasEvent("RolloutLost", 1))
		a.checkNow(a.hasHoldRecords)
	}
	released.eventually("the doctor finds it", testEnv.doctorFinds("held", "Deployment "+released.namespace+"/web is held, but its Rollout", "create the Rollout again"))
	for _, a := range apps {
		a.recreateRollout()
		a.eventually("step 1 waits", a.waitsInAnyStyle(1))
		a.guard.atMost("v2", 12)
		a.promoteAll()
		a.eventually("the Rollout is Healthy", a.isHealthy)
		a.awaitPods(versions{"v2": 6})
	}
	released.checkNow(released.hasHoldRecords)
	released.recreateRollout()
	released.eventually("step 1 waits", released.waitsAtStep(1))
	released.guard.atMost("v2", 12)
	testEnv.admin.kubectl(released, "delete", "rollout", name).mustSucceed()
	released.eventually("the workload is restored", released.hasNoHoldRecords)
	released.awaitPods(versions{"v2": 6})
}

// recreateRollout creates a Rollout that was lost during its release, once the garbage collector
// has deleted the objects that it owned, and resumes it.
func (a *app) recreateRollout() {
	a.t.Helper()
	a.eventually("the canary Service is collected", a.isGone(&corev1.Service{}, name+"-canary"))
	a.eventually("the canary Ingress is collected", a.isGone(&networkingv1.Ingress{}, name+"-canary"))
	a.create(a.newRollout())
	a.eventually("the release is paused", func(ctx context.Context) error {
		r, err := a.getRollout(ctx)
		if err == nil && reason(r) != "Paused" {
			err = fmt.Errorf("the Rollout is %s %s", r.Status.Phase, reason(r))
		}
		return err
	})
	a.post(testEnv.admin, "resume", "", http.StatusCreated)
}

// countPodsOf counts the pods of a version.
func (a *app) countPodsOf(version string) (n int32) {
	a.t.Helper()
	var pods corev1.PodList
	if err := testEnv.client.List(a.t.Context(), &pods, client.InNamespace(a.namespace)); err != nil {
		a.t.Fatal(err)
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; p.DeletionTimestamp == nil && versionOf(&p.Spec) == version {
			n++
		}
	}
	return n
}

// approveSteps approves steps one by one, each once it is paused, until the next step is paused.
func (a *app) approveSteps(from, to int32) {
	a.t.Helper()
	for step := from; step <= to; step++ {
		a.promote(step)
		a.eventually(fmt.Sprintf("step %d waits", step+1), a.waitsAtStep(step+1))
	}
}

// runSnapshotCommand runs a command of weir-apiserver on the data of the cluster.
func (a *app) runSnapshotCommand(command, file string) {
	a.t.Helper()
	program := filepath.Join(testEnv.cluster.WeirBin(), cluster.WeirAPIServer)
	out, err := exec.CommandContext(a.t.Context(), program, command, file, "--data-dir", testEnv.cluster.WeirData()).CombinedOutput()
	if err != nil {
		a.t.Fatalf("%s: %v: %s", command, err, out)
	}
}

// replaceStore deletes all data of weir-apiserver and restores a snapshot.
func (a *app) replaceStore(snapshot string) {
	a.t.Helper()
	err := errors.Join(testEnv.cluster.Kill(cluster.WeirAPIServer), os.RemoveAll(testEnv.cluster.WeirData()))
	if err != nil {
		a.t.Fatal(err)
	}
	a.runSnapshotCommand("restore", snapshot)
	if err := testEnv.cluster.Start(cluster.WeirAPIServer); err != nil {
		a.t.Fatal(err)
	}
}
