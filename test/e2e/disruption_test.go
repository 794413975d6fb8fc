// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Disruptions during a release: autoscaling, evictions, drained and lost nodes.

// autoscaleThrough sets one size after the other, one each second, as an autoscaler may.
func (a *app) autoscaleThrough(sizes ...int32) {
	a.t.Helper()
	for _, size := range sizes {
		a.guard.atLeast(max(0, min(size, a.plan.replicas, a.smallestSize())-a.plan.unavailable))
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: name}}
		a.eventually("the Deployment is scaled", func(ctx context.Context) error {
			scale := &autoscalingv1.Scale{}
			err := testEnv.client.SubResource("scale").Get(ctx, d, scale)
			if err == nil {
				scale.Spec.Replicas = size
				err = testEnv.client.SubResource("scale").Update(ctx, d, client.WithSubResourceBody(scale))
			}
			return err
		})
		a.plan.replicas = size
		select {
		case <-a.t.Context().Done():
		case <-time.After(time.Second):
		}
	}
}

// smallestSize returns the size that the guard's minimum is for. With this size in the plan, the
// minimum does not rise while new pods are not ready yet.
func (a *app) smallestSize() int32 {
	a.guard.mu.Lock()
	defer a.guard.mu.Unlock()
	return a.guard.floor + a.plan.unavailable
}

// TestAutoscaled scales while a step is paused, and while a release is aborted. Enough pods stay
// ready, the step stays paused, and no pod of the aborted version is created.
func TestAutoscaled(t *testing.T) {
	t.Parallel()
	for _, style := range selectCases(styles, "partition") {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			a := start(t, styles[style]())
			scaler := a.newScaler()
			a.create(scaler)
			a.release("v2")
			a.eventually("step 1 waits", a.waitsInAnyStyle(1))
			a.autoscaleThrough(9, 5, 8, 3, 6)
			a.eventually("all pods are there", a.hasAllPodsReady)
			a.eventually("step 1 waits", a.waitsInAnyStyle(1))
			a.guard.atLeast(6 - a.plan.unavailable)
			a.post(testEnv.admin, "abort", "", http.StatusCreated)
			a.autoscaleThrough(9, 4, 7, 6)
			a.eventually("the release is aborted", a.isAborted)
			a.eventually("all pods run v1", a.runs(versions{"v1": 6}))
			a.guard.atMost("v2", 0)
			a.autoscaleThrough(8, 3, 6)
			a.eventually("all pods run v1", a.runs(versions{"v1": 6}))
			a.release("v1")
			a.eventually("the Rollout is Healthy", a.isHealthy)
			a.awaitPods(versions{"v1": 6})
			a.eventually("the autoscaler is as it was", a.autoscalerRestored(scaler))
			a.checkRestored(workloadTypeLabel)
		})
	}
}

// hasAllPodsReady returns an error unless at least as many pods are ready as the owner has set.
func (a *app) hasAllPodsReady(ctx context.Context) error {
	d, err := a.getDeployment(ctx)
	if err == nil && (d.Status.ObservedGeneration < d.Generation || d.Status.ReadyReplicas < *d.Spec.Replicas) {
		err = fmt.Errorf("%d of %d pods are ready", d.Status.ReadyReplicas, *d.Spec.Replicas)
	}
	return err
}

// pods returns the pods of a version, or of all versions, that are not terminating.
func (a *app) pods(ctx context.Context, version string) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := testEnv.client.List(ctx, &list, client.InNamespace(a.namespace))
	var out []corev1.Pod
	for i := range list.Items {
		if p := &list.Items[i]; p.DeletionTimestamp == nil && (version == "" || versionOf(&p.Spec) == version) {
			out = append(out, *p)
		}
	}
	return out, err
}

func (a *app) evict(ctx context.Context, pod *corev1.Pod) error {
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	return client.IgnoreNotFound(testEnv.client.SubResource("eviction").Create(ctx, pod, eviction))
}

