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

// Reader is what a pass reads. An object that does not exist is nil.
type Reader interface {
	Rollout(context.Context, types.NamespacedName) (*rollouts.Rollout, error)
	// BatchReleaseOf has the name of the Rollout, and may be another's.
	BatchReleaseOf(context.Context, *rollouts.Rollout) (*rollouts.BatchRelease, error)
	// IndexEntry is what the index of the policies says of the Rollout.
	IndexEntry(context.Context, types.NamespacedName, *rollouts.ObjectRef) (*cluster.IndexEntry, error)
	// MissingAdmission returns which part of admission is missing for the workload of a Rollout;
	// unlisted is why the policies do not know the workload.
	MissingAdmission(ctx context.Context, ro *rollouts.Rollout, unlisted string) (string, error)
	// RolloutOfWorkload is the Rollout that releases a workload; empty if none does.
	RolloutOfWorkload(ctx context.Context, gk schema.GroupKind, workload types.NamespacedName) (string, error)
	// RequireFreshWorkload has a pass wait for what the cache does not show yet of a workload.
	RequireFreshWorkload(ctx context.Context, row workload.Row, namespace, name string) error
	// OtherReleases route by what the Rollout names.
	OtherReleases(context.Context, *rollouts.Rollout) ([]traffic.OtherRelease, error)
	// ReadNetwork fills in the Services and the routers that are named.
	ReadNetwork(ctx context.Context, namespace, service string, o *traffic.Objects) error
	// LiveTrafficRouting is asked of the server, TrafficRouting of a cache.
	TrafficRouting(context.Context, types.NamespacedName) (*rollouts.TrafficRouting, error)
	LiveTrafficRouting(context.Context, types.NamespacedName) (*rollouts.TrafficRouting, error)
	// LinkedTrafficRoutings names the TrafficRoutings that have the finalizer of the Rollout.
	LinkedTrafficRoutings(context.Context, *rollouts.Rollout) ([]string, error)
	Histories(context.Context, *rollouts.Rollout) (map[int64]rollouts.RolloutHistoryStatus, error)
	// Measurements are the checks of the plan, with what was measured for each.
	Measurements(context.Context, *rollouts.Rollout) ([]planner.Measured, error)
}

// Writer is what a pass writes.
type Writer interface {
	reconcile.BatchCluster
	reconcile.ReplicaSetCluster
	// CommitRollout stores a status at the version of the Rollout, and returns what is stored.
	CommitRollout(context.Context, *rollouts.Rollout, rollouts.RolloutStatus) (*rollouts.Rollout, error)
	// CreateOrUpdateBatchRelease creates a BatchRelease, or replaces spec and status of the one that was,
	// and returns what is stored.
	CreateOrUpdateBatchRelease(ctx context.Context, was, b *rollouts.BatchRelease) (*rollouts.BatchRelease, error)
	DeleteBatchRelease(context.Context, *rollouts.BatchRelease) error
	AddFinalizer(ctx context.Context, o object.Object, finalizer string) error
	// AddToIndex makes the entry of the index right, and Remove removes it.
	AddToIndex(context.Context, *cluster.IndexEntry) error
	RemoveFromIndex(context.Context, *cluster.IndexEntry) error
	// WriteHistory stores a history.
	WriteHistory(context.Context, cluster.ReleaseObjects, planner.HistoryEntry) error
}

// Cluster is where a pass reads and writes.
type Cluster interface {
	Reader
	Writer
}

// Options are what an administrator decides about passes.
type Options struct {
	// Labels says which releases' pods are labelled with their batch.
	Labels planner.PodLabels
	// PodsCheck is what is done about new pods that crash where a plan has no analysis: Wait
	// or Report; empty for nothing.
	PodsCheck rollouts.OnFail
}

// Decide decides what the pass does.
func (p *Pass) Decide() planner.Decision { return planner.Decide(p.Facts) }

// PlanOf returns a decision as reconcile.Execute carries it out.
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

// AfterCommit implements reconcile.Object.
func (p *Pass) AfterCommit(context.Context) {}

// RecordEvents implements reconcile.Object.
func (p *Pass) RecordEvents([]planner.Event) {}

// WithWriteError implements reconcile.Object.
func (p *Pass) WithWriteError(e planner.WriteError) (next rollouts.RolloutStatus, announce, ok bool) {
	next = *p.Rollout.Status.DeepCopy()
	next.Conditions, announce = planner.RecordWriteError(next.Conditions, e, p.Facts.Now)
	return next, announce, true
}

// StoreHistory implements reconcile.Object: it stores a history of everything that takes part in the
// release, as it is now.
func (p *Pass) StoreHistory(ctx context.Context, f planner.HistoryEntry) error {
	stable := planner.Revision{Name: f.Release.StableRevision, Template: f.Release.StableTemplate}
	return p.WriteHistory(ctx, cluster.ReleaseObjects{Rollout: p.Rollout, Workload: p.workload, Stable: stable, Traffic: p.objects}, f)
}
