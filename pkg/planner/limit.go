// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import "k8s.io/apimachinery/pkg/util/intstr"

// Limit is how many of replicas pods a share allows: rounded up, within
// [0, replicas]. Of more than one pod, only the exact share "100%" means all.
func Limit(share intstr.IntOrString, replicas int32) int32 {
	value, err := intstr.GetScaledValueFromIntOrPercent(&share, int(replicas), true)
	if err != nil {
		return 0
	}
	limit := min(max(int32(value), 0), replicas) //nolint:gosec // bounded by replicas
	if share.Type == intstr.String && share.StrVal != "100%" && replicas > 1 {
		limit = min(limit, replicas-1)
	}
	return limit
}
