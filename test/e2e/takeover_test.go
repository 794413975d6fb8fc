// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/test/cluster"
)

// TestTakeOver takes over releases that OpenKruise has begun. They continue where they are, with
// the same objects and pods, until their end. The custom resources stay unchanged, so that the user
// can go back to OpenKruise. This test does not run in parallel with others, which would read the
// API of the CRDs.
func TestTakeOver(t *testing.T) {
	c := switchToCRDs(t)
	defer c.restore()
	half, extra := c.partitionReleaseAtStep2(t), c.canaryReleaseAtStep1(t)
	routing := &v1alpha1.TrafficRouting{Spec: v1alpha1.TrafficRoutingSpec{
		ObjectRef: []v1alpha1.TrafficRoutingRef{{Service: name, Ingress: &v1alpha1.IngressRef{Name: name}}},
		Strategy:  v1alpha1.TrafficRoutingStrategy{Weight: new(int32(20))},
	}}
	routing.Name = "shared"
	half.create(routing)
	apps := []*app{half, extra}
	before := readTakeoverState(t, apps)

	twin := half.newRollout()
	twin.Name = "twin"
	half.create(twin)
	c.runImport(false, "in the way", "twin", "one Rollout")
	c.runImport(false, "--dry-run", "in the way", "twin")
	if err := testEnv.client.Delete(t.Context(), twin); err != nil {
		t.Fatal(err)
	}
	c.runImport(true, "--dry-run", "step 2 of 3, StepPaused", "step 1 of 2, StepPaused", "nothing was stored")
	c.runImport(true, "stored 5 objects", "kubectl patch apiservice v1beta1.rollouts.kruise.io")
	c.runImport(true, "stored 5 objects") // as after an interrupted import

	c.serveWeir()
	c.runImport(false, "--dry-run", "the API is not that of the CRDs")
	testEnv.startProcess(t, cluster.WeirController)
	half.eventually("step 2 waits", half.waitsAtStep(2))
	extra.eventually("step 1 waits", extra.waitsAtStep(1))
	half.eventually("the batch was taken over", half.batchTakenOver)
	extra.eventually("the batch was taken over", extra.batchTakenOver)
	before.checkUnchanged(t, readTakeoverState(t, apps))
	half.checkNow(half.hasCanaryWeight("50"))
	half.checkNow(half.serviceSelects(name, versions{"v1": 3}))
	half.checkNow(half.serviceSelects(name+"-canary", versions{"v2": 3}))

	half.promote(2)
	half.eventually("the Rollout is Healthy", half.isHealthy)
	half.awaitPods(versions{"v2": 6})
	half.checkRestored(workloadTypeLabel)

	extra.promote(1)
	extra.eventually("step 2 waits", extra.waitsAtStep(2))
	extra.checkNow(extra.hasExtraDeployment(3))
	extra.promote(2)
	extra.eventually("the Rollout is Healthy", extra.isHealthy)
	extra.eventually("the extra Deployment is gone", extra.hasExtraDeployment(0))
	extra.awaitPods(versions{"v2": 6})
	extra.checkRestored(workloadTypeLabel)

	c.serveCRDs()
	half.checkNow(half.waitsAtStep(2))
	extra.checkNow(extra.waitsAtStep(1))
	for _, a := range apps {
		if got := a.mustGetRollout(name).UID; got != before.uids[a] {
			t.Errorf("the custom resource of %s has uid %s, want %s", a.namespace, got, before.uids[a])
		}
	}
}

// batchTakenOver returns an error unless Weir's controller has observed the batch and reports it as
// ready.
func (a *app) batchTakenOver(ctx context.Context) error {
	b := &v1beta1.BatchRelease{}
	if err := testEnv.client.Get(ctx, a.key(name), b); err != nil {
		return err
	}
	if b.Status.ObservedReleasePlanHash == openKruisePlanHash || b.Status.CanaryStatus.BatchState != v1beta1.BatchReady {
		return fmt.Errorf("batch %d is %s", b.Status.CanaryStatus.CurrentBatch, b.Status.CanaryStatus.BatchState)
	}
	return nil
}

// takeoverState is the state that a takeover must not change.
type takeoverState struct {
	uids map[*app]types.UID
	pods map[types.UID]string
}

func readTakeoverState(t *testing.T, apps []*app) takeoverState {
	t.Helper()
	s := takeoverState{map[*app]types.UID{}, map[types.UID]string{}}
	for _, a := range apps {
		r := a.mustGetRollout(name)
		s.uids[a] = r.UID
		s.pods[r.UID] = fmt.Sprint(r.CreationTimestamp, r.Generation, r.Finalizers, r.Status.Canary.CurrentStepIndex, r.Status.Canary.State, r.Status.Canary.LastUpdateTime)
		var pods corev1.PodList
		if err := testEnv.client.List(t.Context(), &pods, client.InNamespace(a.namespace)); err != nil {
			t.Fatal(err)
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			// Pods may be labelled with their batch meanwhile.
			maps.DeleteFunc(pod.Labels, func(k, _ string) bool {
				return strings.HasPrefix(k, "rollouts.kruise.io/") || k == appsv1.ControllerRevisionHashLabelKey
			})
			s.pods[pod.UID] = pod.Name + fmt.Sprint(pod.Labels)
		}
	}
	return s
}

func (s takeoverState) checkUnchanged(t *testing.T, now takeoverState) {
	t.Helper()
	if !maps.Equal(s.uids, now.uids) || !maps.Equal(s.pods, now.pods) {
		t.Errorf("the takeover changed something:\n%v\n%v", s, now)
	}
}

// runImport runs the import. Words with dashes are arguments; all other words must be in the
// output.
func (c *crdInstallation) runImport(works bool, words ...string) {
	c.t.Helper()
	runWeirCommand(c.t, works, append([]string{"import", "--data-dir=" + testEnv.cluster.WeirData()}, words...)...)
}

// runWeirCommand runs a command of weir-apiserver as the administrator. Words without dashes must
// be in the output.
func runWeirCommand(t *testing.T, works bool, words ...string) {
	t.Helper()
	args, want := []string{words[0], "--kubeconfig=" + testEnv.cluster.Kubeconfig()}, []string(nil)
	for _, word := range words[1:] {
		if strings.HasPrefix(word, "--") {
			args = append(args, word)
		} else {
			want = append(want, word)
		}
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(testEnv.cluster.WeirBin(), cluster.WeirAPIServer), args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if (err == nil) != works {
		t.Fatalf("%s: %v, want success: %t\n%s", words[0], err, works, out.String())
	}
	result{t: t, line: words[0], out: out.String()}.mustContain(want)
}
