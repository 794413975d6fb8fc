// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// BatchRelease brings one workload batch by batch to its new revision. A
// Rollout writes its spec and reads its status.
type BatchRelease struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is written by the owning Rollout's controller.
	// +optional
	Spec BatchReleaseSpec `json:"spec,omitzero"`
	// Status is written by weir-controller.
	// +optional
	Status BatchReleaseStatus `json:"status,omitzero"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// BatchReleaseList is a list of BatchReleases.
type BatchReleaseList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// Items are the BatchReleases.
	Items []BatchRelease `json:"items"`
}

// BatchReleaseSpec names the workload and its plan.
type BatchReleaseSpec struct {
	// WorkloadRef names the workload in the namespace of the BatchRelease.
	// +optional
	WorkloadRef *ObjectRef `json:"workloadRef,omitempty"`
	// ReleasePlan has the batches, and the last batch that may run.
	ReleasePlan ReleasePlan `json:"releasePlan"`
}

// ReleasePlan has the batches of a workload, and the last batch that may run.
type ReleasePlan struct {
	// Batches are cumulative targets in their order; they are counted from 0.
	// +optional
	// +listType=atomic
	Batches []Batch `json:"batches,omitzero"`
	// BatchPartition is the last batch that may run, counted from 0. Without
	// it, the workload is returned to its native controller.
	// +optional
	BatchPartition *int32 `json:"batchPartition,omitempty"`
	// RolloutID is the value of the batch label on pods.
	// +optional
	RolloutID string `json:"rolloutID,omitempty"`
	// FailureThreshold is how many pods of the update revision, as a number or
	// a percentage, may be unready while the batch still counts as ready.
	// +optional
	FailureThreshold *intstr.IntOrString `json:"failureThreshold,omitempty"`
	// FinalizingPolicy is WaitResume or Immediate: whether the return of the workload
	// to its native controller waits until all pods are updated. Default: Immediate.
	// +optional
	FinalizingPolicy FinalizingPolicy `json:"finalizingPolicy,omitempty"`
	// PatchPodTemplateMetadata is merged into the pods of the extra Deployment.
	// +optional
	PatchPodTemplateMetadata *PodTemplateMetadata `json:"patchPodTemplateMetadata,omitempty"`
	// RollingStyle is Partition, Canary or BlueGreen.
	// +optional
	RollingStyle Style `json:"rollingStyle,omitempty"`
	// EnableExtraWorkloadForCanary is the older way to ask for the style
	// Canary; it counts only without rollingStyle.
	EnableExtraWorkloadForCanary bool `json:"enableExtraWorkloadForCanary"`
	// Revision is the update revision that the plan is meant for; without it
	// the plan is for whatever the workload's template says.
	// +optional
	Revision string `json:"revision,omitempty"`
	// UpdateTemplate is the SHA-256 digest of the template that the plan is meant
	// for. Where it is set, it decides instead of revision. Only the controller writes
	// it.
	// +optional
	UpdateTemplate string `json:"updateTemplate,omitempty"`
	// Abort moves all pods back to the stable revision and keeps the workload
	// held. Without batchPartition, the workload is returned to its native
	// controller but stays paused. Default: false.
	// +optional
	Abort bool `json:"abort,omitempty"`
	// StableRevision is the revision that the Rollout knows to be stable. Only
	// the controller writes it.
	// +optional
	StableRevision string `json:"stableRevision,omitempty"`
	// Paused creates no further pods of the update revision. Only the controller
	// writes it. Default: false.
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// Batch is a cumulative target.
type Batch struct {
	// CanaryReplicas is how many pods, as a number or a percentage of the
	// workload's replicas, run the update revision at the end of the batch.
	CanaryReplicas intstr.IntOrString `json:"canaryReplicas"`
}

// BatchReleaseStatus is what is known of the batches.
type BatchReleaseStatus struct {
	// Conditions of the BatchRelease.
	// +optional
	// +listType=atomic
	Conditions []Condition `json:"conditions,omitzero"`
	// CanaryStatus is where the current batch is.
	// +optional
	CanaryStatus BatchStatus `json:"canaryStatus,omitempty"`
	// StableRevision is the revision that served before the release.
	// +optional
	StableRevision string `json:"stableRevision,omitempty"`
	// UpdateRevision is the revision being released.
	// +optional
	UpdateRevision string `json:"updateRevision,omitempty"`
	// UpdateTemplate is the SHA-256 digest of the template of the update revision. Only
	// the controller writes it.
	// +optional
	UpdateTemplate string `json:"updateTemplate,omitempty"`
	// ObservedGeneration is the generation of the spec that was last acted upon.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// ObservedRolloutID is the rollout id that was last acted upon.
	// +optional
	ObservedRolloutID string `json:"observedRolloutID,omitempty"`
	// ObservedWorkloadReplicas is how many replicas the workload was last seen
	// to ask for; -1 before that.
	// +optional
	ObservedWorkloadReplicas int32 `json:"observedWorkloadReplicas,omitempty"`
	// CollisionCount of the workload's revisions.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`
	// ObservedReleasePlanHash identifies the plan that the batches refer to.
	// +optional
	ObservedReleasePlanHash string `json:"observedReleasePlanHash,omitempty"`
	// Phase is Preparing, Progressing, Finalizing or Completed.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// Message is the error of the last attempt at a batch.
	// +optional
	Message string `json:"message,omitempty"`
	// WorkloadUID is the uid of the workload that the plan is carried out on.
	// +optional
	WorkloadUID types.UID `json:"workloadUID,omitempty"`
	// ExtraUID is the uid of the canary Deployment.
	// +optional
	ExtraUID types.UID `json:"extraUID,omitempty"`
	// Drive is the target of the workload: how many pods may run the update
	// revision. It is absent before the first batch and after the workload was
	// returned to its native controller. Annotations of the workload repeat it.
	// +optional
	Drive *Drive `json:"drive,omitempty"`
}

