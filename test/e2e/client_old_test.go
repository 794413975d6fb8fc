// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// put reads an object into a struct, changes it and writes it, and retries after a conflict, as
// clients with controller-runtime do.
func put[T any](a *app, u *user, path, subresource string, change func(*T)) {
	a.t.Helper()
	a.eventually("the object is written", func(context.Context) error {
		o := decode[T](u.send(a.t, request{method: "GET", path: path}).mustAnswer(200))
		change(&o)
		answer := u.send(a.t, request{method: "PUT", path: path + subresource, body: o})
		if answer.code == http.StatusConflict && strings.Contains(string(answer.body), "has been modified") {
			return errors.New(string(answer.body))
		}
		answer.mustAnswer(200)
		return nil
	})
}

// planWithNewFields is a plan with fields that old client structs do not have.
func planWithNewFields() plan {
	p := planWithoutTraffic()
	p.customizeRollout = func(r *v1beta1.Rollout) {
		c := r.Spec.Strategy.Canary
		c.PatchPodTemplateMetadata = &v1beta1.PodTemplateMetadata{Labels: map[string]string{"canary": "yes"}}
		c.DisableGenerateCanaryService = new(true)
	}
	return p
}

// TestClientKubeVela suspends, resumes and approves with the structs that KubeVela was built with.
// Fields that these structs do not have are preserved.
func TestClientKubeVela(t *testing.T) {
	t.Parallel()
	a := start(t, planWithNewFields())
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.writeForeignCondition(testEnv.admin)
	before := a.mustGetRollout("web")
	suspend := func(u *user, paused bool) {
		put(a, u, a.rolloutPath(oldVersion, "web"), "", func(r *rollout030) {
			if r.Status.Phase != "Progressing" {
				t.Fatalf("phase %s", r.Status.Phase)
			}
			r.Spec.Strategy.Paused = paused
		})
	}
	approve := func(u *user) {
		put(a, u, a.rolloutPath(oldVersion, "web"), "/status", func(r *rollout030) {
			if r.Status.Canary.CurrentStepState != "StepPaused" {
				t.Fatalf("state %s", r.Status.Canary.CurrentStepState)
			}
			r.Status.Canary.CurrentStepState = "StepReady"
		})
	}
	suspend(testEnv.admin, true)
	a.eventually("the release is paused", a.hasProgressingReason("Paused"))
	paused := a.mustGetRollout("web")
	if p := paused.Spec.Strategy.Paused; p == nil || !*p {
		t.Error("the Rollout is not paused")
	}
	suspend(testEnv.admin, false)
	a.eventually("the release continues", a.hasProgressingReason("InRolling"))
	after := a.mustGetRollout("web")
	a.checkEqual("the spec", before.Spec, after.Spec)
	delete(after.Annotations, "rollouts.kruise.io/rolling-style") // the style in v1alpha1
	a.checkEqual("the annotations", before.Annotations, after.Annotations)
	a.checkEqual("the progress", before.Status.Canary, after.Status.Canary)
	a.checkConditions(after, "KuberikBakeHealthy")

	approve(a.userWithClusterRole("alice", "weir-promoter"))
	a.eventually("step 2 waits", a.waitsAtStep(2))
	approve(testEnv.admin)
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.checkNow(a.hasDecisions("promote 1 alice applied", "promote 2 admin applied"))
	a.checkConditions(a.mustGetRollout("web"), "KuberikBakeHealthy")
}

// writeForeignCondition adds a condition of another writer to the status.
func (a *app) writeForeignCondition(u *user) {
	a.t.Helper()
	u.send(a.t, request{
		method: "PATCH", path: a.rolloutPath(newVersion, "web") + "/status", contentType: jsonPatch,
		body: `[{"op":"add","path":"/status/conditions/-","value":` + foreignCondition + `}]`,
	}).mustAnswer(200)
}

// TestClientOldStatus writes the status with old structs, also as an administrator. Fields that the
// structs do not have are preserved.
func TestClientOldStatus(t *testing.T) {
	t.Parallel()
	a := start(t, planWithoutTraffic())
	writer := a.newStatusWriter()
	a.release("failed")
	a.eventually("step 1 upgrades", a.isAtStage(1, "StepUpgrade"))
	a.promoteAll()
	a.writeForeignCondition(writer)
	a.eventually("nothing moves", a.messageContains("ImagePull"))
	a.eventually("the pods are counted", func(ctx context.Context) error {
		r, err := a.getRollout(ctx)
		if err == nil && r.Status.Canary.CanaryReplicas == 0 {
			err = errors.New("no pod is counted")
		}
		return err
	})
	before := a.mustGetRollout("web")
	if !before.Status.Canary.FullyPromoted || len(before.Status.Decisions) != 1 {
		t.Fatalf("%+v", before.Status)
	}
	for _, u := range []*user{writer, testEnv.admin} {
		put(a, u, a.rolloutPath(oldVersion, "web"), "/status", func(*rollout030) {})
		a.checkStatusUnchanged(u.name+" with 0.3.0", before)
		put(a, u, a.rolloutPath(newVersion, "web"), "/status", func(*rollout060) {})
		a.checkStatusUnchanged(u.name+" with 0.6.0", before)
	}
	a.abort()
	a.cancel("v1")
}

