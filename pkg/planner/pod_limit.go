// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// LimitFor returns how many pods of the workload may run the update revision, in styles in which updated
// pods replace stable pods.
func (t Target) LimitFor(w *Workload) int32 {
	return w.keepLastStablePod(t.Partition, t.Limit(w.Replicas))
}

// Limit returns how many of the pods may run the update revision, in styles in which updated pods replace
// stable pods.
func (t Target) Limit(replicas int32) int32 {
	limit := Limit(rollouts.StylePartition, t.Partition, replicas)
	if t.KeepOne && replicas > 1 {
		limit = min(limit, replicas-1)
	}
	return limit
}

// IsAllPods reports whether the target means all pods, at any size of the workload.
func (t Target) IsAllPods(replicas int32) bool {
	if t.Partition.Type == intstr.String {
		return t.Partition == allPods
	}
	return replicas > 0 && t.Limit(replicas) >= replicas
}

// Limit returns how many pods of the workload a share allows.
func (w *Workload) Limit(style rollouts.Style, share intstr.IntOrString) int32 {
	return w.keepLastStablePod(share, Limit(style, share, w.Replicas))
}

// keepLastStablePod returns pods, reduced so that one stable pod stays if the workload requires this. Only the
// share "100%" replaces the last stable pod.
func (w *Workload) keepLastStablePod(share intstr.IntOrString, pods int32) int32 {
	if w.KeepsLastStablePod && share != allPods {
		return min(pods, max(w.Replicas-1, 0))
	}
	return pods
}

// Limit returns how many pods a share allows: rounded up, within [0, replicas]. In styles in which updated
// pods replace stable pods, only the exact share "100%" replaces all pods, unless there is only one pod.
func Limit(style rollouts.Style, share intstr.IntOrString, replicas int32) int32 {
	value, err := intstr.GetScaledValueFromIntOrPercent(&share, int(replicas), true)
	if err != nil {
		return 0
	}
	limit := min(max(int32(value), 0), replicas) //nolint:gosec // bounded by replicas
	if style != rollouts.StyleCanary && share.Type == intstr.String && share.StrVal != "100%" && replicas > 1 {
		limit = min(limit, replicas-1)
	}
	return limit
}
