// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Limit is how many of replicas pods may run the update revision where they replace
// others.
func (d Drive) Limit(replicas int32) int32 {
	limit := Limit(rollouts.StylePartition, d.Partition, replicas)
	if d.KeepOne && replicas > 1 {
		limit = min(limit, replicas-1)
	}
	return limit
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
