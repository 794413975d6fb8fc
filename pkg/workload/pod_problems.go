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

	"github.com/weir-rollouts/weir/pkg/object"
)

// podGracePeriod is how long a pod may do what every pod does for a while, such as
// creating its containers, until that is taken for what keeps it.
const podGracePeriod = 30 * time.Second

// podProblem is one cause for which a pod is not ready.
type podProblem struct {
	name string
	// of says what is the matter; empty when it is not this.
	of func(*corev1.Pod) string
	// since reports whether this is normal for a while after that moment; nil where it
	// never is.
	since func(*corev1.Pod) time.Time
}

// podProblems in the order in which they are looked for; the first that applies is
// the cause. It never names the pod, so that it stays the same while pods come
// and go.
var podProblems = []podProblem{
	{"unscheduled", unscheduled, nil},
	{"failed", failed, nil},
	{"crashing", inContainers(crashing), nil},
	{"no image", inContainers(noImage), nil},
	{"not started", inContainers(notStarted), nil},
	{"node gone", nodeGone, nil},
	{"gate closed", gateClosed, lastChange},
	{"being created", inContainers(beingCreated), lastChange},
	{"not ready", inContainers(notReady), lastChange},
	{"untouched", func(*corev1.Pod) string { return "no scheduler or node has taken it up" }, lastChange},
}

// UnreadyReasons says why pods are not ready: whose they are, and how many. Where
// nothing is known yet, it says when to look again, and else zero.
func UnreadyReasons(pods []*corev1.Pod, whose string, now time.Time) (message string, again time.Duration) {
	count := map[string]int{}
	for _, pod := range pods {
		if IsReadyOrTerminating(pod) {
			continue
		}
		cause, left := UnreadyReason(pod, now)
		if cause != "" {
			count[cause]++
		} else if again == 0 || left < again {
			again = left
		}
	}
	var lines []string
	for cause, n := range count {
		lines = append(lines, fmt.Sprintf("%d of %d %s pods: %s", n, len(pods), whose, cause))
	}
	slices.Sort(lines)
	return strings.Join(lines, "; "), again
}

// IsReadyOrTerminating reports whether a pod is ready, or on its way out.
func IsReadyOrTerminating(pod *corev1.Pod) bool {
	c := condition(pod, corev1.PodReady)
	return pod.DeletionTimestamp != nil || c != nil && c.Status == corev1.ConditionTrue
}

// UnreadyReason says why a pod is not ready that is not well, or else how long it may go on like
// this.
func UnreadyReason(pod *corev1.Pod, now time.Time) (cause string, left time.Duration) {
	for _, a := range podProblems {
		cause := a.of(pod)
		if cause == "" {
			continue
		}
		if a.since != nil {
			if left := a.since(pod).Add(podGracePeriod).Sub(now); left > 0 {
				return "", left
			}
		}
		return cause, 0
	}
	return "", podGracePeriod
}

func condition(pod *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == t {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// lastChange is when anything happened to the pod last, as far as it tells.
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

// failed pods are replaced, and stay to tell why: evicted, or rejected by a node.
func failed(pod *corev1.Pod) string {
	if pod.Status.Phase != corev1.PodFailed {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintf("failed: %s %s", pod.Status.Reason, inBrackets(pod.Status.Message)))
}

// nodeGone is how a pod looks whose node does not report: nobody but the
// controller of nodes calls a pod unready whose containers are ready.
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

// inContainers looks at one container after the other.
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

// crashing leaves out what the kubelet says about it, which names the pod, and
// how long it waits this time.
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

// lastTermination is how the container ended last, or nil.
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

// ImagePullReason says which image of a pod cannot be pulled; empty if all can.
func ImagePullReason(pod *corev1.Pod) string { return inContainers(noImage)(pod) }

// noImage says the same of the failure and of the wait after it.
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

// creatingReasons are reasons of containers that are on their way.
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

// quotedPodName is how the API server names a pod that it refuses.
var quotedPodName = regexp.MustCompile(`^pods "[^"]*"`)

// podCreationErrors say why pods of sets are not even made, by the revision of the set.
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
