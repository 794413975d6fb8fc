// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// listFrom returns options for a watch that begins where a list ended.
func listFrom(resourceVersion string) *metav1.ListOptions {
	return &metav1.ListOptions{ResourceVersion: resourceVersion}
}

// startPausedAtStep1 starts a release of v2 and waits until its first step is paused.
func startPausedAtStep1(t *testing.T) *app {
	t.Helper()
	a := start(t, planWithoutTraffic())
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	return a
}

// release changes the image of the Deployment, as a user's pipeline does.
func (a *app) release(version string) {
	a.t.Helper()
	if err := a.patchDeployment(fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":%q,"image":%q}]}}}}`, name, image(version))); err != nil {
		a.t.Fatal(err)
	}
}

func (a *app) patchDeployment(body string) error {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: name}}
	return testEnv.client.Patch(a.t.Context(), d, client.RawPatch(types.StrategicMergePatchType, []byte(body)))
}

// scale changes the replicas of the Deployment. New pods are not ready yet, so the guard requires
// the pods of the smaller size until awaitPods is called.
func (a *app) scale(replicas int32) {
	a.t.Helper()
	a.guard.atLeast(max(0, min(replicas, a.plan.replicas)-a.plan.unavailable))
	if err := a.patchDeployment(fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)); err != nil {
		a.t.Fatal(err)
	}
	a.plan.replicas = replicas
}

// awaitPods waits until exactly these pods run, and lets the guard require all of them from then
// on.
func (a *app) awaitPods(want versions) {
	a.t.Helper()
	a.eventually(fmt.Sprintf("the pods %v run", want), a.runs(want))
	a.eventually("there are no surplus pods", a.hasNoSurplusPods)
	a.guard.atLeast(a.plan.replicas - a.plan.unavailable)
}

// hasNoSurplusPods returns an error if there are more pods than replicas. The pods of a deleted
// ReplicaSet are deleted a little later than the ReplicaSet.
func (a *app) hasNoSurplusPods(ctx context.Context) error {
	var pods corev1.PodList
	err := testEnv.client.List(ctx, &pods, client.InNamespace(a.namespace))
	if n := len(pods.Items); err == nil && n > int(a.plan.replicas) {
		err = fmt.Errorf("there are %d pods", n)
	}
	return err
}

// patchRollout applies a merge patch to the Rollout.
func (a *app) patchRollout(body string) {
	a.t.Helper()
	r := &v1beta1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: a.rollout}}
	if err := testEnv.client.Patch(a.t.Context(), r, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
		a.t.Fatal(err)
	}
}

// post sends a verb, and fails the test unless the answer has this code and its message contains
// the words.
func (a *app) post(u *user, verb, body string, want int, words ...string) {
	a.t.Helper()
	got, err := u.post(a.t.Context(), a, verb, body)
	if err != nil {
		a.t.Fatal(err)
	}
	if got.code != want {
		a.t.Fatalf("%s by %s: got %s, want %d", verb, u.name, got, want)
	}
	for _, word := range words {
		if !strings.Contains(got.message, word) {
			a.t.Fatalf("%s by %s: got %s, want a message with %q", verb, u.name, got, word)
		}
	}
}

// promote approves a step that is paused.
func (a *app) promote(step int32) {
	a.t.Helper()
	a.post(testEnv.admin, "promote", expectStep(step), http.StatusCreated)
}

func expectStep(step int32) string { return fmt.Sprintf(`{"expect":{"step":%d}}`, step) }

// promoteAll approves all remaining steps.
func (a *app) promoteAll() {
	a.t.Helper()
	a.post(testEnv.admin, "promote", `{"full":true}`, http.StatusCreated)
}

// abort aborts the release, and waits until the abort has completed.
func (a *app) abort() {
	a.t.Helper()
	a.post(testEnv.admin, "abort", "", http.StatusCreated)
	a.eventually("the release is aborted", a.isAborted)
}

// checkAborted checks the state after an abort: all pods run the stable version, all traffic goes
// to the stable Service, and the Deployment is still held.
func (a *app) checkAborted(stable string) {
	a.t.Helper()
	all := versions{stable: a.plan.replicas}
	a.eventually("all pods run "+stable, a.runs(all))
	a.checkNow(a.isHeld)
	a.checkNow(a.hasCanaryWeight(""))
	if a.plan.withTraffic {
		a.checkNow(a.serviceSelects(name, all))
	}
	d, err := a.getDeployment(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	a.checkEqual("the strategy", a.before.deployment.Spec.Strategy, d.Spec.Strategy)
}

// cancel sets the template of the stable version again, which ends an aborted release.
func (a *app) cancel(stable string) {
	a.t.Helper()
	a.release(stable)
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.eventually("all pods of the stable version run", a.runs(versions{stable: a.plan.replicas}))
	a.checkRestored(workloadTypeLabel)
}

// decisions returns the recorded decisions, each as "verb step user outcome".
func (a *app) decisions(ctx context.Context) ([]string, error) {
	r, err := a.getRollout(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, d := range r.Status.Decisions {
		out = append(out, fmt.Sprintf("%s %d %s %s", d.Verb, d.Step, d.User, d.Outcome))
	}
	return out, nil
}

// hasDecisions returns a check that exactly these decisions are recorded.
func (a *app) hasDecisions(want ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		got, err := a.decisions(ctx)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("recorded decisions %q, want %q", got, want)
		}
		return err
	}
}

// logState logs the state of the application after a failed test.
func (a *app) logState(ctx context.Context) {
	r, err := a.getRollout(ctx)
	a.t.Logf("Rollout: %s (%v)", describe(r), err)
	for _, d := range r.Status.Decisions {
		a.t.Logf("  decision %d: %s of step %d by %s via %s: %s", d.ID, d.Verb, d.Step, d.User, d.Via, d.Outcome)
	}
	d, err := a.getDeployment(ctx)
	a.t.Logf("Deployment: paused %t, %s, annotations %v (%v)", d.Spec.Paused, d.Spec.Strategy.Type, d.Annotations, err)
	sets, err := a.replicaSets(ctx)
	if err != nil {
		a.t.Log(err)
	}
	for i := range sets {
		rs := &sets[i]
		a.t.Logf("  %s of %s: %d wanted, %d there, %d ready, %v", rs.Name, versionOf(&rs.Spec.Template.Spec),
			*rs.Spec.Replicas, rs.Status.Replicas, rs.Status.ReadyReplicas, rs.Annotations)
	}
}