// createDisruptionBudget creates a PodDisruptionBudget that allows as many missing pods as
// maxUnavailable allows Weir.
func (a *app) createDisruptionBudget(least int32) {
	a.t.Helper()
	min := intstr.FromInt32(least)
	a.create(&policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &min, Selector: &metav1.LabelSelector{MatchLabels: a.labels()}},
	})
	a.eventually("the budget is in force", func(ctx context.Context) error {
		b := &policyv1.PodDisruptionBudget{}
		err := testEnv.client.Get(ctx, a.key(name), b)
		if err == nil && (b.Status.ObservedGeneration < b.Generation || b.Status.CurrentHealthy == 0) {
			err = errors.New("the budget has not been observed")
		}
		return err
	})
}

// TestEvicted evicts pods while a step is paused, new ones first, until the PodDisruptionBudget refuses.
// The pods are replaced, and the step stays paused. It also evicts pods next to a version that does
// not start, whose reason must still be reported.
func TestEvicted(t *testing.T) {
	t.Parallel()
	for _, style := range selectCases(styles, "partition") {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			a := start(t, styles[style]())
			a.guard.atLeast(5)
			a.release("v2")
			a.eventually("step 1 waits", a.waitsInAnyStyle(1))
			fresh, err := a.pods(t.Context(), "v2")
			if err != nil {
				t.Fatal(err)
			}
			all, err := a.pods(t.Context(), "v1")
			if err != nil {
				t.Fatal(err)
			}
			all = append(fresh, all...)
			a.createDisruptionBudget(int32(len(all)) - 1)
			refused := false
			for i := range all {
				err := a.evict(t.Context(), &all[i])
				refused = refused || apierrors.IsTooManyRequests(err)
				if err != nil && !apierrors.IsTooManyRequests(err) {
					t.Fatal(err)
				}
			}
			if !refused {
				t.Error("the budget has allowed every eviction")
			}
			a.eventually("new pods are replaced", a.hasReadyPodCount("v2", int32(len(fresh))))
			a.eventually("all pods are there", a.hasAllPodsReady)
			a.eventually("step 1 waits", a.waitsInAnyStyle(1))
			a.promoteAll()
			a.eventually("the Rollout is Healthy", a.isHealthy)
			a.awaitPods(versions{"v2": 6})
			a.checkRestored(workloadTypeLabel)
		})
	}
	t.Run("with a bad version", func(t *testing.T) {
		t.Parallel()
		a := start(t, defaultPlan())
		a.createDisruptionBudget(5)
		a.release("failed")
		a.eventually("the message names the reason", a.messageContains("ImagePull"))
		old, err := a.pods(t.Context(), "v1")
		if err != nil {
			t.Fatal(err)
		}
		for i := range old {
			if err := a.evict(t.Context(), &old[i]); err != nil && !apierrors.IsTooManyRequests(err) {
				t.Fatal(err)
			}
		}
		a.eventually("the pods are replaced", a.hasReadyPodCount("v1", int32(len(old))))
		a.checkNow(a.messageContains("step(1/3)", "ImagePull"))
		a.abort()
		a.checkAborted("v1")
		a.cancel("v1")
	})
}

// createNodes creates two nodes on which only this application runs.
func (a *app) createNodes() []string {
	a.t.Helper()
	names := []string{a.namespace + "-0", a.namespace + "-1"}
	for _, n := range names {
		a.addNode(n)
		a.t.Cleanup(func() {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n}}
			if err := client.IgnoreNotFound(testEnv.client.Delete(context.Background(), node)); err != nil {
				a.t.Error(err)
			}
		})
	}
	return names
}

