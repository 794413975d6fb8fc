// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package batchrelease reconciles the BatchReleases that have no Rollout. A pass observes the workload and
// carries out the decision of planner.DecideBatch. The package does not know about traffic, steps or
// approvals.
package batchrelease

import (
	"context"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/controller/reconcile"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// Reconciler reconciles BatchReleases without a Rollout.
type Reconciler struct {
	Server      cluster.Server
	Recorder    events.EventRecorder
	Clock       clock.PassiveClock
	Concurrency int
	// Labels selects the releases whose pods get labels with the number of their batch.
	Labels        planner.PodLabels
	workloadKinds cluster.WorkloadKinds
	// limitBackoff limits the backoff of a failed pass to its planned delay (queue.BackoffLimiter).
	limitBackoff func(ctrl.Request, time.Duration)
}

// Reconcile runs one pass over a BatchRelease without a Rollout.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	p, err := Observe(ctx, liveCluster{r.Server, r}, r.Clock.Now(), r.Labels, req.NamespacedName)
	if p == nil || err != nil {
		return reconcile.Result(err)
	}
	plan := p.Decide()
	// A BatchRelease has the name of the Rollout that created it.
	ctx = logf.IntoContext(ctx, logf.FromContext(ctx).WithValues(
		"Rollout", req.NamespacedName, "phase", plan.Status.Phase, "revision", plan.Status.UpdateRevision, "batch", plan.Status.CurrentBatch))
	_, err = reconcile.Execute(ctx, reportingPass{p, r}, plan)
	return reconcile.PassResult(req, plan, p.Batch.RequeueAfter, r.limitBackoff, err)
}

// reportingPass is a pass that records events.
type reportingPass struct {
	*Pass
	r *Reconciler
}

// RecordEvents implements reconcile.Object.
func (p reportingPass) RecordEvents(events []planner.Event) {
	cluster.RecordEvents(p.r.Recorder, cluster.EventTarget(p.Release), "Release", events)
}

// liveCluster implements Cluster with informer caches and the API server.
type liveCluster struct {
	cluster.Server
	r *Reconciler
}

// CheckAvailability implements Cluster.
func (s liveCluster) CheckAvailability(ctx context.Context, row workload.Row) (cluster.Unavailability, error) {
	return s.r.workloadKinds.CheckAvailability(ctx, s.Reader, row)
}
