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

// Effect is one target. Reaching a target that is already reached does nothing.
type Effect interface {
	fmt.Stringer
	effect()
}

// The effects of a Rollout.
type (
	// LabelWorkload makes the workload visible to admission.
	LabelWorkload struct{}
	// UnlabelWorkload takes that back.
	UnlabelWorkload struct{}
	// AddToIndex makes the policies hold the workload, too.
	AddToIndex struct{}
	// RemoveFromIndex takes that back.
	RemoveFromIndex struct{}
	// HoldWorkload takes a workload that admission has missed.
	HoldWorkload struct {
		// Again reports whether it was held before, and what its owner wrote is noted.
		Again bool
	}
	// ApplyPendingEdit does what admission would have done about an edit that a policy noted.
	ApplyPendingEdit struct{}
	// RunBatch wants the BatchRelease to have this plan, and with it the status that takes it
	// up, which the planner leaves to release.Decide; nil where it stays as it is.
	RunBatch struct {
		Plan   rollouts.ReleasePlan
		Status *rollouts.BatchReleaseStatus
	}
	// DeleteBatchRelease wants the BatchRelease gone.
	DeleteBatchRelease struct{}
	// RestoreWorkload gives a workload back: paused, or not. What was made
	// beside it goes at once, or when the native controller is done if Wait.
	RestoreWorkload struct{ KeepPaused, Wait bool }
	// RepairRecords has our keys on the workload say what the store says.
	RepairRecords struct{}
	// SetStableTemplate sets the workload's template to the stable revision's.
	SetStableTemplate struct{}
	// PinService makes the stable Service select one revision.
	PinService struct{ Revision string }
	// UnpinService makes it select every revision again.
	UnpinService struct{}
	// SetCanaryService makes the canary Service select Revision.
	SetCanaryService struct{ Revision string }
	// RouteTraffic makes the canary Service select Revision and routers send it traffic.
	RouteTraffic struct {
		Revision string
		Want     Route
	}
	// RemoveRoute makes routers forget the update revision.
	RemoveRoute struct{}
	// RemoveCanaryService removes the canary Service.
	RemoveCanaryService struct{}
	// RemoveFinalizer lets the Rollout go.
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
func (AddToIndex) String() string         { return "index workload" }
func (RemoveFromIndex) String() string    { return "take workload out of the index" }
func (HoldWorkload) String() string       { return "hold workload" }
func (ApplyPendingEdit) String() string   { return "take up the owner's edit" }
func (DeleteBatchRelease) String() string { return "release batch" }
func (SetStableTemplate) String() string  { return "set the stable template" }
func (RepairRecords) String() string      { return "put the records on the workload right" }
func (UnpinService) String() string       { return "unpin service" }
func (RemoveRoute) String() string        { return "unroute" }
func (RemoveCanaryService) String() string {
	return "remove canary service"
}
func (RemoveFinalizer) String() string    { return "drop finalizer" }
func (p PinService) String() string       { return "pin service to " + p.Revision }
func (a SetCanaryService) String() string { return "serve canary service from " + a.Revision }

func (a RestoreWorkload) String() string {
	if a.KeepPaused {
		return "restore workload, paused"
	}
	return "restore workload"
}

func (a RunBatch) String() string {
	switch {
	case a.Plan.BatchPartition == nil:
		return "give workload back"
	case a.Plan.Abort:
		return "bring stable back"
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

// ScaleReplicaSets sets the next sizes of the ReplicaSets of the workload. Known is the state in the store by
// which the sizes were decided.
type ScaleReplicaSets struct {
	Hold  HoldState
	Scale sizes.Scale
}

func (ScaleReplicaSets) effect()          {}
func (a ScaleReplicaSets) String() string { return "size replicasets: " + a.Scale.Rule }

// AddRoutingFinalizer keeps a TrafficRouting until its routes are taken back.
type AddRoutingFinalizer struct{}

// RemoveStaleReference takes the finalizer of a Rollout that does not exist off a TrafficRouting.
type RemoveStaleReference struct{ Rollout string }

func (AddRoutingFinalizer) effect()        {}
func (RemoveStaleReference) effect()       {}
func (AddRoutingFinalizer) String() string { return "guard traffic routing" }
func (a RemoveStaleReference) String() string {
	return "take off the finalizer of rollout/" + a.Rollout + ", which is gone"
}
