// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	"k8s.io/apimachinery/pkg/conversion"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// These are the conversions that conversion-gen cannot write, because the hub has one
// type where the wire has two, or names or repeats a field differently.

// Convert_v1beta1_RolloutSpec_To_rollouts_RolloutSpec reads a missing workloadRef as nil.
func Convert_v1beta1_RolloutSpec_To_rollouts_RolloutSpec(in *RolloutSpec, out *rollouts.RolloutSpec, s conversion.Scope) error {
	out.WorkloadRef = nil
	if ref := rollouts.ObjectRef(in.WorkloadRef); ref != (rollouts.ObjectRef{}) {
		out.WorkloadRef = &ref
	}
	return autoConvert_v1beta1_RolloutSpec_To_rollouts_RolloutSpec(in, out, s)
}

// Convert_rollouts_RolloutSpec_To_v1beta1_RolloutSpec drops the rollout id,
// which this version does not have.
func Convert_rollouts_RolloutSpec_To_v1beta1_RolloutSpec(in *rollouts.RolloutSpec, out *RolloutSpec, s conversion.Scope) error {
	out.WorkloadRef = ObjectRef{}
	if in.WorkloadRef != nil {
		out.WorkloadRef = ObjectRef(*in.WorkloadRef)
	}
	return autoConvert_rollouts_RolloutSpec_To_v1beta1_RolloutSpec(in, out, s)
}

// Convert_v1beta1_Strategy_To_rollouts_Strategy remembers whether a pause was given.
func Convert_v1beta1_Strategy_To_rollouts_Strategy(in *Strategy, out *rollouts.Strategy, s conversion.Scope) error {
	out.PausedGiven = in.Paused != nil
	return autoConvert_v1beta1_Strategy_To_rollouts_Strategy(in, out, s)
}