// Drive is the target of a workload: how many pods may run the update revision.
type Drive struct {
	// Partition is how many pods, as a number or a percentage, may run the
	// update revision.
	Partition intstr.IntOrString `json:"partition"`
	// KeepOne keeps a pod of the stable revision if the workload is scaled down so
	// far that the partition covers all pods. Default: false.
	// +optional
	KeepOne bool `json:"keepOne,omitempty"`
	// Least is the minimum number of pods of the canary Deployment if the workload
	// is scaled down. Default: 0, which means only its share of the size.
	// +optional
	Least int32 `json:"least,omitempty"`
	// Abort sends every pod back to the stable revision. Default: false.
	// +optional
	Abort bool `json:"abort,omitempty"`
	// Revision is the revision that the partition is meant for.
	// +optional
	Revision string `json:"revision,omitempty"`
	// UpdateTemplate is the SHA-256 digest of the template that the partition is
	// meant for.
	// +optional
	UpdateTemplate string `json:"updateTemplate,omitempty"`
}

// BatchStatus is where the current batch is.
type BatchStatus struct {
	// BatchState is Upgrading, Verifying or Ready.
	// +optional
	BatchState BatchState `json:"batchState,omitempty"`
	// CurrentBatch is the batch that the release is at, counted from 0.
	CurrentBatch int32 `json:"currentBatch"`
	// BatchReadyTime is when the current batch became ready.
	// +optional
	BatchReadyTime *metav1.Time `json:"batchReadyTime,omitempty"`
	// UpdatedReplicas is how many pods of the update revision exist.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas,omitempty"`
	// UpdatedReadyReplicas is how many of them are ready.
	// +optional
	UpdatedReadyReplicas int32 `json:"updatedReadyReplicas,omitempty"`
	// NoNeedUpdateReplicas is how many pods already ran the update revision
	// when a rollback in batches began.
	// +optional
	NoNeedUpdateReplicas *int32 `json:"noNeedUpdateReplicas,omitempty"`
}
