// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// ObjectsOfRollout returns the objects that a Rollout routes with, without their content, and the
// reference that names them; nil if the Rollout names none. The owner refers to the Rollout.
func ObjectsOfRollout(r *rollouts.Rollout, owner metav1.OwnerReference) (Objects, *rollouts.TrafficRoutingRef) {
	style, plan := r.Spec.Strategy.Active()
	if plan == nil || len(plan.TrafficRoutings) == 0 {
		return Objects{}, nil
	}
	ref := plan.TrafficRoutings[0]
	o := Objects{
		Owner:           owner,
		Shared:          plan.DisableCanaryService,
		Routers:         RoutersFor(ref, "spec.strategy."+style.Key()+".trafficRoutings[0]"),
		AcquiredByOwner: r.Status.Network != nil,
		OriginalDigests: planner.OriginalDigests(r),
		CreatedUIDs:     planner.CreatedUIDs(r),
	}
	if p := r.Status.Active(); p != nil {
		o.StableRevision = p.StableRevision
	}
	if m := plan.PodTemplateMetadata; m != nil && rollouts.StyleFor(&r.Spec.Strategy, r.Spec.WorkloadRef) == rollouts.StyleCanary {
		o.CanaryPodLabels = m.Labels
	}
	return o, &ref
}
