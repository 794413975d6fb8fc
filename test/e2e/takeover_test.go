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

// Releases that OpenKruise has begun go on where they are: the same objects, the
// same pods, the next approval, the end. After that the custom resources are
// still what they were, should somebody want to go back. This test does not run
// beside others, which would see the API of the CRDs.
func TestTakeOver(t *testing.T) {
	c := servedByCRDs(t)
	defer c.restore()
	half, extra := c.halfWay(t), c.withExtra(t)
	routing := &v1alpha1.TrafficRouting{Spec: v1alpha1.TrafficRoutingSpec{
		ObjectRef: []v1alpha1.TrafficRoutingRef{{Service: name, Ingress: &v1alpha1.IngressRef{Name: name}}},
		Strategy:  v1alpha1.TrafficRoutingStrategy{Weight: new(int32(20))},
	}}
	routing.Name = "shared"
	half.create(routing)
	apps := []*app{half, extra}
	before := look(t, apps)

	twin := half.newRollout()
	twin.Name = "twin"
	half.create(twin)
	c.imports(false, "in the way", "twin", "one Rollout")
	c.imports(false, "--dry-run", "in the way", "twin")
	if err := here.client.Delete(t.Context(), twin); err != nil {
		t.Fatal(err)
	}
	c.imports(true, "--dry-run", "step 2 of 3, StepPaused", "step 1 of 2, StepPaused", "nothing was stored")
	c.imports(true, "stored 5 objects", "kubectl patch apiservice v1beta1.rollouts.kruise.io")
	c.imports(true, "stored 5 objects") // as after one that was interrupted

	c.serveWeir()
	c.imports(false, "--dry-run", "the API is not that of the CRDs")
	here.as(t, cluster.WeirController)
	half.until("step 2 waits", half.waitsAt(2))
	extra.until("step 1 waits", extra.waitsAt(1))
	half.until("its batch was taken over", half.batchTakenOver)
	extra.until("its batch was taken over", extra.batchTakenOver)
	before.same(t, look(t, apps))
	half.sees(half.weight("50"))
	half.sees(half.serves(name, versions{"v1": 3}))
	half.sees(half.serves(name+"-canary", versions{"v2": 3}))

	half.promote(2)
	half.until("the Rollout is Healthy", half.healthy)
	half.settled(versions{"v2": 6})
	half.traceless(workloadType)

	extra.promote(1)
	extra.until("step 2 waits", extra.waitsAt(2))
	extra.sees(extra.extra(3))
	extra.promote(2)
	extra.until("the Rollout is Healthy", extra.healthy)
	extra.until("the extra Deployment is gone", extra.extra(0))
	extra.settled(versions{"v2": 6})
	extra.traceless(workloadType)

	c.serveCRDs()
	half.sees(half.waitsAt(2))
	extra.sees(extra.waitsAt(1))
	for _, a := range apps {
		if got := a.fetch(name).UID; got != before.uids[a] {
			t.Errorf("the custom resource of %s has uid %s, want %s", a.namespace, got, before.uids[a])
		}
	}
}

// batchTakenOver wants Weir's controller to have seen the batch, and to find it ready.
func (a *app) batchTakenOver(ctx context.Context) error {
	b := &v1beta1.BatchRelease{}
	if err := here.client.Get(ctx, a.key(name), b); err != nil {
		return err
	}
	if b.Status.ObservedReleasePlanHash == theirHash || b.Status.CanaryStatus.BatchState != v1beta1.BatchReady {
		return fmt.Errorf("batch %d is %s", b.Status.CanaryStatus.CurrentBatch, b.Status.CanaryStatus.BatchState)
	}
	return nil
}

// seen is what a takeover must not change.
type seen struct {
	uids map[*app]types.UID
	pods map[types.UID]string
}

func look(t *testing.T, apps []*app) seen {
	t.Helper()
	s := seen{map[*app]types.UID{}, map[types.UID]string{}}
	for _, a := range apps {
		r := a.fetch(name)
		s.uids[a] = r.UID
		s.pods[r.UID] = fmt.Sprint(r.CreationTimestamp, r.Generation, r.Finalizers, r.Status.Canary.CurrentStepIndex, r.Status.Canary.State, r.Status.Canary.LastUpdateTime)
		var pods corev1.PodList
		if err := here.client.List(t.Context(), &pods, client.InNamespace(a.namespace)); err != nil {
			t.Fatal(err)
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			// The batch of a pod may be noted as it goes on.
			maps.DeleteFunc(pod.Labels, func(k, _ string) bool {
				return strings.HasPrefix(k, "rollouts.kruise.io/") || k == appsv1.ControllerRevisionHashLabelKey
			})
			s.pods[pod.UID] = pod.Name + fmt.Sprint(pod.Labels)
		}
	}
	return s
}

func (s seen) same(t *testing.T, now seen) {
	t.Helper()
	if !maps.Equal(s.uids, now.uids) || !maps.Equal(s.pods, now.pods) {
		t.Errorf("the takeover changed something:\n%v\n%v", s, now)
	}
}

// imports runs the command, and wants these words of it. Those with dashes are arguments.
func (c *crds) imports(works bool, words ...string) {
	c.t.Helper()
	command(c.t, works, append([]string{"import", "--data-dir=" + here.cluster.WeirData()}, words...)...)
}

// command runs one of weir-apiserver as the administrator. Words that are no
// flags are wanted in what it says.
func command(t *testing.T, works bool, words ...string) {
	t.Helper()
	args, want := []string{words[0], "--kubeconfig=" + here.cluster.Kubeconfig()}, []string(nil)
	for _, word := range words[1:] {
		if strings.HasPrefix(word, "--") {
			args = append(args, word)
		} else {
			want = append(want, word)
		}
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(here.cluster.WeirBin(), cluster.WeirAPIServer), args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if (err == nil) != works {
		t.Fatalf("%s: %v, want it to work: %t\n%s", words[0], err, works, out.String())
	}
	result{t: t, line: words[0], out: out.String()}.has(want)
}
