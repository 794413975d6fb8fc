// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// UpdatedPods returns the facts of the active pods.
func UpdatedPods(pods []*corev1.Pod) []planner.UpdatedPod {
	var out []planner.UpdatedPod
	for _, p := range pods {
		if !isActive(p) {
			continue
		}
		number, err := strconv.ParseInt(p.Labels[rollouts.LabelRolloutBatchID], 10, 32)
		if err != nil {
			number = 0
		}
		out = append(out, planner.UpdatedPod{
			Name: p.Name, UID: p.UID, UpdatedAt: updatedAt(p),
			RolloutID: p.Labels[rollouts.LabelRolloutID], Batch: int32(number),
			Revision: p.Labels[appsv1.ControllerRevisionHashLabelKey],
		})
	}
	return out
}

// isActive reports whether a pod is neither being deleted nor finished.
func isActive(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded
}

func isReady(p *corev1.Pod) bool {
	c := condition(p, corev1.PodReady)
	return isActive(p) && c != nil && c.Status == corev1.ConditionTrue
}

// updatedAt returns when a pod was created or last updated in place.
func updatedAt(p *corev1.Pod) time.Time {
	if gate := condition(p, inPlaceReady); gate != nil && gate.LastTransitionTime.After(p.CreationTimestamp.Time) {
		return gate.LastTransitionTime.Time
	}
	return p.CreationTimestamp.Time
}

// BatchLabels returns the labels that record the batch of a pod. OpenKruise clients look for the
// revision label on pods of every kind. A pod that already has the revision label keeps its value.
func BatchLabels(m planner.PodLabel) map[string]string {
	return map[string]string{
		rollouts.LabelRolloutID:               m.RolloutID,
		rollouts.LabelRolloutBatchID:          strconv.Itoa(int(m.Batch)),
		appsv1.ControllerRevisionHashLabelKey: m.Revision,
	}
}

// blockedPodDeletion returns a message about a deleted pod that finalizers keep. The controller
// creates no replacement before the pod is gone.
func blockedPodDeletion(pods []*corev1.Pod) string {
	for _, p := range pods {
		if p.DeletionTimestamp != nil && len(p.Finalizers) > 0 {
			return rollouts.Lingers("pod", p)
		}
	}
	return ""
}
