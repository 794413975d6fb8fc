// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Input is everything that one reconcile of a Rollout has observed.
type Input struct {
	Now     time.Time
	Rollout *rollouts.Rollout
	// Unsupported is the reason why the workload cannot be released; empty if it can.
	Unsupported string
	// Workload is nil if the object does not exist.
	Workload *Workload
	// Indexed reports whether the parameters of the admission policies list exactly the workload of
	// this Rollout. Listed reports whether they have any entry for this Rollout.
	Indexed, Listed bool
	// Unprotected names the part of the admission configuration that is missing; empty if it is complete.
	Unprotected string
	// Batch is nil if the Rollout has no BatchRelease.
	Batch *Batch
	// BatchInput is the input for DecideBatch. Its Release is nil if the Rollout has no BatchRelease
	// yet. BatchInput is nil if the workload cannot be read.
	BatchInput *BatchInput
	// ReplicaSets are the ReplicaSets that this Rollout scales; nil if it scales none.
	ReplicaSets ReplicaSetScaler
	// BatchNameConflict is the message about another BatchRelease that has the name which this
	// Rollout needs; empty if there is none.
	BatchNameConflict string
	// Route is the observed traffic routing; nil if the plan routes no traffic.
	Route *Route
	// Originals are digests of the routers as they were before the release changed them.
	Originals []string
	// TamperedRecord names a router with a record that matches none of Originals; empty if there is none.
	TamperedRecord string
	// Routing is the TrafficRouting that the Rollout references; nil if it references none.
	Routing *Routing
	// Histories are the stored RolloutHistories, by the number of the release, of the releases
	// that ReleasesWithoutHistory returns.
	Histories map[int64]rollouts.RolloutHistoryStatus
	// Measured are the checks of the plan with their measurements.
	Measured []MeasuredCheck
	// Pods is the health of the pods of both revisions; nil if nothing checks the pods.
	Pods *PodHealthByRevision
	// PodsCheck is the reaction to crashing new pods if the plan has no analysis.
	PodsCheck rollouts.OnFail
}

// Workload is the observed state of a workload of any kind.
type Workload struct {
	// UID identifies the object. A workload that was deleted and created again has another UID.
	UID        types.UID
	Generation int64
	// Settled reports whether the native controller has observed the current generation.
	Settled bool
	// Labelled reports whether the workload has the label by which admission selects workloads.
	Labelled bool
	// Paused reports whether the native controller does not roll out the workload.
	Paused   bool
	Replicas int32
	// NativeUpdateRunning reports whether a native rolling update is in progress.
	NativeUpdateRunning bool
	// RolloutID is the name that the user gave to the release; empty if there is none.
	RolloutID string
	// ProgressDeadline is spec.progressDeadlineSeconds as the owner wrote it; 0 if it is not set.
	ProgressDeadline int32
	// MaxUnavailable is how many pods may be unavailable according to the owner's strategy.
	MaxUnavailable int32
	// UnsupportedReason is the reason why the workload cannot be released in its current form; empty
	// if it can.
	UnsupportedReason string

	KindTraits
	HoldFacts
	RevisionFacts
	PodFacts
	DeletionFacts
	Extra ExtraDeployment
}

// KindTraits says how the kind of a workload behaves in the style of the release.
type KindTraits struct {
	// UsesSurge reports whether new pods are added and all old pods stay until the end of the release.
	UsesSurge bool
	// KeepsLastStablePod reports whether one stable pod stays until a step asks for all pods, even if
	// the workload has only one pod. Without a stable pod the native controller would create every
	// further pod from the update revision, regardless of the partition.
	KeepsLastStablePod bool
	// NewPodsUseTemplate reports whether pods that are created while the workload is held have
	// the live template.
	NewPodsUseTemplate bool
	// AbortSetsTemplate reports whether an abort writes the stable template into the workload.
	AbortSetsTemplate bool
	// SizedByStore reports whether a new target needs no write to the workload, because Weir scales
	// its ReplicaSets by the stored status.
	SizedByStore bool
	// RevisionKind is the kind of the object that stores the template of a revision: ReplicaSet or
	// ControllerRevision.
	RevisionKind string
	// ResumeHint says what the owner changes in the spec so that a stopped controller
	// continues.
	ResumeHint string
}

// HoldFacts says what Weir has written to a workload: the hold, and the last target.
type HoldFacts struct {
	// Held reports whether Weir prevents the native controller from rolling out the workload.
	Held bool
	// HasManagedFields reports whether Weir annotations or strategy changes remain on the workload.
	HasManagedFields bool
	// HoldRemoved reports whether the native controller would roll out the live template although
	// the stored status says that the workload is held.
	HoldRemoved bool
	// TamperedKeys are Weir's keys on the workload whose value somebody else has changed.
	TamperedKeys []string
	// PendingEdit reports whether an admission policy has noted an edit of the held workload that
	// Weir has not applied yet.
	PendingEdit bool
	// HasUnknownRecords reports whether annotations of the workload name a BatchRelease that the
	// stored status does not know.
	HasUnknownRecords bool
	// OwnerStrategyActive reports whether the owner's own update strategy is in effect.
	OwnerStrategyActive bool
	// Target is the target that was last written to the workload; nil if there is none.
	Target *Target
	// TargetApplied reports whether everything that Target implies is written.
	TargetApplied bool
	// ExtraStatusStale reports whether the annotation that publishes pod counts, or the record of the
	// last target, is out of date.
	ExtraStatusStale bool
	// LastRequeueAnnotation is the time in the annotation with which RequeueWorkload last asked the
	// native controller to reconcile the workload.
	LastRequeueAnnotation string
}

