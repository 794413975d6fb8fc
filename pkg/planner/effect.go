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
	// Label makes the workload visible to admission.
	Label struct{}
	// Unlabel takes that back.
	Unlabel struct{}
	// Index makes the policies hold the workload, too.
	Index struct{}
	// Unindex takes that back.
	Unindex struct{}
	// Hold takes a workload that admission has missed.
	Hold struct {
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
	// ReleaseBatch wants the BatchRelease gone.
	ReleaseBatch struct{}
	// RestoreWorkload gives a workload back: paused, or not. What was made
	// beside it goes at once, or when the native controller is done if Wait.
	RestoreWorkload struct{ KeepPaused, Wait bool }
	// PutRight has our keys on the workload say what the store says.
	PutRight struct{}
	// SetStable sets the workload's template to the stable revision's.
	SetStable struct{}
	// Pin makes the stable Service select one revision.
	Pin struct{ Revision string }
	// Unpin makes it select every revision again.
	Unpin struct{}
	// ServeCanary makes the canary Service select Revision.
	ServeCanary struct{ Revision string }
	// RouteTo makes the canary Service select Revision and routers send it traffic.
	RouteTo struct {
		Revision string
		Want     Route
	}
	// Unroute makes routers forget the update revision.
	Unroute struct{}
	// RemoveCanaryService removes the canary Service.
	RemoveCanaryService struct{}
	// DropFinalizer lets the Rollout go.
	DropFinalizer struct{}
)

func (Label) effect()               {}
func (Unlabel) effect()             {}
func (Index) effect()               {}
func (Unindex) effect()             {}
func (Hold) effect()                {}
func (ApplyPendingEdit) effect()    {}
func (RunBatch) effect()            {}
func (ReleaseBatch) effect()        {}
func (RestoreWorkload) effect()     {}
func (PutRight) effect()            {}
func (SetStable) effect()           {}
func (Pin) effect()                 {}
func (Unpin) effect()               {}
func (ServeCanary) effect()         {}
func (RouteTo) effect()             {}
func (Unroute) effect()             {}
func (RemoveCanaryService) effect() {}
func (DropFinalizer) effect()       {}

func (Label) String() string            { return "label workload" }
func (Unlabel) String() string          { return "unlabel workload" }
func (Index) String() string            { return "index workload" }
func (Unindex) String() string          { return "take workload out of the index" }
func (Hold) String() string             { return "hold workload" }
func (ApplyPendingEdit) String() string { return "take up the owner's edit" }
func (ReleaseBatch) String() string     { return "release batch" }
func (SetStable) String() string        { return "set the stable template" }
func (PutRight) String() string         { return "put the records on the workload right" }
func (Unpin) String() string            { return "unpin service" }
func (Unroute) String() string          { return "unroute" }
func (RemoveCanaryService) String() string {
	return "remove canary service"
}
func (DropFinalizer) String() string { return "drop finalizer" }
func (p Pin) String() string         { return "pin service to " + p.Revision }
func (a ServeCanary) String() string { return "serve canary service from " + a.Revision }

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

// Size sets the next sizes of the ReplicaSets of the workload. Known is the state in the store by
// which the sizes were decided.
type Size struct {
	Known Known
	Scale sizes.Scale
}

func (Size) effect()          {}
func (a Size) String() string { return "size replicasets: " + a.Scale.Rule }

// Guard keeps a TrafficRouting until its routes are taken back.
type Guard struct{}

// RemoveStaleReference takes the finalizer of a Rollout that does not exist off a TrafficRouting.
type RemoveStaleReference struct{ Rollout string }

func (Guard) effect()                {}
func (RemoveStaleReference) effect() {}
func (Guard) String() string         { return "guard traffic routing" }
func (a RemoveStaleReference) String() string {
	return "take off the finalizer of rollout/" + a.Rollout + ", which is gone"
}
