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
	// Entry is what the index of the policies says of the Rollout.
	Entry(context.Context, types.NamespacedName, *rollouts.ObjectRef) (*cluster.Entry, error)
	// Unprotected returns which part of admission is missing for the workload of a Rollout;
	// unlisted is why the policies do not know the workload.
	Unprotected(ctx context.Context, ro *rollouts.Rollout, unlisted string) (string, error)
	// RolloutNaming is the Rollout that releases a workload; empty if none does.
	RolloutNaming(ctx context.Context, gk schema.GroupKind, workload types.NamespacedName) (string, error)
	// CatchUp has a pass wait for what the cache does not show yet of a workload.
	CatchUp(ctx context.Context, row workload.Row, namespace, name string) error
	// Others route by what the Rollout names.
	Others(context.Context, *rollouts.Rollout) ([]traffic.OtherRelease, error)
	// ReadNetwork fills in the Services and the routers that are named.
	ReadNetwork(ctx context.Context, namespace, service string, o *traffic.Objects) error
	// LiveTrafficRouting is asked of the server, TrafficRouting of a cache.
	TrafficRouting(context.Context, types.NamespacedName) (*rollouts.TrafficRouting, error)
	LiveTrafficRouting(context.Context, types.NamespacedName) (*rollouts.TrafficRouting, error)
	// LinkedTo names the TrafficRoutings that have the finalizer of the Rollout.
	LinkedTo(context.Context, *rollouts.Rollout) ([]string, error)
	Histories(context.Context, *rollouts.Rollout) (map[int64]rollouts.RolloutHistoryStatus, error)
	// Measured are the checks of the plan, with what was measured for each.
	Measured(context.Context, *rollouts.Rollout) ([]planner.MeasuredCheck, error)
}

// Writer is what a pass writes.
type Writer interface {
	reconcile.BatchCluster
	reconcile.SizeCluster
	// CommitRollout stores a status at the version of the Rollout, and returns what is stored.
	CommitRollout(context.Context, *rollouts.Rollout, rollouts.RolloutStatus) (*rollouts.Rollout, error)
	// PutBatchRelease creates a BatchRelease, or replaces spec and status of the one that was,
	// and returns what is stored.
	PutBatchRelease(ctx context.Context, was, b *rollouts.BatchRelease) (*rollouts.BatchRelease, error)
	DeleteBatchRelease(context.Context, *rollouts.BatchRelease) error
	AddFinalizer(ctx context.Context, o object.Object, finalizer string) error
	// Enter makes the entry of the index right, and Remove removes it.
	Enter(context.Context, *cluster.Entry) error
	Remove(context.Context, *cluster.Entry) error
	// File stores a history.
	File(context.Context, cluster.Part, planner.HistoryEntry) error
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
		Rule: string(d.Case), Status: d.Status, Histories: d.Histories, Actions: d.Actions, Events: d.Events, Wake: d.Wake,
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

// Stored implements reconcile.Object.
func (p *Pass) Stored(context.Context) {}

// Announce implements reconcile.Object.
func (p *Pass) Announce([]planner.Event) {}

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
	return p.File(ctx, cluster.Part{Rollout: p.Rollout, Workload: p.workload, Stable: stable, Traffic: p.objects}, f)
}