// addNode creates a node, or uncordons it.
func (a *app) addNode(name string) {
	a.t.Helper()
	like := &corev1.Node{}
	if err := testEnv.client.Get(a.t.Context(), types.NamespacedName{Name: "node-0"}, like); err != nil {
		a.t.Fatal(err)
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": a.namespace}}}
	n.Spec.Taints = []corev1.Taint{{Key: "pool", Value: a.namespace, Effect: corev1.TaintEffectNoSchedule}}
	n.Status.Capacity, n.Status.Allocatable = like.Status.Capacity, like.Status.Allocatable
	err := testEnv.client.Create(a.t.Context(), n)
	if apierrors.IsAlreadyExists(err) {
		err = testEnv.client.Patch(a.t.Context(), n, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"unschedulable":null}}`)))
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

// startOnOwnNodes starts an application on nodes of its own.
func startOnOwnNodes(t *testing.T, p plan) (*app, []string) {
	t.Helper()
	var nodes []string
	p.deploy = func(a *app) {
		nodes = a.createNodes()
		d := a.newDeployment()
		d.Spec.Template.Spec.NodeSelector = map[string]string{"pool": a.namespace}
		d.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "pool", Operator: corev1.TolerationOpExists}}
		a.create(d)
		if a.plan.withTraffic {
			a.create(a.newService())
			a.create(a.newIngress())
		}
	}
	return start(t, p), nodes
}

// drainNode cordons a node and evicts its pods, as far and as fast as the budget allows.
func (a *app) drainNode(node string) {
	a.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	if err := testEnv.client.Patch(a.t.Context(), n, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`))); err != nil {
		a.t.Fatal(err)
	}
	a.eventually("the node is empty", func(ctx context.Context) error {
		pods, err := a.pods(ctx, "")
		left := 0
		for i := range pods {
			if pods[i].Spec.NodeName == node {
				left++
				if err := a.evict(ctx, &pods[i]); err != nil && !apierrors.IsTooManyRequests(err) {
					return err
				}
			}
		}
		if err == nil && left > 0 {
			err = fmt.Errorf("%d pods are on %s", left, node)
		}
		return err
	})
}

// loseNode deletes a node and all its pods, which no longer serve requests.
func (a *app) loseNode(node string) {
	a.t.Helper()
	if err := testEnv.client.Delete(a.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}); err != nil {
		a.t.Fatal(err)
	}
	pods, err := a.pods(a.t.Context(), "")
	if err != nil {
		a.t.Fatal(err)
	}
	for i := range pods {
		// The pod garbage collector would delete the pods later.
		if pods[i].Spec.NodeName != node {
			continue
		}
		if err := client.IgnoreNotFound(testEnv.client.Delete(a.t.Context(), &pods[i], client.GracePeriodSeconds(0))); err != nil {
			a.t.Fatal(err)
		}
	}
}

// TestNodes drains a node, or loses one, while a step runs and while a release is aborted. The
// release continues, and no step counts a pod that is gone.
func TestNodes(t *testing.T) {
	t.Parallel()
	takes := map[string]func(*app, string){"drained": (*app).drainNode, "lost": (*app).loseNode}
	for _, style := range selectCases(styles, "partition") {
		for _, how := range selectCases(takes, "drained") {
			t.Run(style+" "+how, func(t *testing.T) {
				t.Parallel()
				a, nodes := startOnOwnNodes(t, withSlowPods(styles[style]()))
				a.createDisruptionBudget(5)
				// The loss of a node respects no budget, and an eviction may coincide with a pod
				// that the step has just deleted.
				a.guard.atLeast(map[string]int32{"drained": 4, "lost": 0}[how])
				a.release("v2")
				a.eventually("a new pod is there", func(ctx context.Context) error {
					pods, err := a.pods(ctx, "v2")
					if err == nil && len(pods) == 0 {
						err = errors.New("there is no pod of v2")
					}
					return err
				})
				takes[how](a, nodes[0])
				a.eventually("step 1 waits", a.waitsInAnyStyle(1))
				want := map[string]int32{"partition": 2, "canary": 1, "blue-green": 3}[style]
				a.eventually("the pods of the step are ready", a.hasReadyPodCount("v2", want))
				a.eventually("all pods are there", a.hasAllPodsReady)
				a.post(testEnv.admin, "abort", "", http.StatusCreated)
				a.eventually("the release is aborted", a.isAborted)
				a.eventually("all pods run v1", a.runs(versions{"v1": 6}))
				a.guard.atMost("v2", 0)
				a.addNode(nodes[0])
				takes[how](a, nodes[1])
				a.eventually("all pods run v1 elsewhere", a.runs(versions{"v1": 6}))
				a.checkNow(a.isAborted)
				a.post(testEnv.admin, "rollback", "", http.StatusCreated)
				a.eventually("the Rollout is Healthy", a.isHealthy)
				a.awaitPods(versions{"v1": 6})
				a.checkRestored(workloadTypeLabel)
			})
		}
	}
}
