// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weir-rollouts/weir/pkg/planner"
)

// ObserveHealth is how the pods of a revision get on. Of pods that were there before since, only
// containers that started after it count as failed. What a node or the scheduler does to a
// pod is no fault of the revision.
func ObserveHealth(pods []*corev1.Pod, since time.Time) planner.PodHealth {
	h := planner.PodHealth{}
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		h.Pods++
		if IsReadyOrTerminating(pod) {
			h.Ready++
		} else if at := unreadySince(pod); !at.IsZero() && (h.UnreadySince.IsZero() || at.Before(h.UnreadySince)) {
			h.UnreadySince = at
		}
		countTerminations(&h, pod, since)
	}
	return h
}

// countTerminations counts what has become of the containers of a pod.
func countTerminations(h *planner.PodHealth, pod *corev1.Pod, since time.Time) {
	loops := false
	for _, c := range pod.Status.ContainerStatuses {
		ended, killed := terminations(c, pod.CreationTimestamp.Time, since)
		h.Ends, h.OutOfMemory = h.Ends+ended, h.OutOfMemory+killed
		loops = loops || c.State.Waiting != nil && c.State.Waiting.Reason == "CrashLoopBackOff"
	}
	if loops {
		h.CrashLoops++
	}
}

// terminations are how often a container has ended with an error since then, and how often of
// these it was out of memory, as far as its last end tells.
func terminations(c corev1.ContainerStatus, created, since time.Time) (all, outOfMemory int32) {
	last := c.LastTerminationState.Terminated
	if c.State.Terminated != nil {
		last = c.State.Terminated
	}
	if last == nil || last.ExitCode == 0 {
		return 0, 0
	}
	all = max(c.RestartCount, 1)
	if created.Before(since) {
		if last.FinishedAt.Time.Before(since) {
			return 0, 0
		}
		all = 1
	}
	if last.Reason == "OOMKilled" {
		outOfMemory = all
	}
	return all, outOfMemory
}

// unreadySince is since when a pod is unready that had been ready before; zero if it had
// not been.
func unreadySince(pod *corev1.Pod) time.Time {
	ready, initialized := condition(pod, corev1.PodReady), condition(pod, corev1.PodInitialized)
	if ready == nil || initialized == nil || ready.Status == corev1.ConditionTrue || nodeGone(pod) != "" {
		return time.Time{}
	}
	// One that never was ready has both from its beginning.
	if at := ready.LastTransitionTime.Time; at.After(initialized.LastTransitionTime.Add(2 * time.Second)) {
		return at
	}
	return time.Time{}
}