// Convert_rollouts_Strategy_To_v1beta1_Strategy writes a pause where one was given.
func Convert_rollouts_Strategy_To_v1beta1_Strategy(in *rollouts.Strategy, out *Strategy, s conversion.Scope) error {
	err := autoConvert_rollouts_Strategy_To_v1beta1_Strategy(in, out, s)
	out.Paused = written(in.Paused, in.PausedGiven)
	return err
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

// Convert_v1beta1_CanaryStrategy_To_rollouts_Release adds what canary has beyond a release.
func Convert_v1beta1_CanaryStrategy_To_rollouts_Release(in *CanaryStrategy, out *rollouts.Release, s conversion.Scope) error {
	out.PodTemplateMetadata = (*rollouts.PodTemplateMetadata)(in.PatchPodTemplateMetadata)
	out.ExtraWorkload, out.ExtraWorkloadGiven = given(in.EnableExtraWorkloadForCanary)
	return Convert_v1beta1_Release_To_rollouts_Release(&in.Release, out, s)
}

// Convert_rollouts_Release_To_v1beta1_CanaryStrategy adds what canary has beyond a release.
func Convert_rollouts_Release_To_v1beta1_CanaryStrategy(in *rollouts.Release, out *CanaryStrategy, s conversion.Scope) error {
	out.PatchPodTemplateMetadata = (*PodTemplateMetadata)(in.PodTemplateMetadata)
	out.EnableExtraWorkloadForCanary = written(in.ExtraWorkload, in.ExtraWorkloadGiven)
	return Convert_rollouts_Release_To_v1beta1_Release(in, &out.Release, s)
}

// Convert_v1beta1_BlueGreenStrategy_To_rollouts_Release is the plain release.
func Convert_v1beta1_BlueGreenStrategy_To_rollouts_Release(in *BlueGreenStrategy, out *rollouts.Release, s conversion.Scope) error {
	return Convert_v1beta1_Release_To_rollouts_Release(&in.Release, out, s)
}

// Convert_rollouts_Release_To_v1beta1_BlueGreenStrategy is the plain release.
func Convert_rollouts_Release_To_v1beta1_BlueGreenStrategy(in *rollouts.Release, out *BlueGreenStrategy, s conversion.Scope) error {
	return Convert_rollouts_Release_To_v1beta1_Release(in, &out.Release, s)
}

// Convert_v1beta1_Release_To_rollouts_Release renames the canary Service's switch.
func Convert_v1beta1_Release_To_rollouts_Release(in *Release, out *rollouts.Release, s conversion.Scope) error {
	out.DisableCanaryService, out.DisableCanaryServiceGiven = given(in.DisableGenerateCanaryService)
	return autoConvert_v1beta1_Release_To_rollouts_Release(in, out, s)
}

// Convert_rollouts_Release_To_v1beta1_Release renames the canary Service's switch.
func Convert_rollouts_Release_To_v1beta1_Release(in *rollouts.Release, out *Release, s conversion.Scope) error {
	out.DisableGenerateCanaryService = written(in.DisableCanaryService, in.DisableCanaryServiceGiven)
	return autoConvert_rollouts_Release_To_v1beta1_Release(in, out, s)
}

// Convert_v1beta1_Step_To_rollouts_Step remembers whether a pause was given.
func Convert_v1beta1_Step_To_rollouts_Step(in *Step, out *rollouts.Step, s conversion.Scope) error {
	out.Pause = rollouts.Pause{}
	if in.Pause != nil {
		out.Pause = rollouts.Pause{Duration: in.Pause.Duration, Given: true}
	}
	return autoConvert_v1beta1_Step_To_rollouts_Step(in, out, s)
}

// Convert_rollouts_Step_To_v1beta1_Step writes a pause where one was given.
func Convert_rollouts_Step_To_v1beta1_Step(in *rollouts.Step, out *Step, s conversion.Scope) error {
	out.Pause = nil
	if in.Pause.Given || in.Pause.Duration != nil {
		out.Pause = &Pause{Duration: in.Pause.Duration}
	}
	return autoConvert_rollouts_Step_To_v1beta1_Step(in, out, s)
}

// Convert_rollouts_RolloutStatus_To_v1beta1_RolloutStatus computes the mirror of
// the step from the sub-status.
func Convert_rollouts_RolloutStatus_To_v1beta1_RolloutStatus(in *rollouts.RolloutStatus, out *RolloutStatus, s conversion.Scope) error {
	out.CurrentStepIndex, out.CurrentStepState = 0, ""
	if p := in.Active(); p != nil {
		out.CurrentStepIndex, out.CurrentStepState = p.CurrentStepIndex, StepState(p.State)
	}
	return autoConvert_rollouts_RolloutStatus_To_v1beta1_RolloutStatus(in, out, s)
}

// Convert_v1beta1_CanaryStatus_To_rollouts_Progress adds what canary names in its own way.
func Convert_v1beta1_CanaryStatus_To_rollouts_Progress(in *CanaryStatus, out *rollouts.Progress, s conversion.Scope) error {
	out.UpdateRevision = in.CanaryRevision
	out.UpdateReplicas = in.CanaryReplicas
	out.UpdateReadyReplicas = in.CanaryReadyReplicas
	return Convert_v1beta1_Progress_To_rollouts_Progress(&in.Progress, out, s)
}

// Convert_rollouts_Progress_To_v1beta1_CanaryStatus adds what canary names in its own way.
func Convert_rollouts_Progress_To_v1beta1_CanaryStatus(in *rollouts.Progress, out *CanaryStatus, s conversion.Scope) error {
	out.CanaryRevision = in.UpdateRevision
	out.CanaryReplicas = in.UpdateReplicas
	out.CanaryReadyReplicas = in.UpdateReadyReplicas
	return Convert_rollouts_Progress_To_v1beta1_Progress(in, &out.Progress, s)
}

// Convert_v1beta1_BlueGreenStatus_To_rollouts_Progress adds what blue-green names in its own way.
func Convert_v1beta1_BlueGreenStatus_To_rollouts_Progress(in *BlueGreenStatus, out *rollouts.Progress, s conversion.Scope) error {
	out.UpdateRevision = in.UpdatedRevision
	out.UpdateReplicas = in.UpdatedReplicas
	out.UpdateReadyReplicas = in.UpdatedReadyReplicas
	return Convert_v1beta1_Progress_To_rollouts_Progress(&in.Progress, out, s)
}

// Convert_rollouts_Progress_To_v1beta1_BlueGreenStatus adds what blue-green names in its own way.
func Convert_rollouts_Progress_To_v1beta1_BlueGreenStatus(in *rollouts.Progress, out *BlueGreenStatus, s conversion.Scope) error {
	out.UpdatedRevision = in.UpdateRevision
	out.UpdatedReplicas = in.UpdateReplicas
	out.UpdatedReadyReplicas = in.UpdateReadyReplicas
	return Convert_rollouts_Progress_To_v1beta1_Progress(in, &out.Progress, s)
}

// Convert_rollouts_Progress_To_v1beta1_Progress is the part that all styles share.
func Convert_rollouts_Progress_To_v1beta1_Progress(in *rollouts.Progress, out *Progress, s conversion.Scope) error {
	return autoConvert_rollouts_Progress_To_v1beta1_Progress(in, out, s)
}

// Convert_v1beta1_BatchReleaseSpec_To_rollouts_BatchReleaseSpec renames the plan.
func Convert_v1beta1_BatchReleaseSpec_To_rollouts_BatchReleaseSpec(in *BatchReleaseSpec, out *rollouts.BatchReleaseSpec, s conversion.Scope) error {
	out.WorkloadRef = (*rollouts.ObjectRef)(in.WorkloadRef)
	return Convert_v1beta1_ReleasePlan_To_rollouts_ReleasePlan(&in.ReleasePlan, &out.Plan, s)
}

// Convert_rollouts_BatchReleaseSpec_To_v1beta1_BatchReleaseSpec renames the plan.
func Convert_rollouts_BatchReleaseSpec_To_v1beta1_BatchReleaseSpec(in *rollouts.BatchReleaseSpec, out *BatchReleaseSpec, s conversion.Scope) error {
	out.WorkloadRef = (*ObjectRef)(in.WorkloadRef)
	return Convert_rollouts_ReleasePlan_To_v1beta1_ReleasePlan(&in.Plan, &out.ReleasePlan, s)
}

// Convert_v1beta1_ReleasePlan_To_rollouts_ReleasePlan renames two fields.
func Convert_v1beta1_ReleasePlan_To_rollouts_ReleasePlan(in *ReleasePlan, out *rollouts.ReleasePlan, s conversion.Scope) error {
	out.PodTemplateMetadata = (*rollouts.PodTemplateMetadata)(in.PatchPodTemplateMetadata)
	out.ExtraWorkload = in.EnableExtraWorkloadForCanary
	return autoConvert_v1beta1_ReleasePlan_To_rollouts_ReleasePlan(in, out, s)
}

// Convert_rollouts_ReleasePlan_To_v1beta1_ReleasePlan renames two fields.
func Convert_rollouts_ReleasePlan_To_v1beta1_ReleasePlan(in *rollouts.ReleasePlan, out *ReleasePlan, s conversion.Scope) error {
	out.PatchPodTemplateMetadata = (*PodTemplateMetadata)(in.PodTemplateMetadata)
	out.EnableExtraWorkloadForCanary = in.ExtraWorkload
	return autoConvert_rollouts_ReleasePlan_To_v1beta1_ReleasePlan(in, out, s)
}

// Convert_v1beta1_BatchReleaseStatus_To_rollouts_BatchReleaseStatus flattens the batch.
func Convert_v1beta1_BatchReleaseStatus_To_rollouts_BatchReleaseStatus(in *BatchReleaseStatus, out *rollouts.BatchReleaseStatus, s conversion.Scope) error {
	out.BatchState = rollouts.BatchState(in.CanaryStatus.BatchState)
	out.CurrentBatch = in.CanaryStatus.CurrentBatch
	out.BatchReadyTime = in.CanaryStatus.BatchReadyTime
	out.UpdatedReplicas = in.CanaryStatus.UpdatedReplicas
	out.UpdatedReadyReplicas = in.CanaryStatus.UpdatedReadyReplicas
	out.NoNeedUpdateReplicas = in.CanaryStatus.NoNeedUpdateReplicas
	return autoConvert_v1beta1_BatchReleaseStatus_To_rollouts_BatchReleaseStatus(in, out, s)
}

// Convert_rollouts_BatchReleaseStatus_To_v1beta1_BatchReleaseStatus gathers the batch.
func Convert_rollouts_BatchReleaseStatus_To_v1beta1_BatchReleaseStatus(in *rollouts.BatchReleaseStatus, out *BatchReleaseStatus, s conversion.Scope) error {
	out.CanaryStatus = BatchStatus{
		BatchState:           BatchState(in.BatchState),
		CurrentBatch:         in.CurrentBatch,
		BatchReadyTime:       in.BatchReadyTime,
		UpdatedReplicas:      in.UpdatedReplicas,
		UpdatedReadyReplicas: in.UpdatedReadyReplicas,
		NoNeedUpdateReplicas: in.NoNeedUpdateReplicas,
	}
	return autoConvert_rollouts_BatchReleaseStatus_To_v1beta1_BatchReleaseStatus(in, out, s)
}
