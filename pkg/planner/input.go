// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Input is all that one pass over a Rollout knows.
type Input struct {
	Now     time.Time
	Rollout *rollouts.Rollout
	// Unsupported says why the workload cannot be released; empty if it can.
	Unsupported string
	// Workload is nil when the object does not exist.
	Workload *Workload
	// Indexed reports whether the policies know that this Rollout holds the workload,
	// and Listed that an entry of theirs names the Rollout at all.
	Indexed, Listed bool
	// Unprotected says which part of admission is missing; empty if none is.
	Unprotected string
	// Batch is nil when the Rollout has no BatchRelease.
	Batch *Batch
	// BatchInput is the input for DecideBatch. Its Release is nil if the Rollout has no BatchRelease
	// yet. BatchRelease is nil if the workload cannot be read.
	BatchInput *BatchInput
	// ReplicaSets are the ReplicaSets that this Rollout scales; nil if it scales none.
	ReplicaSets ReplicaSetScaler
	// BatchNameConflict says whose BatchRelease has the name of the Rollout's; empty if nobody's.
	BatchNameConflict string
	// Route is what the network does now; nil when the plan routes nothing.
	Route *Route
	// Originals are digests of what routers would be without a route, and Doubted is
	// one with a record that is not believed; empty if there is none.
	Originals      []string
	TamperedRecord string
	// Routing is the TrafficRouting that the Rollout names; nil when it names none.
	Routing *Routing
	// Histories are the stored histories of releases, by number, as far as
	// Unfiled asks for them.
	Histories map[int64]rollouts.RolloutHistoryStatus
	// Measured are the checks of the plan, with what was measured for each.
	Measured []MeasuredCheck
	// Pods are those of both revisions; nil where nobody looks at them. PodsCheck is what is
	// done about new ones that crash where the plan has no analysis.
	Pods      *PodHealthByRevision
	PodsCheck rollouts.OnFail
}

