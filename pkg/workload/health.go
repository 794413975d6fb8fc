// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weir-rollouts/weir/pkg/planner"
)

// ObserveHealth counts ready and failing pods of a revision. For pods that are older than since, it
// counts only containers that terminated after since. Failures that a node or the scheduler causes
// do not count against the revision.
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

// countTerminations adds the terminations and crash loops of the containers of a pod.
func countTerminations(h *planner.PodHealth, pod *corev1.Pod, since time.Time) {
	loops := false
	for _, c := range pod.Status.ContainerStatuses {
		ended, killed := terminations(c, pod.CreationTimestamp.Time, since)
		h.ErrorExits, h.OOMKills = h.ErrorExits+ended, h.OOMKills+killed
		loops = loops || c.State.Waiting != nil && c.State.Waiting.Reason == "CrashLoopBackOff"
	}
	if loops {
		h.CrashLoops++
	}
}

// terminations returns how often a container has terminated with an error since then, and how many
// of these terminations were out-of-memory kills, judged by the last one.
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

// unreadySince returns when a pod that had been ready became unready; zero if it was never ready.
func unreadySince(pod *corev1.Pod) time.Time {
	ready, initialized := condition(pod, corev1.PodReady), condition(pod, corev1.PodInitialized)
	if ready == nil || initialized == nil || ready.Status == corev1.ConditionTrue || nodeGone(pod) != "" {
		return time.Time{}
	}
	// A pod that was never ready has both conditions since its creation.
	if at := ready.LastTransitionTime.Time; at.After(initialized.LastTransitionTime.Add(2 * time.Second)) {
		return at
	}
	return time.Time{}
}
