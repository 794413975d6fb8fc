// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Values of the annotation rolling-style.
const (
	styleCanary    = "canary"
	stylePartition = "partition"
	styleBlueGreen = "bluegreen"
)

// styles are those that the annotation of a BatchRelease can name.
var styles = map[string]rollouts.Style{
	stylePartition: rollouts.StylePartition,
	styleCanary:    rollouts.StyleCanary,
	styleBlueGreen: rollouts.StyleBlueGreen,
}

// Convert_v1alpha1_Rollout_To_rollouts_Rollout reads from annotations what this
// version keeps there. The annotations stay.
func Convert_v1alpha1_Rollout_To_rollouts_Rollout(in *Rollout, out *rollouts.Rollout, s conversion.Scope) error {
	if err := autoConvert_v1alpha1_Rollout_To_rollouts_Rollout(in, out, s); err != nil {
		return err
	}
	if canary := out.Spec.Strategy.Canary; canary != nil {
		canary.ExtraWorkload = !strings.EqualFold(in.Annotations[rollouts.AnnotationRollingStyle], stylePartition)
		canary.ExtraWorkloadGiven = canary.ExtraWorkload
		if name := in.Annotations[rollouts.AnnotationTrafficRouting]; name != "" {
			canary.TrafficRoutingRef = &name
		}
	}
	return nil
}

// Convert_rollouts_Rollout_To_v1alpha1_Rollout writes to annotations what this
// version keeps there.
func Convert_rollouts_Rollout_To_v1alpha1_Rollout(in *rollouts.Rollout, out *Rollout, s conversion.Scope) error {
	if err := autoConvert_rollouts_Rollout_To_v1alpha1_Rollout(in, out, s); err != nil {
		return err
	}
	canary := in.Spec.Strategy.Canary
	if canary == nil {
		return nil
	}
	style := stylePartition
	if canary.ExtraWorkload {
		style = styleCanary
	}
	out.Annotations = annotated(out.Annotations, rollouts.AnnotationRollingStyle, style)
	if name := canary.TrafficRouting(); name != "" {
		out.Annotations = annotated(out.Annotations, rollouts.AnnotationTrafficRouting, name)
	}
	return nil
}