// RevisionFacts names the templates of a workload.
type RevisionFacts struct {
	// StableRevision is the revision that served before the release.
	StableRevision string
	// StableTemplate is the digest of the template in the object of the stable revision.
	StableTemplate string
	// StableRevisionGone reports whether the object of the stable revision does not exist.
	StableRevisionGone bool
	// HasStableTemplate reports whether the live template is the stable revision's.
	HasStableTemplate bool
	// UpdateRevision is the name of the template to release. For kinds whose native controller
	// names revisions, it is empty until the controller has done so. It is a short hash, so it does
	// not identify the template.
	UpdateRevision string
	// UpdateTemplate is the SHA-256 digest of the template to release, which identifies it.
	// It is empty while an abort has replaced that template by the stable one
	// (AbortSetsTemplate): then the stored status has the revision.
	UpdateTemplate string
	// PodTemplateHash is the value of the revision label on pods of the live template. It is empty
	// until the native controller has created the revision.
	PodTemplateHash string
	// LiveRevision is the value of the revision label on the workload's own pods of the live
	// template. It is the update revision unless that revision has its pods in an extra Deployment.
	LiveRevision string
	// NewestReadyRevision is the newest revision with ready pods, other than the revision of the live
	// template. It is set if the native controller was stopped in the middle of a rolling update.
	NewestReadyRevision string
	// NewestReadyTemplate is the digest of the template of NewestReadyRevision.
	NewestReadyTemplate string
	// Revisions are the existing revisions, as values of the revision label on pods.
	Revisions []string
}

// PodFacts counts the pods of a workload by revision, and says what prevents or delays pods.
type PodFacts struct {
	// StableReplicas is the desired number of pods of all revisions other than the update revision.
	StableReplicas int32
	// StableReadyReplicas counts the ready pods of the stable revision.
	StableReadyReplicas int32
	// UpdatedReplicas counts the pods of the update revision.
	// UpdatedReadyReplicas counts the ready pods among them.
	UpdatedReplicas, UpdatedReadyReplicas int32
	// LiveReadyReplicas counts the ready pods of LiveRevision.
	LiveReadyReplicas int32
	// SupersededReplicas is the part of StableReplicas that belongs to revisions other than the
	// stable one. When a third template is set, the pods of the current release count here, too.
	SupersededReplicas int32
	// SupersededKept is the part of SupersededReplicas that returns to the stable revision only after
	// all pods of the update revision have.
	SupersededKept int32
	// HasSurplusPods reports whether more pods exist than spec.replicas allows.
	HasSurplusPods bool
	// AvailableLater is the message that new pods are ready but not yet available because of
	// minReadySeconds; empty if all ready new pods are available.
	AvailableLater string
	// PodCreationErrors says why pods of a revision cannot be created, by the value of their revision label.
	PodCreationErrors map[string]string
}

// DeletionFacts are messages about deleted objects that finalizers keep. Each is empty if there are none.
type DeletionFacts struct {
	// Deleted is the message about finalizers that keep the deleted workload. The workload then counts
	// as gone.
	Deleted string
	// DeletionBlocked is the message about finalizers that keep a deleted object of the workload, or
	// its extra Deployment.
	DeletionBlocked string
	// DeletedPodsRun is the message about deleted objects whose pods run until finalizers are removed.
	DeletedPodsRun string
	// AdoptableSet is the message about a deleted ReplicaSet without pods that the native controller
	// would take for the ReplicaSet of the live template as soon as the workload is restored.
	AdoptableSet string
}

// ExtraDeployment is the extra Deployment of a canary release. It is empty in other styles.
type ExtraDeployment struct {
	// Exists reports whether an extra Deployment exists.
	Exists bool
	UID    types.UID
	// Tampered reports whether a user has changed its template, its size or its owner.
	Tampered bool
	// Needed is the reason why requests still need it; empty if they do not.
	Needed string
	// NameConflict is the message about another object that has its name.
	NameConflict string
}

// hasPods reports whether the workload has pods, or should have pods.
func (w *Workload) hasPods() bool {
	return w.StableReplicas > 0 || w.StableReadyReplicas > 0 || w.UpdatedReplicas > 0
}

// Target is how many pods of the workload may run the update revision.
type Target struct {
	// Partition is the number or share of pods that may run the update revision.
	Partition intstr.IntOrString
	// KeepOne keeps one stable pod if the workload is scaled down so far that Partition would be all
	// of its pods.
	KeepOne bool
	// MinExtraReplicas is the smallest size of the extra Deployment if the workload is scaled down.
	MinExtraReplicas int32
	// Abort returns all pods to the stable revision.
	Abort bool
	// Owner is the UID of the BatchRelease that wrote the target.
	Owner types.UID
	// Revision is the revision that Partition applies to. While the workload has another
	// template, its sizes stay as they are until a new target is written.
	Revision Revision
}

// Batch is the observed state of a BatchRelease.
type Batch struct {
	// Plan is the release plan in the spec.
	Plan rollouts.ReleasePlan
	// Observed reports whether the controller has observed this plan.
	Observed bool
	Phase    rollouts.Phase
	State    rollouts.BatchState
	// Index is the 0-based index of the current batch.
	Index                int32
	UpdatedReplicas      int32
	UpdatedReadyReplicas int32
	// Message says what the batch waits for.
	Message string
	// Rescaled reports whether the size of the workload differs from the size stored with the batch.
	Rescaled bool
	// WritesPending reports whether the batch still has to write something.
	WritesPending bool
	// Terminating reports whether the BatchRelease was deleted and will be gone soon.
	Terminating bool
	// KeptByOtherFinalizers reports whether the BatchRelease was deleted and released by Weir, but
	// finalizers of others keep it. Weir continues to use it, because no other object can have its
	// name.
	KeptByOtherFinalizers bool
}
