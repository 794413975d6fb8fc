// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// withShortDeadline sets a progress deadline of a few seconds, and maxUnavailable 0.
func withShortDeadline(p plan) plan {
	change, deadline := p.customizeRollout, int32(4)
	p.surge, p.unavailable = 1, 0
	p.customizeRollout = func(r *v1beta1.Rollout) {
		if change != nil {
			change(r)
		}
		if c := r.Spec.Strategy.Canary; c != nil {
			c.ProgressDeadlineSeconds = &deadline
		} else {
			r.Spec.Strategy.BlueGreen.ProgressDeadlineSeconds = &deadline
		}
	}
	return p
}

// defaultPlanWithExtraDeployment is a plan in the canary style.
func defaultPlanWithExtraDeployment() plan {
	p := defaultPlan()
	p.customizeRollout = func(r *v1beta1.Rollout) { r.Spec.Strategy.Canary.EnableExtraWorkloadForCanary = new(true) }
	return p
}

// hasStalledCondition returns a check that the condition Stalled has this reason and a message with
// these words. An empty reason means that the release is not stalled. kstatus must agree.
func (a *app) hasStalledCondition(reason string, words ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := a.getRollout(ctx)
		if err != nil {
			return err
		}
		var stalled, reconciling v1beta1.Condition
		for _, c := range r.Status.Conditions {
			switch c.Type {
			case "Stalled":
				stalled = c
			case "Reconciling":
				reconciling = c
			}
		}
		is := stalled.Status == metav1.ConditionTrue
		if is != (reason != "") || is && stalled.Reason != reason || is && reconciling.Status == metav1.ConditionTrue {
			return fmt.Errorf("Stalled should be %q: %+v, %+v", reason, stalled, reconciling)
		}
		for _, word := range words {
			if !strings.Contains(stalled.Message, word) {
				return fmt.Errorf("the message of the condition should contain %q: %s", word, stalled.Message)
			}
		}
		return nil
	}
}

// hasFailingCondition returns a check that the condition Failing has this reason and a message with these words. An
// empty reason means that the release does not fail.
func (a *app) hasFailingCondition(reason string, words ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := a.getRollout(ctx)
		if err != nil {
			return err
		}
		var failing v1beta1.Condition
		for _, c := range r.Status.Conditions {
			if c.Type == v1beta1.ConditionFailing {
				failing = c
			}
		}
		if failing.Reason != reason || (reason != "") != (failing.Status == metav1.ConditionTrue) {
			return fmt.Errorf("Failing should be %q: %+v", reason, failing)
		}
		for _, word := range words {
			if !strings.Contains(failing.Message, word) {
				return fmt.Errorf("the message of the condition should contain %q: %s", word, failing.Message)
			}
		}
		return nil
	}
}

// hasWarningEvent returns a check that there is one warning event with this reason.
func (a *app) hasWarningEvent(reason string) func(context.Context) error {
	return func(ctx context.Context) error {
		var all corev1.EventList
		if err := testEnv.client.List(ctx, &all, client.InNamespace(a.namespace)); err != nil {
			return err
		}
		n := 0
		for i := range all.Items {
			if e := &all.Items[i]; e.Reason == reason && e.Type == corev1.EventTypeWarning && e.InvolvedObject.Name == a.rollout {
				n += max(1, int(e.Count))
			}
		}
		if n != 1 {
			return fmt.Errorf("%d events %s", n, reason)
		}
		return nil
	}
}

// createPodQuota limits the number of pods in the namespace.
func (a *app) createPodQuota(pods int64) *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "small"}}
	q.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(pods, resource.DecimalSI)}
	a.create(q)
	a.eventually("the quota is in force", func(ctx context.Context) error {
		err := testEnv.client.Get(ctx, a.key(q.Name), q)
		if used := q.Status.Used[corev1.ResourcePods]; err == nil && used.Value() < int64(a.plan.replicas) {
			err = fmt.Errorf("%s pods are counted", used.String())
		}
		return err
	})
	return q
}

const exceeded = "ProgressDeadlineExceeded"