// annotated copies the annotations before it changes them, since a converted object
// shares its maps with the original, which may be in a cache.
func annotated(annotations map[string]string, key, value string) map[string]string {
	if old, ok := annotations[key]; ok && old == value {
		return annotations
	}
	annotations = maps.Clone(annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	return annotations
}

// Convert_v1alpha1_RolloutSpec_To_rollouts_RolloutSpec unwraps the reference.
func Convert_v1alpha1_RolloutSpec_To_rollouts_RolloutSpec(in *RolloutSpec, out *rollouts.RolloutSpec, s conversion.Scope) error {
	out.WorkloadRef = (*rollouts.ObjectRef)(in.ObjectRef.WorkloadRef)
	return autoConvert_v1alpha1_RolloutSpec_To_rollouts_RolloutSpec(in, out, s)
}

// Convert_rollouts_RolloutSpec_To_v1alpha1_RolloutSpec wraps the reference.
func Convert_rollouts_RolloutSpec_To_v1alpha1_RolloutSpec(in *rollouts.RolloutSpec, out *RolloutSpec, s conversion.Scope) error {
	out.ObjectRef.WorkloadRef = (*ObjectRef)(in.WorkloadRef)
	return autoConvert_rollouts_RolloutSpec_To_v1alpha1_RolloutSpec(in, out, s)
}

// Convert_v1alpha1_Strategy_To_rollouts_Strategy remembers whether a pause was given.
func Convert_v1alpha1_Strategy_To_rollouts_Strategy(in *Strategy, out *rollouts.Strategy, s conversion.Scope) error {
	out.PausedGiven = in.Paused != nil
	return autoConvert_v1alpha1_Strategy_To_rollouts_Strategy(in, out, s)
}

// given reads an optional boolean, and reports whether it was given.
func given(b *bool) (value, given bool) { return b != nil && *b, b != nil }

// written is the inverse of given.
func written(value, given bool) *bool {
	if value || given {
		return &value
	}
	return nil
}

// Convert_rollouts_Strategy_To_v1alpha1_Strategy drops blue-green, which this
// version cannot say.
func Convert_rollouts_Strategy_To_v1alpha1_Strategy(in *rollouts.Strategy, out *Strategy, s conversion.Scope) error {
	err := autoConvert_rollouts_Strategy_To_v1alpha1_Strategy(in, out, s)
	out.Paused = written(in.Paused, in.PausedGiven)
	return err
}

// Convert_v1alpha1_Release_To_rollouts_Release renames two fields.
func Convert_v1alpha1_Release_To_rollouts_Release(in *Release, out *rollouts.Release, s conversion.Scope) error {
	out.PodTemplateMetadata = (*rollouts.PodTemplateMetadata)(in.PatchPodTemplateMetadata)
	out.DisableCanaryService, out.DisableCanaryServiceGiven = given(in.DisableGenerateCanaryService)
	return autoConvert_v1alpha1_Release_To_rollouts_Release(in, out, s)
}

// Convert_rollouts_Release_To_v1alpha1_Release renames two fields.
func Convert_rollouts_Release_To_v1alpha1_Release(in *rollouts.Release, out *Release, s conversion.Scope) error {
	out.PatchPodTemplateMetadata = (*PodTemplateMetadata)(in.PodTemplateMetadata)
	out.DisableGenerateCanaryService = written(in.DisableCanaryService, in.DisableCanaryServiceGiven)
	return autoConvert_rollouts_Release_To_v1alpha1_Release(in, out, s)
}

// Convert_v1alpha1_Step_To_rollouts_Step turns a weight into a percentage of
// traffic and, where replicas are not given, of replicas.
func Convert_v1alpha1_Step_To_rollouts_Step(in *Step, out *rollouts.Step, s conversion.Scope) error {
	if err := autoConvert_v1alpha1_Step_To_rollouts_Step(in, out, s); err != nil {
		return err
	}
	out.Traffic = nil
	if in.Weight != nil {
		percent := fmt.Sprintf("%d%%", *in.Weight)
		out.Traffic = &percent
		if in.Replicas == nil {
			replicas := intstr.FromString(percent)
			out.Replicas = &replicas
		}
	}
	out.Pause = rollouts.Pause{}
	if in.Pause != nil {
		out.Pause = rollouts.Pause{Duration: in.Pause.Duration, Given: true}
	}
	return nil
}

// Convert_rollouts_Step_To_v1alpha1_Step turns a percentage of traffic into a
// weight. Traffic that is no percentage has none; validation refuses it.
func Convert_rollouts_Step_To_v1alpha1_Step(in *rollouts.Step, out *Step, s conversion.Scope) error {
	out.Weight = nil
	if in.Traffic != nil {
		traffic := intstr.FromString(*in.Traffic)
		if percent, err := intstr.GetScaledValueFromIntOrPercent(&traffic, 100, true); err == nil {
			weight := int32(percent)
			out.Weight = &weight
		}
	}
	out.Pause = nil
	if in.Pause.Given || in.Pause.Duration != nil {
		out.Pause = &Pause{Duration: in.Pause.Duration}
	}
	return autoConvert_rollouts_Step_To_v1alpha1_Step(in, out, s)
}

// Convert_rollouts_RouteMatch_To_v1alpha1_RouteMatch keeps the headers only,
// which is all that this version can say.
func Convert_rollouts_RouteMatch_To_v1alpha1_RouteMatch(in *rollouts.RouteMatch, out *RouteMatch, s conversion.Scope) error {
	return autoConvert_rollouts_RouteMatch_To_v1alpha1_RouteMatch(in, out, s)
}

// Convert_rollouts_RolloutStatus_To_v1alpha1_RolloutStatus drops the progress of
// blue-green, which this version cannot say.
func Convert_rollouts_RolloutStatus_To_v1alpha1_RolloutStatus(in *rollouts.RolloutStatus, out *RolloutStatus, s conversion.Scope) error {
	return autoConvert_rollouts_RolloutStatus_To_v1alpha1_RolloutStatus(in, out, s)
}

// Convert_v1alpha1_BatchRelease_To_rollouts_BatchRelease reads the style from
// the annotation; the field of the plan does not count.
func Convert_v1alpha1_BatchRelease_To_rollouts_BatchRelease(in *BatchRelease, out *rollouts.BatchRelease, s conversion.Scope) error {
	err := autoConvert_v1alpha1_BatchRelease_To_rollouts_BatchRelease(in, out, s)
	out.Spec.Plan.RollingStyle = styles[strings.ToLower(in.Annotations[rollouts.AnnotationRollingStyle])]
	return err
}

// Convert_rollouts_BatchRelease_To_v1alpha1_BatchRelease writes the style to the
// annotation, an empty one too.
func Convert_rollouts_BatchRelease_To_v1alpha1_BatchRelease(in *rollouts.BatchRelease, out *BatchRelease, s conversion.Scope) error {
	if err := autoConvert_rollouts_BatchRelease_To_v1alpha1_BatchRelease(in, out, s); err != nil {
		return err
	}
	style := strings.ToLower(string(in.Spec.Plan.RollingStyle))
	out.Annotations = annotated(out.Annotations, rollouts.AnnotationRollingStyle, style)
	return nil
}

// Convert_v1alpha1_BatchReleaseSpec_To_rollouts_BatchReleaseSpec renames plan and reference.
func Convert_v1alpha1_BatchReleaseSpec_To_rollouts_BatchReleaseSpec(in *BatchReleaseSpec, out *rollouts.BatchReleaseSpec, s conversion.Scope) error {
	out.WorkloadRef = (*rollouts.ObjectRef)(in.TargetReference.WorkloadRef)
	return Convert_v1alpha1_ReleasePlan_To_rollouts_ReleasePlan(&in.ReleasePlan, &out.Plan, s)
}

// Convert_rollouts_BatchReleaseSpec_To_v1alpha1_BatchReleaseSpec renames plan and reference.
func Convert_rollouts_BatchReleaseSpec_To_v1alpha1_BatchReleaseSpec(in *rollouts.BatchReleaseSpec, out *BatchReleaseSpec, s conversion.Scope) error {
	out.TargetReference.WorkloadRef = (*ObjectRef)(in.WorkloadRef)
	return Convert_rollouts_ReleasePlan_To_v1alpha1_ReleasePlan(&in.Plan, &out.ReleasePlan, s)
}

// Convert_v1alpha1_ReleasePlan_To_rollouts_ReleasePlan renames two fields.
func Convert_v1alpha1_ReleasePlan_To_rollouts_ReleasePlan(in *ReleasePlan, out *rollouts.ReleasePlan, s conversion.Scope) error {
	out.PodTemplateMetadata = (*rollouts.PodTemplateMetadata)(in.PatchPodTemplateMetadata)
	out.ExtraWorkload = in.EnableExtraWorkloadForCanary
	return autoConvert_v1alpha1_ReleasePlan_To_rollouts_ReleasePlan(in, out, s)
}

// Convert_rollouts_ReleasePlan_To_v1alpha1_ReleasePlan renames two fields.
func Convert_rollouts_ReleasePlan_To_v1alpha1_ReleasePlan(in *rollouts.ReleasePlan, out *ReleasePlan, s conversion.Scope) error {
	out.PatchPodTemplateMetadata = (*PodTemplateMetadata)(in.PodTemplateMetadata)
	out.EnableExtraWorkloadForCanary = in.ExtraWorkload
	return autoConvert_rollouts_ReleasePlan_To_v1alpha1_ReleasePlan(in, out, s)
}

// Convert_v1alpha1_BatchReleaseStatus_To_rollouts_BatchReleaseStatus flattens the batch.
func Convert_v1alpha1_BatchReleaseStatus_To_rollouts_BatchReleaseStatus(in *BatchReleaseStatus, out *rollouts.BatchReleaseStatus, s conversion.Scope) error {
	out.BatchState = rollouts.BatchState(in.CanaryStatus.BatchState)
	out.CurrentBatch = in.CanaryStatus.CurrentBatch
	out.BatchReadyTime = in.CanaryStatus.BatchReadyTime
	out.UpdatedReplicas = in.CanaryStatus.UpdatedReplicas
	out.UpdatedReadyReplicas = in.CanaryStatus.UpdatedReadyReplicas
	out.NoNeedUpdateReplicas = in.CanaryStatus.NoNeedUpdateReplicas
	return autoConvert_v1alpha1_BatchReleaseStatus_To_rollouts_BatchReleaseStatus(in, out, s)
}

// Convert_rollouts_BatchReleaseStatus_To_v1alpha1_BatchReleaseStatus gathers the batch.
func Convert_rollouts_BatchReleaseStatus_To_v1alpha1_BatchReleaseStatus(in *rollouts.BatchReleaseStatus, out *BatchReleaseStatus, s conversion.Scope) error {
	out.CanaryStatus = BatchStatus{
		BatchState:           BatchState(in.BatchState),
		CurrentBatch:         in.CurrentBatch,
		BatchReadyTime:       in.BatchReadyTime,
		UpdatedReplicas:      in.UpdatedReplicas,
		UpdatedReadyReplicas: in.UpdatedReadyReplicas,
		NoNeedUpdateReplicas: in.NoNeedUpdateReplicas,
	}
	return autoConvert_rollouts_BatchReleaseStatus_To_v1alpha1_BatchReleaseStatus(in, out, s)
}
