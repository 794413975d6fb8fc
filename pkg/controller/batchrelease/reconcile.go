// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package batchrelease drives one workload for each BatchRelease that no Rollout has. It answers
// how far the workload was told to go and whether it is there; what happens
// next is batch.Decide's to say. It must not know about traffic,
// steps or approvals.
package batchrelease

import (
	"context"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/batch"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/controller/pass"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// Reconciler runs one pass at a time over each BatchRelease.
type Reconciler struct {
	Server      cluster.Server
	Recorder    events.EventRecorder
	Clock       clock.PassiveClock
	Concurrency int
	// Labels says which releases' pods are labelled with their batch.
	Labels batch.PodLabels
	kinds  cluster.Kinds
	// noLater limits the backoff of a failed pass to its planned wake-up (queue.BackoffLimiter).
	noLater func(ctrl.Request, time.Duration)
}

// Reconcile runs one pass.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	steps := Steps(server{r.Server, r}, r.Clock.Now, r.Labels)
	steps.Announce = func(obs *pass.Batch, announced []planner.Event) {
		cluster.Announce(r.Recorder, cluster.AboutBatch(obs.Release), "Release", announced)
	}
	steps.Values = func(d pass.Decision[rollouts.BatchReleaseStatus]) []any {
		// It has the name of the Rollout that it belongs to.
		return []any{"Rollout", req.NamespacedName, "phase", d.Status.Phase, "revision", d.Status.UpdateRevision, "batch", d.Status.CurrentBatch}
	}
	steps.NoLater = r.noLater
	return steps.Reconcile(ctx, req)
}

// server is the API server for the passes of a Reconciler.
type server struct {
	cluster.Server
	r *Reconciler
}

// Absent implements Cluster.
func (s server) Absent(ctx context.Context, row workload.Row) (cluster.Absence, error) {
	return s.r.kinds.Absent(ctx, s.Reader, row)
}
