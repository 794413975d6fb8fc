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
	// Status is written by the batch controller.
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

// BatchReleaseSpec names the workload and how far it may go.
type BatchReleaseSpec struct {
	// WorkloadRef names the workload in the namespace of the BatchRelease.
	// +optional
	WorkloadRef *ObjectRef `json:"workloadRef,omitempty"`
	// ReleasePlan is how far the workload may go.
	ReleasePlan ReleasePlan `json:"releasePlan"`
}

// ReleasePlan is how far a workload may go.
type ReleasePlan struct {
	// Batches are cumulative targets in their order; they are counted from 0.
	// +optional
	// +listType=atomic
	Batches []Batch `json:"batches,omitzero"`
	// BatchPartition is the last batch that may run, counted from 0. Without
	// it the workload is restored to its owner.
	// +optional
	BatchPartition *int32 `json:"batchPartition,omitempty"`
	// RolloutID is the value of the batch label on pods.
	// +optional
	RolloutID string `json:"rolloutID,omitempty"`
	// FailureThreshold is how many pods of the update revision, as a number or
	// a percentage, may be unready in a batch that is ready.
	// +optional
	FailureThreshold *intstr.IntOrString `json:"failureThreshold,omitempty"`
	// FinalizingPolicy is WaitResume or Immediate: whether giving the workload
	// back waits until all of its pods are updated. Default: Immediate.
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
	// Abort brings every pod back to the stable revision and keeps the
	// workload held. Without batchPartition the workload is restored but
	// stays paused. Default: false.
	// +optional
	Abort bool `json:"abort,omitempty"`
	// StableRevision is the revision that the Rollout knows to be stable. Only
	// the controller writes it.
	// +optional
	StableRevision string `json:"stableRevision,omitempty"`
	// Paused brings up no more pods of the update revision than there are. Only
	// the controller writes it. Default: false.
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
	// ExtraUID is the uid of the Deployment that was made beside the workload.
	// +optional
	ExtraUID types.UID `json:"extraUID,omitempty"`
	// Drive is how far the workload may go. Absent before it was told and after
	// it was restored; annotations of the workload repeat it.
	// +optional
	Drive *Drive `json:"drive,omitempty"`
}

// Drive is how far a workload may go.
type Drive struct {
	// Partition is how many pods, as a number or a percentage, may run the
	// update revision.
	Partition intstr.IntOrString `json:"partition"`
	// KeepOne keeps a pod of the stable revision where the workload is made so
	// small that the partition is all of its pods. Default: false.
	// +optional
	KeepOne bool `json:"keepOne,omitempty"`
	// Least is how many pods the extra Deployment of a canary release keeps where
	// the workload is made smaller. Default: 0, its share.
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
