// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/batch"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/controller/pass"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/release"
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
	Measured(context.Context, *rollouts.Rollout) ([]planner.Measured, error)
}

// Writer is what a pass writes.
type Writer interface {
	pass.BatchCluster
	pass.SizeCluster
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
	File(context.Context, cluster.Part, planner.Filing) error
}

// Cluster is where a pass reads and writes.
type Cluster interface {
	Reader
	Writer
}

// passes are those over the Rollouts of a cluster.
type passes struct {
	Cluster
	now     func() time.Time
	options Options
}

// Options are what an administrator decides about passes.
type Options struct {
	// Labels says which releases' pods are labelled with their batch.
	Labels batch.PodLabels
	// PodsCheck is what is done about new pods that crash where a plan has no analysis: Wait
	// or Report; empty for nothing.
	PodsCheck rollouts.OnFail
}

// Steps are those of the passes over the Rollouts of a cluster.
func Steps(c Cluster, now func() time.Time, options Options) pass.Steps[Observation, rollouts.RolloutStatus] {
	p := passes{Cluster: c, now: now, options: options}
	return pass.Steps[Observation, rollouts.RolloutStatus]{
		Observe:          p.observe,
		Decide:           Decide,
		Status:           func(o *Observation) rollouts.RolloutStatus { return o.Rollout.Status },
		Commit:           pass.Store(func(o *Observation) **rollouts.Rollout { return &o.Rollout }, c.CommitRollout),
		Act:              p.act,
		File:             p.file,
		RecordWriteError: p.denied,
		Again:            (*Observation).again,
	}
}

// Decide is release.Decide, and what is to be filed by the status that it returns.
func Decide(o *Observation) pass.Decision[rollouts.RolloutStatus] {
	d := release.Decide(o.Facts)
	return pass.Decision[rollouts.RolloutStatus]{
		Rule: string(d.Case), Status: d.Status, Filings: planner.Filings(d.Status, o.Facts.Histories),
		Actions: d.Actions, Events: d.Events, Wake: d.Wake, Questions: d.Questions,
	}
}

// denied has a write error.
func (p passes) denied(o *Observation, e planner.WriteError) (next rollouts.RolloutStatus, news bool) {
	next = *o.Rollout.Status.DeepCopy()
	next.Conditions, news = planner.RecordWriteError(next.Conditions, e, p.now())
	return next, news
}

// file stores a history of what takes part in a release, as it is now.
func (p passes) file(ctx context.Context, o *Observation, f planner.Filing) error {
	return p.File(ctx, cluster.Part{Rollout: o.Rollout, Workload: o.workload, Stable: planner.Revision{Name: f.Release.StableRevision, Template: f.Release.StableTemplate}, Traffic: o.objects}, f)
}