// checkStatusUnchanged checks that the status is as before, except for fields that the controllers
// update.
func (a *app) checkStatusUnchanged(after string, before *v1beta1.Rollout) {
	a.t.Helper()
	free := cmp.Options{
		cmpopts.IgnoreFields(v1beta1.Condition{}, "LastUpdateTime", "Message"),
		cmpopts.IgnoreFields(v1beta1.RolloutStatus{}, "Message"),
		cmpopts.IgnoreFields(v1beta1.Progress{}, "Message", "ObservedWorkloadGeneration"),
	}
	if diff := cmp.Diff(before.Status, a.mustGetRollout("web").Status, free); diff != "" {
		a.t.Errorf("after %s: the status (-before +after):\n%s", after, diff)
	}
}

// TestClientErda approves by writing the whole status, and rolls back with the template of the
// ReplicaSet that the status names as stable, as Erda does.
func TestClientErda(t *testing.T) {
	t.Parallel()
	a := start(t, defaultPlan())
	c, err := dynamic.NewForConfig(withoutWarnings(testEnv.cluster.Config()))
	if err != nil {
		t.Fatal(err)
	}
	of := c.Resource(rollouts).Namespace(a.namespace)
	began := time.Now().Truncate(time.Second)
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	r, err := of.Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	entered := text(t, r, "status", "canaryStatus", "lastUpdateTime")
	if at, err := time.Parse(time.RFC3339, entered); err != nil || at.Before(began) || at.After(planner.RoundUp(time.Now()).Time) {
		t.Errorf("the state was entered at %s (%v), not between %s and %s", entered, err, began, time.Now())
	}
	if err := unstructured.SetNestedField(r.Object, "StepReady", "status", "canaryStatus", "currentStepState"); err != nil {
		t.Fatal(err)
	}
	if _, err := of.UpdateStatus(t.Context(), r, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	a.eventually("step 2 waits", a.waitsAtStep(2))
	a.checkNow(a.hasDecisions("promote 1 admin applied"))

	r, err = of.Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stable := text(t, r, "status", "canaryStatus", "stableRevision")
	sets, err := a.replicaSets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a.eventually("the earlier template is set", func(ctx context.Context) error {
		d, err := a.getDeployment(ctx)
		if err != nil {
			return err
		}
		for i := range sets {
			if sets[i].Labels["pod-template-hash"] == stable {
				d.Spec.Template = *sets[i].Spec.Template.DeepCopy()
				delete(d.Spec.Template.Labels, "pod-template-hash")
				return testEnv.client.Update(ctx, d)
			}
		}
		return fmt.Errorf("no ReplicaSet has the hash %s", stable)
	})
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.checkNow(a.messageContains("cancel"))
	a.eventually("the stable pods run", a.runs(versions{"v1": 6}))
	a.checkRestored(workloadTypeLabel)
}

// withoutWarnings returns a configuration that ignores warnings.
func withoutWarnings(config *rest.Config) *rest.Config {
	config.WarningHandler = rest.NoWarnings{}
	return config
}

func text(t *testing.T, o *unstructured.Unstructured, path ...string) string {
	t.Helper()
	s, _, err := unstructured.NestedString(o.Object, path...)
	if err != nil || s == "" {
		t.Fatalf("%s is %q (%v)", strings.Join(path, "."), s, err)
	}
	return s
}

// TestClientKuberik does what Kuberik's gate and dashboard do: it keeps notes in annotations,
// stalls a release with its own condition, resumes it, and approves a step.
func TestClientKuberik(t *testing.T) {
	t.Parallel()
	a := start(t, planWithoutTraffic())
	gate := a.newStatusWriter()
	dashboard := a.userWithClusterRole("dashboard", "weir-promoter")
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	hash := a.mustGetRollout("web").Status.Canary.RolloutHash
	put(a, gate, a.rolloutPath(newVersion, "web"), "", func(r *rollout060) {
		r.Annotations["internal.rollout.kuberik.io/step-1-started-at"] = "2026-01-05T10:00:00Z"
	})
	say := func(kind, status, reason string) {
		t.Helper()
		put(a, gate, a.rolloutPath(newVersion, "web"), "/status", func(r *rollout060) {
			c := condition06{Type: kind, Status: status, Reason: reason, Message: "m", LastUpdateTime: metav1.Now(), LastTransitionTime: metav1.Now()}
			for i := range r.Status.Conditions {
				if r.Status.Conditions[i].Type == kind {
					r.Status.Conditions[i] = c
					return
				}
			}
			r.Status.Conditions = append(r.Status.Conditions, c)
		})
	}
	say("KuberikBakeHealthy", "False", "BakeFailed")
	a.eventually("tools see a release in progress", a.hasKstatus("InProgress"))
	say("Stalled", "True", "StepReadyTimeoutExceeded")
	a.eventually("tools see a failed release", a.hasKstatus("Failed"))
	a.consistently("the step still waits", a.waitsAtStep(1))
	say("Stalled", "False", "StepReadyTimeoutExceeded")
	a.eventually("tools see a release in progress", a.hasKstatus("InProgress"))

	patch := request{
		method: "PATCH", path: a.rolloutPath(newVersion, "web") + "/status?fieldManager=rollout-dashboard", contentType: mergePatch,
		body: `{"status":{"canaryStatus":{"currentStepState":"StepReady"}}}`,
	}
	gate.send(t, patch).mustAnswer(http.StatusForbidden, "rollouts/promote")
	dashboard.send(t, patch).mustAnswer(200, "StepReady", `"spec":`)
	a.eventually("step 2 waits", a.waitsAtStep(2))
	r := a.mustGetRollout("web")
	a.checkConditions(r, "KuberikBakeHealthy", "Stalled", "Progressing")
	if r.Annotations["internal.rollout.kuberik.io/step-1-started-at"] == "" || r.Status.Canary.RolloutHash != hash || r.Generation != 1 {
		t.Errorf("annotations %v, plan %s (was %s), generation %d", r.Annotations, r.Status.Canary.RolloutHash, hash, r.Generation)
	}
	// Or the gate approves with a pause of zero seconds.
	over := func(r *rollout060) {
		steps, _, err := unstructured.NestedSlice(r.Spec, "strategy", "canary", "steps")
		if err != nil {
			t.Fatal(err)
		}
		steps[1].(map[string]any)["pause"] = map[string]any{"duration": int64(0)}
		if err := unstructured.SetNestedSlice(r.Spec, steps, "strategy", "canary", "steps"); err != nil {
			t.Fatal(err)
		}
	}
	refused := decode[rollout060](gate.send(t, request{method: "GET", path: a.rolloutPath(newVersion, "web")}).mustAnswer(200))
	over(&refused)
	gate.send(t, request{method: "PUT", path: a.rolloutPath(newVersion, "web"), body: refused}).mustAnswer(http.StatusForbidden, "rollouts/promote")
	put(a, testEnv.admin, a.rolloutPath(newVersion, "web"), "", over)
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.checkNow(a.hasDecisions("promote 1 dashboard applied", "promote 2 admin applied"))
	a.eventually("tools see it as current", a.hasKstatus("Current"))
	a.checkConditions(a.mustGetRollout("web"), "KuberikBakeHealthy")
}

// hasKstatus returns a check of the status that kstatus computes: kstatus compares generations
// first, then uses the first of two conditions that is true.
func (a *app) hasKstatus(want string) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := a.getRollout(ctx)
		if err != nil {
			return err
		}
		if got := kstatus(r); got != want {
			return fmt.Errorf("the status is %s: %v", got, r.Status.Conditions)
		}
		return nil
	}
}