// Workload is the facts of a workload, whatever its kind.
type Workload struct {
	// UID identifies the object: one of the same name that was made later is another.
	UID        types.UID
	Generation int64
	// LastRequeueAnnotation is when the native controller was last to look at it, by AskAgain.
	LastRequeueAnnotation string
	// Settled reports whether the native controller has observed the generation.
	Settled bool
	// Labelled reports whether admission can see the workload.
	Labelled bool
	// PendingEdit reports whether a policy has noted an edit of the held workload.
	PendingEdit bool
	// Held reports whether the workload is taken from its native controller.
	Held bool
	// HasManagedFields reports whether Weir annotations or strategy changes remain on the workload.
	HasManagedFields bool
	// UsesSurge reports whether new pods come beside the old ones, of which none go.
	UsesSurge bool
	// HoldRemoved reports whether the native controller would roll out the live template, though
	// the store says that the workload is held.
	HoldRemoved bool
	// TamperedKeys are the keys of Weir on the workload whose value Weir did not write.
	TamperedKeys []string
	// Paused reports whether the native controller releases nothing.
	Paused bool
	// ResumeHint says what the owner changes in the spec so that a stopped controller
	// continues.
	ResumeHint string
	Replicas   int32
	// KeepsLastStablePod reports whether a stable pod stays until all pods are asked for, also where
	// there is one: without any the native controller would make every pod that comes of
	// the update revision, whatever it is told.
	KeepsLastStablePod bool
	// HasSurplusPods reports whether pods are still there that the size has no place for.
	HasSurplusPods bool
	// StableRevision is the revision serving before the release.
	StableRevision string
	// UpdateRevision is the name of the template to release. For kinds whose native controller
	// names revisions it is empty until that has happened. It is a short hash, so it does not
	// identify the template.
	UpdateRevision string
	// UpdateTemplate is the SHA-256 digest of the template to release, which identifies it.
	// It is empty while an abort has replaced that template by the stable one
	// (BackByTemplate): then the stored status has the revision.
	UpdateTemplate string
	// PodTemplateHash is the label value of the pods of the live template;
	// empty until something made such pods possible.
	PodTemplateHash string
	// HasStableTemplate reports whether the live template is the stable revision's.
	HasStableTemplate bool
	// NativeUpdateRunning reports whether a native rolling update is under way.
	NativeUpdateRunning bool
	// RolloutID is the release's name given by the user, if any.
	RolloutID string
	// UpdatedReplicas counts the pods of the update revision, and
	// UpdatedReadyReplicas those of them that are ready.
	UpdatedReplicas, UpdatedReadyReplicas int32
	// AvailableLater is the message that new pods are ready but not yet available because of
	// minReadySeconds; empty if all ready new pods are available.
	AvailableLater string
	// StableReplicas is how many pods every other revision is asked to have.
	StableReplicas int32
	// SupersededReplicas is how many of those are asked of revisions that are
	// not the stable one, left by a release that was superseded.
	SupersededReplicas int32
	// SupersededKept is how many of those get back to stable only after every pod of the
	// update revision has.
	SupersededKept int32
	// NewestReadyRevision is the newest revision with ready pods, beside the live template's,
	// where the native controller was stopped between two of them.
	NewestReadyRevision string
	// NewestReadyTemplate is the digest of the template of Rolled.
	NewestReadyTemplate string
	// RevisionKind is the kind of object that keeps the template of a revision.
	RevisionKind string
	// StableRevisionGone reports whether the one of the stable revision does not exist.
	StableRevisionGone bool
	// StableTemplate is a digest of the template that it keeps, and BackByTemplate
	// reports whether an abort sets that template. Both make no difference while the
	// digest is that in the store.
	StableTemplate    string
	AbortSetsTemplate bool
	// Revisions are those that have a set, by the label value of their pods.
	Revisions []string
	// StableReadyReplicas counts the ready pods of the stable revision.
	StableReadyReplicas int32
	// LiveRevision is the label value of the workload's own pods of the live
	// template, and LiveReadyReplicas counts those that are ready. They are the
	// update revision's where that has no pods elsewhere.
	LiveRevision      string
	LiveReadyReplicas int32
	// PodCreationErrors say why pods of a revision are not even made, by its label value.
	PodCreationErrors map[string]string
	// ProgressDeadline is what the owner wrote, in seconds; 0 if nothing.
	ProgressDeadline int32
	// MaxUnavailable is how many pods the owner allows to be missing.
	MaxUnavailable int32
	// Target is what the workload was last told; nil when it is not driven.
	Target *Target
	// NewPodsUseTemplate reports whether a pod which comes is of the live template also while the
	// workload is held.
	NewPodsUseTemplate bool
	// OwnerStrategyActive reports whether the owner's own strategy is in force.
	OwnerStrategyActive bool
	// HasExtraWorkload reports whether something was made beside the workload.
	HasExtraWorkload bool
	// HasUnknownRecords reports whether the workload has the records of a BatchRelease that the
	// store does not know.
	HasUnknownRecords bool
	// ExtraUID identifies it; ExtraTampered reports whether a user has changed what it runs,
	// how many pods it has, or whose it is.
	ExtraUID      types.UID
	ExtraTampered bool
	// ExtraNeeded says why requests still need the Deployment beside the workload; empty if
	// they do not.
	ExtraNeeded string
	// DeletionBlocked says which finalizers keep something of the workload, or beside it,
	// that was deleted.
	DeletionBlocked string
	// DeletedPodsRun says the same of what has pods that run until it is gone.
	DeletedPodsRun string
	// AdoptableSet says the same of a set without pods that the native controller would take for
	// that of the live template as soon as the workload is given back.
	AdoptableSet string
	// NameConflict says whose an object is that has the name of the one to be made beside the
	// workload.
	NameConflict string
	// Deleted says what keeps the workload, which was deleted: it counts as gone.
	Deleted string
	// TargetApplied reports whether all that Target means is written.
	TargetApplied bool
	// SizedByStore reports whether nothing needs to be written on the workload when its
	// target changes: its sets are sized by what the store says.
	SizedByStore bool
	// ExtraStatusStale reports whether what others read of the pods on the workload is not so.
	ExtraStatusStale bool
	// UnsupportedReason says why a workload cannot be released as it is; empty if it can.
	UnsupportedReason string
}

// hasPods reports whether any pod is there, or asked for.
func (w *Workload) hasPods() bool {
	return w.StableReplicas > 0 || w.StableReadyReplicas > 0 || w.UpdatedReplicas > 0
}

// Target is how far a workload may go.
type Target struct {
	// Partition is how many pods may run the update revision.
	Partition intstr.IntOrString
	// KeepOne keeps a stable pod where the workload is made so small that Partition
	// is all of its pods.
	KeepOne bool
	// Least is how many pods an extra workload keeps where the workload is made
	// smaller.
	Least int32
	// Abort sends every pod back to the stable revision.
	Abort bool
	// Owner is the uid of the BatchRelease that drives.
	Owner types.UID
	// Revision is the revision that Partition applies to. While the workload has another
	// template, its sizes stay as they are until a new target is written.
	Revision Revision
}

// Batch is the facts of a BatchRelease.
type Batch struct {
	// Plan is what it was asked for.
	Plan rollouts.ReleasePlan
	// Observed reports whether its controller has seen this plan.
	Observed bool
	Phase    rollouts.Phase
	State    rollouts.BatchState
	// Index is the 0-based current batch.
	Index                int32
	UpdatedReplicas      int32
	UpdatedReadyReplicas int32
	// Message says what the batch waits for.
	Message string
	// Rescaled reports whether the workload has another size than the batch was stored with.
	Rescaled bool
	// WritesPending reports whether something is to be written for it.
	WritesPending bool
	// Terminating reports whether it is being deleted, and about to go.
	Terminating bool
	// KeptByOtherFinalizers reports whether it was deleted and let go of, and that finalizers of others keep
	// it. It is used on, since no other can have its name.
	KeptByOtherFinalizers bool
}
