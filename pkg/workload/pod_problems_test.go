// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

var (
	podMade = metav1.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	long    = podMade.Add(time.Hour)
)

func podWith(containers ...corev1.ContainerStatus) corev1.Pod {
	for i := range containers {
		containers[i].Name = "web"
	}
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: podMade}, Status: corev1.PodStatus{ContainerStatuses: containers}}
}

func podThat(conditions ...corev1.PodCondition) corev1.Pod {
	pod := podWith()
	pod.Status.Conditions = conditions
	return pod
}

func waits(reason, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
}

func running() corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: podMade}}
}

func ended(code int32, reason string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason}}
}

// TestPodProblems checks the message for each cause. It must stay the same while the kubelet
// retries.
func TestPodProblems(t *testing.T) {
	t.Parallel()
	on := func(t corev1.PodConditionType, s corev1.ConditionStatus, reason, message string) corev1.PodCondition {
		return corev1.PodCondition{Type: t, Status: s, Reason: reason, Message: message, LastTransitionTime: podMade}
	}
	crashed := waits("CrashLoopBackOff", "back-off 5m0s restarting failed container=web pod=web-1_shop(uid)")
	crashed.LastTerminationState = ended(137, "OOMKilled")
	lost := podThat(on(corev1.PodReady, corev1.ConditionFalse, "", ""), on(corev1.ContainersReady, corev1.ConditionTrue, "", ""))
	lost.Spec.NodeName = "node-7"
	evicted := podWith()
	evicted.Status.Phase, evicted.Status.Reason, evicted.Status.Message = corev1.PodFailed, "Evicted", "The node was low on resource: memory."
	cases := map[string]struct {
		pod corev1.Pod
		// want is what is told at last, and patient reports whether it is not at once.
		want    string
		patient bool
	}{
		"unschedulable": {podThat(on(corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable", "0/3 nodes are available: 3 Insufficient cpu.")),
			"cannot be scheduled: 0/3 nodes are available: 3 Insufficient cpu.", false},
		"gated":      {podThat(on(corev1.PodScheduled, corev1.ConditionFalse, "SchedulingGated", "gated")), "cannot be scheduled: gated", false},
		"evicted":    {evicted, "failed: Evicted (The node was low on resource: memory.)", false},
		"crash loop": {podWith(crashed), "container web: CrashLoopBackOff (OOMKilled, exit code 137)", false},
		"runs between two crashes": {podWith(corev1.ContainerStatus{State: running(), LastTerminationState: ended(137, "OOMKilled")}),
			"container web: CrashLoopBackOff (OOMKilled, exit code 137)", false},
		"has just crashed": {podWith(corev1.ContainerStatus{State: ended(1, "Error")}), "container web: CrashLoopBackOff (exit code 1)", false},
		"crash unseen":     {podWith(waits("CrashLoopBackOff", "")), "container web: CrashLoopBackOff", false},
		"pull failed":      {podWith(waits("ErrImagePull", "not found")), "container web: ImagePullBackOff (not found)", false},
		"pull waits": {podWith(waits("ImagePullBackOff", `Back-off pulling image "web:v2": ErrImagePull: not found`)),
			"container web: ImagePullBackOff (not found)", false},
		"no config": {podWith(waits("CreateContainerConfigError", `configmap "web" not found`)),
			`container web: CreateContainerConfigError (configmap "web" not found)`, false},
		"bad name":     {podWith(waits("InvalidImageName", "")), "container web: InvalidImageName", false},
		"node gone":    {lost, "node node-7 does not report", false},
		"gate":         {podThat(on(corev1.PodReady, corev1.ConditionFalse, "ReadinessGatesNotReady", `"lb" is not ready`)), `a readiness gate is closed ("lb" is not ready)`, true},
		"volumes":      {podWith(waits("ContainerCreating", "")), "container web is not created yet: see the events of the pod", true},
		"never ready":  {podWith(corev1.ContainerStatus{State: running()}), "container web runs and is not ready: see its readiness probe", true},
		"no scheduler": {podWith(), "no scheduler or kubelet has acted on the pod", true},
		"ready":        {podThat(on(corev1.PodReady, corev1.ConditionTrue, "", "")), "", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prefix := "1 of 1 new pods: "
			if c.want == "" {
				prefix = ""
			}
			if got, again := UnreadyReasons([]*corev1.Pod{&c.pod}, "new", long); got.Message != prefix+c.want || got.Failing != failingCases[name] || again != 0 {
				t.Errorf("at last %+v, again in %s, want %q", got, again, prefix+c.want)
			}
			got, again := UnreadyReasons([]*corev1.Pod{&c.pod}, "new", podMade.Add(10*time.Second))
			if c.patient && (got.Message != "" || again != 20*time.Second) || !c.patient && got.Message != prefix+c.want {
				t.Errorf("at once %+v, again in %s", got, again)
			}
		})
	}
}

// failingCases are the cases of TestPodProblems that do not go away by waiting.
var failingCases = map[string]rollouts.FailingReason{
	"crash loop": rollouts.FailingCrashing, "runs between two crashes": rollouts.FailingCrashing,
	"has just crashed": rollouts.FailingCrashing, "crash unseen": rollouts.FailingCrashing,
	"pull failed": rollouts.FailingImagePull, "pull waits": rollouts.FailingImagePull,
	"no config": rollouts.FailingNotStarted, "bad name": rollouts.FailingNotStarted,
}

// TestUnreadyReasons checks that causes are counted, in a stable order.
func TestUnreadyReasons(t *testing.T) {
	t.Parallel()
	pull, creating := podWith(waits("ImagePullBackOff", "no such image")), podWith(waits("ContainerCreating", ""))
	going := *pull.DeepCopy()
	going.DeletionTimestamp = &podMade
	crashing := podWith(waits("CrashLoopBackOff", ""))
	pods := []*corev1.Pod{&pull, &going, &creating, &crashing, &pull}
	got, again := UnreadyReasons(pods, "stable", podMade.Add(time.Second))
	want := planner.PodProblem{
		Message: "1 of 5 stable pods: container web: CrashLoopBackOff; 2 of 5 stable pods: container web: ImagePullBackOff (no such image)",
		Failing: rollouts.FailingCrashing,
	}
	if diff := cmp.Diff(want, got); diff != "" || again != 29*time.Second {
		t.Errorf("again in %s (-want +got):\n%s", again, diff)
	}
}

// TestPodCreationErrors checks that a message about refused pods does not contain the name of a pod.
func TestPodCreationErrors(t *testing.T) {
	t.Parallel()
	set := func(hash, message string, status corev1.ConditionStatus) *appsv1.ReplicaSet {
		return &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{hashLabel: hash}},
			Status: appsv1.ReplicaSetStatus{Conditions: []appsv1.ReplicaSetCondition{
				{Type: appsv1.ReplicaSetReplicaFailure, Status: status, Reason: "FailedCreate", Message: message},
			}},
		}
	}
	got := podCreationErrors([]object.Object{
		set("a", `pods "web-a-x7k2p" is forbidden: exceeded quota: small, requested: pods=1, used: pods=5, limited: pods=5`, corev1.ConditionTrue),
		set("b", `admission webhook "no.example.com" denied the request: no`, corev1.ConditionTrue),
		set("c", "over", corev1.ConditionFalse),
	})
	want := map[string]string{
		"a": "pods are refused: a pod is forbidden: exceeded quota: small, requested: pods=1, used: pods=5, limited: pods=5",
		"b": `pods are refused: admission webhook "no.example.com" denied the request: no`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
