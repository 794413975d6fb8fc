// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// LimitFor is how many pods of the workload may run the update revision where they replace
// others.
func (d Target) LimitFor(w *Workload) int32 {
	return w.keepLastStablePod(d.Partition, d.Limit(w.Replicas))
}

// Limit is how many of replicas pods may run the update revision where they replace
// others.
func (d Target) Limit(replicas int32) int32 {
	limit := Limit(rollouts.StylePartition, d.Partition, replicas)
	if d.KeepOne && replicas > 1 {
		limit = min(limit, replicas-1)
	}
	return limit
}

// IsAllPods reports whether the share means all pods, however many there are.
func (d Target) IsAllPods(replicas int32) bool {
	if d.Partition.Type == intstr.String {
		return d.Partition == allPods
	}
	return replicas > 0 && d.Limit(replicas) >= replicas
}

// Limit is how many pods a share allows of the workload.
func (w *Workload) Limit(style rollouts.Style, share intstr.IntOrString) int32 {
	return w.keepLastStablePod(share, Limit(style, share, w.Replicas))
}

// keepLastStablePod is so many pods of a share, but for the last one where it has to stay.
func (w *Workload) keepLastStablePod(share intstr.IntOrString, pods int32) int32 {
	if w.KeepsLastStablePod && share != allPods {
		return min(pods, max(w.Replicas-1, 0))
	}
	return pods
}

// Limit is how many of replicas pods a share allows: rounded up, within
// [0, replicas]. Where update pods replace others, of more than one pod only
// the exact share "100%" means all.
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
