// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// podGracePeriod is how long a pod may stay in a state that every pod passes through, such as
// creating its containers, before Weir reports the state as the cause.
const podGracePeriod = 30 * time.Second

// podProblem is one cause for which a pod is not ready.
type podProblem struct {
	name string
	// of describes the problem; empty if the pod does not have it.
	of func(*corev1.Pod) string
	// since returns the start of podGracePeriod. It is nil if the state is never normal.
	since func(*corev1.Pod) time.Time
	// failing is set if the problem does not go away by waiting.
	failing rollouts.FailingReason
}

// podProblems lists the causes in the order in which they are checked. The first match is the cause.
// Descriptions never name the pod, so that the message stays the same while pods are replaced.
var podProblems = []podProblem{
	{name: "unscheduled", of: unscheduled}, // an autoscaler of the cluster may add a node
	{name: "failed", of: failed},           // the controller of the pod replaces it
	{name: "crashing", of: inContainers(crashing), failing: rollouts.FailingCrashing},
	{name: "no image", of: inContainers(noImage), failing: rollouts.FailingImagePull},
	{name: "not started", of: inContainers(notStarted), failing: rollouts.FailingNotStarted},
	{name: "node gone", of: nodeGone},
	{name: "gate closed", of: gateClosed, since: lastChange},
	{name: "being created", of: inContainers(beingCreated), since: lastChange},
	{name: "not ready", of: inContainers(notReady), since: lastChange},
	{name: "untouched", of: func(*corev1.Pod) string { return "no scheduler or kubelet has acted on the pod" }, since: lastChange},
}

// UnreadyReasons counts unready pods by cause. whose describes the pods. If no cause is certain
// yet, it returns when to check again.
func UnreadyReasons(pods []*corev1.Pod, whose string, now time.Time) (problem planner.PodProblem, again time.Duration) {
	count := map[string]int{}
	for _, pod := range pods {
		if IsReadyOrTerminating(pod) {
			continue
		}
		cause, left := UnreadyReason(pod, now)
		if cause.Message != "" {
			count[cause.Message]++
			problem.Failing = moreSevere(problem.Failing, cause.Failing)
		} else if again == 0 || left < again {
			again = left
		}
	}
	var lines []string
	for cause, n := range count {
		lines = append(lines, fmt.Sprintf("%d of %d %s pods: %s", n, len(pods), whose, cause))
	}
	slices.Sort(lines)
	problem.Message = strings.Join(lines, "; ")
	return problem, again
}

// moreSevere returns the reason that podProblems lists first. An empty reason is the least severe.
func moreSevere(a, b rollouts.FailingReason) rollouts.FailingReason {
	for _, p := range podProblems {
		if p.failing != "" && (p.failing == a || p.failing == b) {
			return p.failing
		}
	}
	return ""
}

// IsReadyOrTerminating reports whether a pod is ready or is being deleted.
func IsReadyOrTerminating(pod *corev1.Pod) bool {
	c := condition(pod, corev1.PodReady)
	return pod.DeletionTimestamp != nil || c != nil && c.Status == corev1.ConditionTrue
}

// UnreadyReason returns why a pod is not ready. If the state is still normal, it returns how long
// the state may last.
func UnreadyReason(pod *corev1.Pod, now time.Time) (cause planner.PodProblem, left time.Duration) {
	for _, a := range podProblems {
		message := a.of(pod)
		if message == "" {
			continue
		}
		if a.since != nil {
			if left := a.since(pod).Add(podGracePeriod).Sub(now); left > 0 {
				return planner.PodProblem{}, left
			}
		}
		return planner.PodProblem{Message: message, Failing: a.failing}, 0
	}
	return planner.PodProblem{}, podGracePeriod
}

