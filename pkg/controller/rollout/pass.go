// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/controller/reconcile"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/traffic"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// Reader reads the objects of a pass. The methods return nil for an object that does not exist.
type Reader interface {
	Rollout(context.Context, types.NamespacedName) (*rollouts.Rollout, error)
	// BatchReleaseOf returns the BatchRelease that has the name of the Rollout. Another object may own it.
	BatchReleaseOf(context.Context, *rollouts.Rollout) (*rollouts.BatchRelease, error)
	// IndexEntry returns the entry of the Rollout in the index of the policies.
	IndexEntry(context.Context, types.NamespacedName, *rollouts.ObjectRef) (*cluster.IndexEntry, error)
	// MissingAdmission returns which part of admission is missing for the workload of a Rollout; empty if
	// none is. The parameter unlisted is the reason why the policies do not know the workload.
	MissingAdmission(ctx context.Context, ro *rollouts.Rollout, unlisted string) (string, error)
	// RolloutOfWorkload returns the name of the Rollout that releases a workload; empty if none does.
	RolloutOfWorkload(ctx context.Context, gk schema.GroupKind, workload types.NamespacedName) (string, error)
	// RequireFreshWorkload makes passes wait until the cache shows the workload as it is on the server.
	RequireFreshWorkload(ctx context.Context, row workload.Row, namespace, name string) error
	// OtherReleases returns the releases that use the same Services or routers as the Rollout.
	OtherReleases(context.Context, *rollouts.Rollout) ([]traffic.OtherRelease, error)
	// ReadNetwork reads the referenced Services and routers into o.
	ReadNetwork(ctx context.Context, namespace, service string, o *traffic.Objects) error
	// TrafficRouting reads from the cache, and LiveTrafficRouting from the API server.
	TrafficRouting(context.Context, types.NamespacedName) (*rollouts.TrafficRouting, error)
	LiveTrafficRouting(context.Context, types.NamespacedName) (*rollouts.TrafficRouting, error)
	// LinkedTrafficRoutings returns the names of the TrafficRoutings that have the finalizer of the Rollout.
	LinkedTrafficRoutings(context.Context, *rollouts.Rollout) ([]string, error)
	Histories(context.Context, *rollouts.Rollout) (map[int64]rollouts.RolloutHistoryStatus, error)
	// Measurements returns the checks of the plan with the measurements of each.
	Measurements(context.Context, *rollouts.Rollout) ([]planner.MeasuredCheck, error)
}

// Writer writes the objects of a pass.
type Writer interface {
	reconcile.BatchCluster
	reconcile.ReplicaSetCluster
	// CommitRollout stores a status at the resourceVersion of the Rollout, and returns the stored Rollout.
	CommitRollout(context.Context, *rollouts.Rollout, rollouts.RolloutStatus) (*rollouts.Rollout, error)
	// CreateOrUpdateBatchRelease creates a BatchRelease, or replaces spec and status of the BatchRelease
	// was, and returns the stored BatchRelease.
	CreateOrUpdateBatchRelease(ctx context.Context, was, b *rollouts.BatchRelease) (*rollouts.BatchRelease, error)
	DeleteBatchRelease(context.Context, *rollouts.BatchRelease) error
	AddFinalizer(ctx context.Context, o object.Object, finalizer string) error
	// AddToIndex corrects the Rollout's entry in the index of the policies. RemoveFromIndex removes it.
	AddToIndex(context.Context, *cluster.IndexEntry) error
	RemoveFromIndex(context.Context, *cluster.IndexEntry) error
	// WriteHistory stores a history.
	WriteHistory(context.Context, cluster.ReleaseObjects, planner.HistoryEntry) error
}

// Cluster reads and writes the objects of a pass.
type Cluster interface {
	Reader
	Writer
}

// Options are the settings of an administrator.
type Options struct {
	// Labels selects the releases whose pods get labels with the number of their batch.
	Labels planner.PodLabels
	// PodsCheck is the reaction to crashing new pods if a plan has no analysis: Wait or Report; empty for
	// none.
	PodsCheck rollouts.OnFail
}

// Decide returns the decision of the planner.
func (p *Pass) Decide() planner.Decision { return planner.Decide(p.Facts) }

// PlanOf converts a decision to a plan for reconcile.Execute.
func PlanOf(d planner.Decision) reconcile.Plan[rollouts.RolloutStatus] {
	return reconcile.Plan[rollouts.RolloutStatus]{
		Rule: string(d.Case), Status: d.Status, Histories: d.Histories, Actions: d.Actions, Events: d.Events, RequeueAfter: d.Wake,
	}
}

// Status implements reconcile.Object.
func (p *Pass) Status() rollouts.RolloutStatus { return p.Rollout.Status }

// Commit implements reconcile.Object.
func (p *Pass) Commit(ctx context.Context, next rollouts.RolloutStatus) error {
	stored, err := p.CommitRollout(ctx, p.Rollout, next)
	if err == nil {
		p.Rollout = stored
	}
	return err
}

// WithWriteError implements reconcile.Object.
func (p *Pass) WithWriteError(e planner.WriteError) (next rollouts.RolloutStatus, announce, ok bool) {
	next = *p.Rollout.Status.DeepCopy()
	next.Conditions, announce = planner.RecordWriteError(next.Conditions, e, p.Facts.Now)
	return next, announce, true
}

// StoreHistory implements reconcile.Object. The history has copies of all objects of the release, as they
// are now.
func (p *Pass) StoreHistory(ctx context.Context, h planner.HistoryEntry) error {
	stable := planner.Revision{Name: h.Release.StableRevision, Template: h.Release.StableTemplate}
	return p.WriteHistory(ctx, cluster.ReleaseObjects{Rollout: p.Rollout, Workload: p.workload, Stable: stable, Traffic: p.objects}, h)
}
