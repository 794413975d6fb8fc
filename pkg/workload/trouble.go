// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// starting are reasons of containers that are on their way.
var starting = []string{"ContainerCreating", "PodInitializing"}

// Trouble says why pods will not become ready; empty when nothing is known.
// It names causes, not pods, so that it stays the same while pods come and go.
func Trouble(pods []corev1.Pod) string {
	count := map[string]int{}
	for i := range pods {
		if cause := troubleOf(&pods[i]); cause != "" {
			count[cause]++
		}
	}
	var lines []string
	for cause, n := range count {
		lines = append(lines, fmt.Sprintf("%d of %d new pods: %s", n, len(pods), cause))
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}

func troubleOf(pod *corev1.Pod) string {
	if pod.DeletionTimestamp != nil {
		return ""
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
			return "cannot be scheduled: " + c.Message
		}
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		w := c.State.Waiting
		if w == nil || w.Reason == "" || slices.Contains(starting, w.Reason) {
			continue
		}
		cause := fmt.Sprintf("container %s: %s", c.Name, w.Reason)
		if w.Message != "" {
			cause += " (" + w.Message + ")"
		}
		return cause
	}
	return ""
}