// TestProgressDeadline checks that the message and the printed table report at once why pods cannot
// be created or started. After the progress deadline the release is Stalled, until it makes
// progress again. The step is not passed meanwhile.
func TestProgressDeadline(t *testing.T) {
	t.Parallel()
	styles := map[string]plan{"partition": defaultPlan(), "canary": defaultPlanWithExtraDeployment(), "blue-green": blueGreenPlan()}
	for _, style := range selectCases(styles, "partition", "canary") {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			a := start(t, withShortDeadline(styles[style]))
			q := a.createPodQuota(6)
			a.checkPlanFinds("quota")
			a.release("v2")
			why := "new pods are refused: a pod is forbidden: exceeded quota: small"
			a.eventually("the message reports the reason", a.messageContains("upgrade workload to new version", why))
			testEnv.admin.kubectl(a, "get", "rollout", "web", "-o", "wide").mustSucceed("pods of step 1/", why)
			a.eventually("the release fails", a.hasFailingCondition("PodsRefused", why, "raise the quota", "abort or roll back"))
			a.eventually("a warning event is created", a.hasWarningEvent("ReleaseFailing"))
			testEnv.admin.kubectlWeir(a, 0, words("why web"), "exceeded quota: small", "raise the quota")
			a.eventually("the release is stalled", a.hasStalledCondition(exceeded, "no progress at deployment/web for more than ", why, "abort or roll back"))
			a.eventually("a warning event is created", a.hasWarningEvent(exceeded))
			a.guard.atMost("v2", 0)
			if err := testEnv.client.Delete(t.Context(), q); err != nil {
				t.Fatal(err)
			}
			a.guard.atMost("v2", a.plan.replicas)
			a.eventually("step 1 waits", a.messageContains("manually confirm"))
			a.checkNow(a.hasStalledCondition(""))
			a.checkNow(a.hasFailingCondition(""))
			a.consistently("waiting for approval is not stalled", a.hasStalledCondition(""))
		})
	}
}

// TestProgressDeadlineUnschedulable releases pods that no node can run, and then references a
// missing Service. Both are reported, and an abort ends the release.
func TestProgressDeadlineUnschedulable(t *testing.T) {
	t.Parallel()
	a := start(t, withShortDeadline(defaultPlan()))
	a.releaseOnNodes(`{"disk":"none"}`, "v2")
	a.eventually("the message reports the reason", a.messageContains("step(1/3)", "new pods: cannot be scheduled: 0/"))
	a.eventually("the release is stalled", a.hasStalledCondition(exceeded, "cannot be scheduled", "0 of 2 new pods are ready"))
	a.abort()
	a.checkAborted("v1")
	a.checkNow(a.hasStalledCondition("Aborted"))
	a.releaseOnNodes("null", "v1")
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.checkNow(a.hasStalledCondition(""))

	if err := testEnv.client.Delete(t.Context(), a.newServiceNamed()); err != nil {
		t.Fatal(err)
	}
	a.release("v3")
	a.eventually("the release is stalled", a.hasStalledCondition(exceeded, "no progress at service/web for more than ", "create it, or abort"))
	testEnv.admin.kubectl(a, "get", "rollout", "web", "-o", "wide").mustSucceed("the Services and routers of the plan: service/web does not exist")
	a.checkNow(a.runs(versions{"v1": 6}))
	a.create(a.newService())
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.checkNow(a.hasStalledCondition(""))
}

// releaseOnNodes changes the version, and the nodes on which the pods may run.
func (a *app) releaseOnNodes(nodes, version string) {
	a.t.Helper()
	if err := a.patchDeployment(fmt.Sprintf(`{"spec":{"template":{"spec":{"nodeSelector":%s,"containers":[{"name":"web","image":%q}]}}}}`,
		nodes, image(version))); err != nil {
		a.t.Fatal(err)
	}
}

func (a *app) newServiceNamed() *corev1.Service {
	s := a.newService()
	s.Namespace = a.namespace
	return s
}

// TestProgressDeadlineOfAbort aborts while the nodes of the stable pods do not report. The abort
// cannot complete, reports the reason, and completes when the nodes report again.
func TestProgressDeadlineOfAbort(t *testing.T) {
	t.Parallel()
	a := start(t, withShortDeadline(defaultPlan()))
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.guard.atLeast(0)
	a.setPodsReady("v1", corev1.ConditionFalse)
	a.post(testEnv.admin, "abort", "", 201)
	a.eventually("the message reports the reason", a.messageContains("being aborted", "stable pods: node ", "does not report"))
	a.eventually("the release is stalled", a.hasStalledCondition(exceeded, "being aborted", "does not report", "retry"))
	a.checkNow(a.hasProgressingReason("Aborting"))
	a.setPodsReady("v1", corev1.ConditionTrue)
	a.eventually("the release is aborted", a.isAborted)
	a.eventually("all pods run v1", a.runs(versions{"v1": 6}))
	a.checkNow(a.hasStalledCondition("Aborted"))
}

// setPodsReady writes the Ready condition of every pod of a version, as the node controller does
// when nodes are lost or return.
func (a *app) setPodsReady(version string, status corev1.ConditionStatus) {
	a.t.Helper()
	var pods corev1.PodList
	if err := testEnv.client.List(a.t.Context(), &pods, client.InNamespace(a.namespace)); err != nil {
		a.t.Fatal(err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if versionOf(&pod.Spec) != version {
			continue
		}
		base := pod.DeepCopy()
		for j := range pod.Status.Conditions {
			if c := &pod.Status.Conditions[j]; c.Type == corev1.PodReady {
				c.Status = status
			}
		}
		if err := testEnv.client.Status().Patch(a.t.Context(), pod, client.StrategicMergeFrom(base)); client.IgnoreNotFound(err) != nil {
			a.t.Fatal(err)
		}
	}
}