func condition(pod *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == t {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// lastChange returns when a condition or container of the pod last changed.
func lastChange(pod *corev1.Pod) time.Time {
	at := pod.CreationTimestamp.Time
	for _, c := range pod.Status.Conditions {
		if c.LastTransitionTime.After(at) {
			at = c.LastTransitionTime.Time
		}
	}
	for _, c := range containers(pod) {
		if r := c.State.Running; r != nil && r.StartedAt.After(at) {
			at = r.StartedAt.Time
		}
	}
	return at
}

func containers(pod *corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
}

func unscheduled(pod *corev1.Pod) string {
	c := condition(pod, corev1.PodScheduled)
	if c == nil || c.Status == corev1.ConditionTrue || c.Reason == "" {
		return ""
	}
	return "cannot be scheduled: " + c.Message
}

// failed describes a pod that was evicted or that a node rejected. Its controller replaces the pod,
// and the failed pod remains.
func failed(pod *corev1.Pod) string {
	if pod.Status.Phase != corev1.PodFailed {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintf("failed: %s %s", pod.Status.Reason, inBrackets(pod.Status.Message)))
}

// nodeGone reports a node that does not report. Only the node controller sets a pod to unready whose
// containers are ready.
func nodeGone(pod *corev1.Pod) string {
	ready, all := condition(pod, corev1.PodReady), condition(pod, corev1.ContainersReady)
	if ready == nil || all == nil || all.Status != corev1.ConditionTrue || ready.Reason != "" {
		return ""
	}
	return "node " + pod.Spec.NodeName + " does not report"
}

func gateClosed(pod *corev1.Pod) string {
	if c := condition(pod, corev1.PodReady); c != nil && c.Reason == "ReadinessGatesNotReady" {
		return "a readiness gate is closed" + prefixed(" ", inBrackets(c.Message))
	}
	return ""
}

// inContainers returns a check that applies a check to each container.
func inContainers(of func(corev1.ContainerStatus) string) func(*corev1.Pod) string {
	return func(pod *corev1.Pod) string {
		for _, c := range containers(pod) {
			if what := of(c); what != "" {
				return "container " + c.Name + what
			}
		}
		return ""
	}
}

// crashing omits the kubelet's message, which names the pod and the current back-off.
func crashing(c corev1.ContainerStatus) string {
	last := lastTermination(c)
	switch {
	case c.Ready || !crashed(c, last):
		return ""
	case last == nil:
		return ": CrashLoopBackOff"
	case last.Reason == "" || last.Reason == "Error" || last.Reason == "Completed":
		return fmt.Sprintf(": CrashLoopBackOff (exit code %d)", last.ExitCode)
	default:
		return fmt.Sprintf(": CrashLoopBackOff (%s, exit code %d)", last.Reason, last.ExitCode)
	}
}

// lastTermination returns how the container last terminated; nil if it never did.
func lastTermination(c corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if c.State.Terminated != nil {
		return c.State.Terminated
	}
	return c.LastTerminationState.Terminated
}

func crashed(c corev1.ContainerStatus, last *corev1.ContainerStateTerminated) bool {
	if w := c.State.Waiting; w != nil {
		return w.Reason == "CrashLoopBackOff"
	}
	return last != nil && last.ExitCode != 0
}

// ImagePullReason returns which image of a pod cannot be pulled; empty if all can.
func ImagePullReason(pod *corev1.Pod) string { return inContainers(noImage)(pod) }

// noImage returns the same message for the failure and for the back-off after the failure.
func noImage(c corev1.ContainerStatus) string {
	const failure, wait = "ErrImagePull", "ImagePullBackOff"
	w := c.State.Waiting
	if w == nil || w.Reason != failure && w.Reason != wait {
		return ""
	}
	message := w.Message
	if _, why, ok := strings.Cut(message, failure+": "); ok {
		message = why
	}
	return ": " + wait + prefixed(" ", inBrackets(message))
}

// creatingReasons are the waiting reasons of containers that are being created.
var creatingReasons = []string{"ContainerCreating", "PodInitializing"}

func notStarted(c corev1.ContainerStatus) string {
	w := c.State.Waiting
	if w == nil || w.Reason == "" || slices.Contains(creatingReasons, w.Reason) {
		return ""
	}
	return ": " + w.Reason + prefixed(" ", inBrackets(w.Message))
}

func beingCreated(c corev1.ContainerStatus) string {
	if w := c.State.Waiting; w != nil && w.Reason == creatingReasons[0] {
		return " is not created yet: see the events of the pod"
	}
	return ""
}

func notReady(c corev1.ContainerStatus) string {
	if c.State.Running != nil && !c.Ready {
		return " runs and is not ready: see its readiness probe"
	}
	return ""
}

func inBrackets(text string) string {
	if text == "" {
		return ""
	}
	return "(" + text + ")"
}

func prefixed(gap, text string) string {
	if text == "" {
		return ""
	}
	return gap + text
}

// quotedPodName matches the name of a pod in a message of kube-apiserver.
var quotedPodName = regexp.MustCompile(`^pods "[^"]*"`)

// podCreationErrors returns why pods of ReplicaSets cannot be created, by revision.
func podCreationErrors(owned []object.Object) map[string]string {
	var out map[string]string
	for _, rs := range replicaSets(owned) {
		for _, c := range rs.Status.Conditions {
			if c.Type != appsv1.ReplicaSetReplicaFailure || c.Status != corev1.ConditionTrue {
				continue
			}
			if out == nil {
				out = map[string]string{}
			}
			out[hashOf(rs)] = "pods are refused: " + quotedPodName.ReplaceAllString(c.Message, "a pod")
		}
	}
	return out
}
