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

// hasty has a deadline of a few seconds, and no pod to spare.
func hasty(p plan) plan {
	change, deadline := p.change, int32(4)
	p.surge, p.unavailable = 1, 0
	p.change = func(r *v1beta1.Rollout) {
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

// extra is a plan in the canary style.
func extra() plan {
	p := usual()
	p.change = func(r *v1beta1.Rollout) { r.Spec.Strategy.Canary.EnableExtraWorkloadForCanary = new(true) }
	return p
}

// stalled wants the condition to have this reason, and its message these words;
// an empty reason means that nothing is stalled. Tools that follow kstatus see
// the same.
func (a *app) stalled(reason string, words ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := a.stored(ctx)
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
			return fmt.Errorf("stalled should be %q: %+v, %+v", reason, stalled, reconciling)
		}
		for _, word := range words {
			if !strings.Contains(stalled.Message, word) {
				return fmt.Errorf("the condition should say %q: %s", word, stalled.Message)
			}
		}
		return nil
	}
}

// warned wants one event of a reason.
func (a *app) warned(reason string) func(context.Context) error {
	return func(ctx context.Context) error {
		var all corev1.EventList
		if err := here.client.List(ctx, &all, client.InNamespace(a.namespace)); err != nil {
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

// quota lets the namespace have so many pods.
func (a *app) quota(pods int64) *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "small"}}
	q.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(pods, resource.DecimalSI)}
	a.create(q)
	a.until("the quota is in force", func(ctx context.Context) error {
		err := here.client.Get(ctx, a.key(q.Name), q)
		if used := q.Status.Used[corev1.ResourcePods]; err == nil && used.Value() < int64(a.plan.replicas) {
			err = fmt.Errorf("%s pods are counted", used.String())
		}
		return err
	})
	return q
}

const exceeded = "ProgressDeadlineExceeded"

// What keeps pods from being made or run is said at once, in the message and in
// the table; that it lasts is said when the deadline has passed, and taken back
// when the release moves again. The gate holds meanwhile.
func TestNoSilence(t *testing.T) {
	t.Parallel()
	styles := map[string]plan{"partition": usual(), "canary": extra(), "blue-green": switched()}
	for _, style := range some(styles, "partition", "canary") {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			a := start(t, hasty(styles[style]))
			q := a.quota(6)
			a.foretells("quota")
			a.release("v2")
			why := "new pods are refused: a pod is forbidden: exceeded quota: small"
			a.until("the message says why", a.says("upgrade workload to new version", why))
			here.admin.kubectl(a, "get", "rollout", "web", "-o", "wide").works("pods of step 1/", why)
			a.until("it is stalled", a.stalled(exceeded, "no progress at deployment/web since ", why, "abort, or roll back"))
			a.until("somebody is told", a.warned(exceeded))
			a.guard.atMost("v2", 0)
			if err := here.client.Delete(t.Context(), q); err != nil {
				t.Fatal(err)
			}
			a.guard.atMost("v2", a.plan.replicas)
			a.until("step 1 waits", a.says("manually confirm"))
			a.sees(a.stalled(""))
			a.stays("waiting for somebody is not standing still", a.stalled(""))
		})
	}
}

// Pods that no node can have, then a Service that nobody has made: each is named.
// An abort gets the release out of it.
func TestNoSilenceOfScheduler(t *testing.T) {
	t.Parallel()
	a := start(t, hasty(usual()))
	a.releaseOn(`{"disk":"none"}`, "v2")
	a.until("the message says why", a.says("step(1/3)", "new pods: cannot be scheduled: 0/"))
	a.until("it is stalled", a.stalled(exceeded, "cannot be scheduled", "0 of 2 new pods are ready"))
	a.abort()
	a.isBack("v1")
	a.sees(a.stalled("Aborted"))
	a.releaseOn("null", "v1")
	a.until("the Rollout is Healthy", a.healthy)
	a.sees(a.stalled(""))

	if err := here.client.Delete(t.Context(), a.newServiceNamed()); err != nil {
		t.Fatal(err)
	}
	a.release("v3")
	a.until("it is stalled", a.stalled(exceeded, "no progress at service/web since ", "create it, or abort"))
	here.admin.kubectl(a, "get", "rollout", "web", "-o", "wide").works("network of the workload: service/web does not exist")
	a.sees(a.runs(versions{"v1": 6}))
	a.create(a.newService())
	a.until("step 1 waits", a.waitsAt(1))
	a.sees(a.stalled(""))
}

// releaseOn changes the version, and the nodes that it may run on.
func (a *app) releaseOn(nodes, version string) {
	a.t.Helper()
	if err := a.patch(fmt.Sprintf(`{"spec":{"template":{"spec":{"nodeSelector":%s,"containers":[{"name":"web","image":%q}]}}}}`,
		nodes, image(version))); err != nil {
		a.t.Fatal(err)
	}
}

func (a *app) newServiceNamed() *corev1.Service {
	s := a.newService()
	s.Namespace = a.namespace
	return s
}

// An abort whose stable pods are on nodes that do not report cannot finish, and
// says so; it finishes when they do.
func TestNoSilenceOfAbort(t *testing.T) {
	t.Parallel()
	a := start(t, hasty(usual()))
	a.release("v2")
	a.until("step 1 waits", a.waitsAt(1))
	a.guard.atLeast(0)
	a.ready("v1", corev1.ConditionFalse)
	a.post(here.admin, "abort", "", 201)
	a.until("the message says why", a.says("being aborted", "stable pods: node ", "does not report"))
	a.until("it is stalled", a.stalled(exceeded, "being aborted", "does not report", "retry"))
	a.sees(a.doing("Aborting"))
	a.ready("v1", corev1.ConditionTrue)
	a.until("the release is aborted", a.isAborted)
	a.until("all pods run v1", a.runs(versions{"v1": 6}))
	a.sees(a.stalled("Aborted"))
}

// ready says of every pod of a version what the controller of nodes says of those
// whose node has gone, or has come back.
func (a *app) ready(version string, status corev1.ConditionStatus) {
	a.t.Helper()
	var pods corev1.PodList
	if err := here.client.List(a.t.Context(), &pods, client.InNamespace(a.namespace)); err != nil {
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
		if err := here.client.Status().Patch(a.t.Context(), pod, client.StrategicMergeFrom(base)); client.IgnoreNotFound(err) != nil {
			a.t.Fatal(err)
		}
	}
}