func kstatus(r *v1beta1.Rollout) string {
	switch {
	case r.DeletionTimestamp != nil:
		return "Terminating"
	case r.Status.ObservedGeneration != 0 && r.Status.ObservedGeneration != r.Generation:
		return "InProgress"
	}
	for _, c := range r.Status.Conditions {
		switch {
		case c.Status != metav1.ConditionTrue:
		case c.Type == "Reconciling":
			return "InProgress"
		case c.Type == "Stalled":
			return "Failed"
		}
	}
	return "Current"
}

// TestClientApprovesOnce sends twenty approvals as concurrent status writes. They advance the
// release by one step, because all writes after the first one conflict.
func TestClientApprovesOnce(t *testing.T) {
	t.Parallel()
	a := start(t, planWithoutTraffic())
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	version := a.mustGetRollout("web").ResourceVersion
	codes := map[int]int{}
	for _, got := range concurrently(t, 20, func(int) (answer, error) {
		answered := testEnv.admin.send(t, request{
			method: "PATCH", path: a.rolloutPath(newVersion, "web") + "/status", contentType: mergePatch,
			body: `{"metadata":{"resourceVersion":"` + version + `"},"status":{"canaryStatus":{"currentStepState":"StepReady"}}}`,
		})
		return answer{code: answered.code}, nil
	}) {
		codes[got.code]++
	}
	if codes[http.StatusOK] != 1 || codes[http.StatusConflict] != 19 {
		t.Errorf("got %v, want one 200 and nineteen 409", codes)
	}
	a.eventually("step 2 waits", a.waitsAtStep(2))
	a.consistently("step 2 was not approved", a.waitsAtStep(2))
	a.checkNow(a.hasDecisions("promote 1 admin applied"))
}
