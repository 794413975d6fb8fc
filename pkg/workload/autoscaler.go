// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weir-rollouts/weir/pkg/object"
)

// disabledSuffix is appended to the target name of an autoscaler to disable it. OpenKruise uses the
// same suffix.
const disabledSuffix = "-DisableByRollout"

// EnableAutoscalers returns the changes that point the disabled autoscalers of a workload back at
// it. The workload itself may be gone.
func (r Row) EnableAutoscalers(name string, beside []object.Object) []object.Change {
	if !r.OwnsAutoscalers {
		return nil
	}
	return retargetAutoscalers(findAutoscalers(name, r.GVK, beside, true), name)
}

// findAutoscalers returns the autoscalers of a workload that are disabled, or those that are not.
func findAutoscalers(name string, kind schema.GroupVersionKind, owned []object.Object, disabled bool) []*autoscalingv2.HorizontalPodAutoscaler {
	var found []*autoscalingv2.HorizontalPodAutoscaler
	for _, o := range owned {
		h, ok := o.(*autoscalingv2.HorizontalPodAutoscaler)
		if !ok || schema.FromAPIVersionAndKind(h.Spec.ScaleTargetRef.APIVersion, h.Spec.ScaleTargetRef.Kind).GroupKind() != kind.GroupKind() {
			continue
		}
		if is := AutoscalerTarget(h) != h.Spec.ScaleTargetRef.Name; AutoscalerTarget(h) == name && is == disabled {
			found = append(found, h)
		}
	}
	return found
}

// AutoscalerTarget returns the name of the workload that an autoscaler scales, or would scale if it
// were not disabled.
func AutoscalerTarget(h *autoscalingv2.HorizontalPodAutoscaler) string {
	return strings.TrimSuffix(h.Spec.ScaleTargetRef.Name, disabledSuffix)
}

// retargetAutoscalers points autoscalers at a target.
func retargetAutoscalers(scalers []*autoscalingv2.HorizontalPodAutoscaler, target string) []object.Change {
	var changes []object.Change
	for _, h := range scalers {
		want := h.DeepCopy()
		want.Spec.ScaleTargetRef.Name = target
		changes = append(changes, changesBetween(h, want)...)
	}
	return changes
}
