// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/sizes"
)

// Effect is one change in the cluster. An effect is idempotent: if the cluster is already as it describes,
// it changes nothing.
type Effect interface {
	fmt.Stringer
	effect()
}

// The effects of a Rollout.
type (
	// LabelWorkload adds the label by which the admission webhook selects the workload.
	LabelWorkload struct{}
	// UnlabelWorkload removes that label.
	UnlabelWorkload struct{}
	// AddToIndex adds the workload to the index of the admission policies, which hold it as the webhook
	// does.
	AddToIndex struct{}
	// RemoveFromIndex removes the workload from the index.
	RemoveFromIndex struct{}
	// HoldWorkload pauses a workload whose change admission did not see.
	HoldWorkload struct {
		// Again reports whether the workload was held before, so that the owner's strategy is recorded
		// already.
		Again bool
	}
	// ApplyPendingEdit applies an edit of the owner that an admission policy has recorded, as the webhook
	// would have done.
	ApplyPendingEdit struct{}
	// RunBatch creates the BatchRelease or gives it another plan. Status is the status with which it
	// starts the plan; nil if the status stays as it is.
	RunBatch struct {
		Plan   rollouts.ReleasePlan
		Status *rollouts.BatchReleaseStatus
	}
	// DeleteBatchRelease deletes the BatchRelease.
	DeleteBatchRelease struct{}
	// RestoreWorkload restores what the release has changed on the workload. KeepPaused leaves the
	// workload paused. The extra Deployment is deleted at once or, with Wait, when the native controller
	// has completed its rolling update.
	RestoreWorkload struct{ KeepPaused, Wait bool }
	// RepairRecords rewrites Weir's annotations and labels on the workload from the stored status.
	RepairRecords struct{}
	// SetStableTemplate sets the template of the workload to the stable revision's.
	SetStableTemplate struct{}
	// PinService makes the stable Service select the pods of one revision.
	PinService struct{ Revision string }
	// UnpinService makes the stable Service select the pods of every revision again.
	UnpinService struct{}
	// SetCanaryService creates the canary Service, or makes it select the pods of Revision.
	SetCanaryService struct{ Revision string }
	// RouteTraffic does the same and makes routers send requests to the canary Service.
	RouteTraffic struct {
		Revision string
		Want     Route
	}
	// RemoveRoute makes routers send all requests to the stable Service.
	RemoveRoute struct{}
	// RemoveCanaryService deletes the canary Service.
	RemoveCanaryService struct{}
	// RemoveFinalizer removes the finalizer of the Rollout or the BatchRelease.
	RemoveFinalizer struct{}
)

func (LabelWorkload) effect()       {}
func (UnlabelWorkload) effect()     {}
func (AddToIndex) effect()          {}
func (RemoveFromIndex) effect()     {}
func (HoldWorkload) effect()        {}
func (ApplyPendingEdit) effect()    {}
func (RunBatch) effect()            {}
func (DeleteBatchRelease) effect()  {}
func (RestoreWorkload) effect()     {}
func (RepairRecords) effect()       {}
func (SetStableTemplate) effect()   {}
func (PinService) effect()          {}
func (UnpinService) effect()        {}
func (SetCanaryService) effect()    {}
func (RouteTraffic) effect()        {}
func (RemoveRoute) effect()         {}
func (RemoveCanaryService) effect() {}
func (RemoveFinalizer) effect()     {}

func (LabelWorkload) String() string      { return "label workload" }
func (UnlabelWorkload) String() string    { return "unlabel workload" }
func (AddToIndex) String() string         { return "add workload to index" }
func (RemoveFromIndex) String() string    { return "remove workload from index" }
func (HoldWorkload) String() string       { return "hold workload" }
func (ApplyPendingEdit) String() string   { return "apply the pending edit" }
func (DeleteBatchRelease) String() string { return "delete BatchRelease" }
func (SetStableTemplate) String() string  { return "set stable template" }
func (RepairRecords) String() string      { return "repair records on workload" }
func (UnpinService) String() string       { return "unpin service" }
func (RemoveRoute) String() string        { return "remove route" }
func (RemoveCanaryService) String() string {
	return "remove canary service"
}
func (RemoveFinalizer) String() string    { return "remove finalizer" }
func (p PinService) String() string       { return "pin service to " + p.Revision }
func (a SetCanaryService) String() string { return "point canary service to " + a.Revision }

func (a RestoreWorkload) String() string {
	if a.KeepPaused {
		return "restore workload, paused"
	}
	return "restore workload"
}

func (a RunBatch) String() string {
	switch {
	case a.Plan.BatchPartition == nil:
		return "batch: restore workload"
	case a.Plan.Abort:
		return "batch: bring stable pods back"
	default:
		i := *a.Plan.BatchPartition
		return fmt.Sprintf("batch %d: %s", i, batchSize(a.Plan, i))
	}
}

func batchSize(p rollouts.ReleasePlan, i int32) string {
	if int(i) >= len(p.Batches) {
		return "?"
	}
	size := p.Batches[i].CanaryReplicas
	if size.Type == intstr.String {
		return size.StrVal
	}
	return strconv.Itoa(int(size.IntVal))
}

// ScaleReplicaSets scales the ReplicaSets of the workload. Hold is the stored state that the sizes follow
// from.
type ScaleReplicaSets struct {
	Hold  HoldState
	Scale sizes.Scale
}

func (ScaleReplicaSets) effect()          {}
func (a ScaleReplicaSets) String() string { return "scale ReplicaSets: " + a.Scale.Rule }

// AddRoutingFinalizer adds Weir's finalizer to a TrafficRouting, which keeps it until its routes are removed.
type AddRoutingFinalizer struct{}

// RemoveStaleReference removes from a TrafficRouting the finalizer of a Rollout that does not exist.
type RemoveStaleReference struct{ Rollout string }

func (AddRoutingFinalizer) effect()        {}
func (RemoveStaleReference) effect()       {}
func (AddRoutingFinalizer) String() string { return "add finalizer to TrafficRouting" }
func (a RemoveStaleReference) String() string {
	return "remove finalizer of deleted rollout/" + a.Rollout
}
