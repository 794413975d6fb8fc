// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// BatchRelease updates one workload to its new revision batch by batch. A Rollout
// writes its spec and reads its status.
type BatchRelease struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Spec   BatchReleaseSpec
	Status BatchReleaseStatus
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// BatchReleaseList is a list of BatchReleases.
type BatchReleaseList struct {
	metav1.TypeMeta
	metav1.ListMeta

	Items []BatchRelease
}

// BatchReleaseSpec names the workload and the plan.
type BatchReleaseSpec struct {
	// WorkloadRef names the workload; validation refuses nil.
	WorkloadRef *ObjectRef
	Plan        ReleasePlan
}

// ReleasePlan has the batches of a workload, and the last batch that may run.
type ReleasePlan struct {
	Batches []Batch
	// BatchPartition is the 0-based last batch that may run; nil returns the workload to its
	// native controller.
	BatchPartition *int32
	// RolloutID is the value of the batch label on pods.
	RolloutID        string
	FailureThreshold *intstr.IntOrString
	FinalizingPolicy FinalizingPolicy
	// PodTemplateMetadata is merged into the pods of the extra workload.
	PodTemplateMetadata *PodTemplateMetadata
	RollingStyle        Style
	// ExtraWorkload is the older way to ask for the canary style.
	ExtraWorkload bool
	// Revision is the revision that the plan is for. While the workload has another
	// template, the controller upgrades nothing and does not return the workload.
	// Empty means any revision. Weir's own.
	Revision string
	// Abort brings every pod back to the stable revision and keeps the
	// workload held. With BatchPartition nil, the workload is restored but
	// stays paused. Weir's own.
	Abort bool
	// UpdateTemplate is the digest of the template of Revision. Templates are compared by this
	// digest; Revision is compared only in plans of earlier versions of Weir, which have no
	// digest. OpenKruise does not have this field.
	UpdateTemplate string
	// StableRevision is the revision that the Rollout knows to be stable; empty
	// where no Rollout has written the plan. Weir's own.
	StableRevision string
	// Paused adds no pods of the update revision. Weir's own.
	Paused bool
}

// Batch is a cumulative target.
type Batch struct {
	CanaryReplicas intstr.IntOrString
}

// BatchReleaseStatus is the state of the batches.
type BatchReleaseStatus struct {
	Phase                    Phase
	Message                  string
	Conditions               []Condition
	ObservedGeneration       int64
	ObservedRolloutID        string
	ObservedReleasePlanHash  string
	ObservedWorkloadReplicas int32
	StableRevision           string
	UpdateRevision           string
	CollisionCount           *int32
	BatchState               BatchState
	CurrentBatch             int32
	BatchReadyTime           *metav1.Time
	UpdatedReplicas          int32
	UpdatedReadyReplicas     int32
	NoNeedUpdateReplicas     *int32
	// UpdateTemplate is the digest of the template of UpdateRevision. OpenKruise does not have
	// this field.
	UpdateTemplate string
	// WorkloadUID is the uid of the workload that the plan is carried out on, since a
	// later workload may have the same name. Weir's own.
	WorkloadUID types.UID
	// ExtraUID is the uid of the extra Deployment. The controller finds and deletes it by
	// this uid, whatever its owner references say. Weir's own.
	ExtraUID types.UID
	// Drive is the target of the workload; nil before it is first set and after the workload
	// was returned to its native controller. Annotations of the workload are a copy. Weir's own.
	Drive *Drive
}

// Drive is the target of a workload: how many pods may run the update revision.
type Drive struct {
	// Partition is how many pods may run the update revision.
	Partition intstr.IntOrString
	// KeepOne keeps a pod of the stable revision if the workload is scaled down so far
	// that Partition is all of its pods.
	KeepOne bool
	// Least is how many pods the extra Deployment keeps if the workload is scaled down.
	Least int32
	// Abort sends every pod back to the stable revision.
	Abort bool
	// Revision is the revision that Partition applies to, and UpdateTemplate the digest of its
	// template. If the workload has another template, sizes stay as they are until a new Drive.
	Revision       string
	UpdateTemplate string
}
