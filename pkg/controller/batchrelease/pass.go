// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package batchrelease

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/reconcile"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Cluster reads and writes the objects of a pass. The methods return nil for an object that does not exist.
type Cluster interface {
	reconcile.BatchCluster
	BatchRelease(context.Context, types.NamespacedName) (*rollouts.BatchRelease, error)
	// RolloutExists reports whether the Rollout of a BatchRelease exists and still runs it.
	RolloutExists(context.Context, *rollouts.BatchRelease) (bool, error)
	// RolloutOfWorkload returns the name of the Rollout that releases a workload; empty if none does.
	RolloutOfWorkload(context.Context, schema.GroupKind, types.NamespacedName) (string, error)
}

// Pass is one pass over a BatchRelease without a Rollout: what was observed, and the objects that its
// changes are based on.
type Pass struct {
	Cluster
	reconcile.Batch
	reconcile.Defaults
}

// Observe reads a BatchRelease and its workload. It returns nil if the BatchRelease does not exist, if its
// workload cannot be read, or if its Rollout exists. In the last case the passes over the Rollout also run
// the BatchRelease.
func Observe(ctx context.Context, c Cluster, now time.Time, labels planner.PodLabels, key types.NamespacedName) (*Pass, error) {
	release, err := c.BatchRelease(ctx, key)
	if err != nil || release == nil {
		return nil, err
	}
	if exists, err := c.RolloutExists(ctx, release); exists || err != nil {
		return nil, err
	}
	p := &Pass{Cluster: c, Batch: reconcile.Batch{Release: release}}
	p.Facts = planner.BatchInput{Now: now, Release: release, OwnedByRollout: ownedByRollout(release), Labels: labels}
	if ref := release.Spec.WorkloadRef; ref != nil {
		gk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
		if p.Facts.ReleasedBy, err = c.RolloutOfWorkload(ctx, gk, types.NamespacedName{Namespace: release.Namespace, Name: ref.Name}); err != nil {
			return nil, err
		}
	}
	readable, err := reconcile.ObserveBatch(ctx, c, &p.Batch, nil)
	if !readable || err != nil {
		return nil, err
	}
	return p, nil
}

// Decide returns the plan of the pass.
func (p *Pass) Decide() reconcile.Plan[rollouts.BatchReleaseStatus] {
	d := planner.DecideBatch(p.Facts)
	return reconcile.Plan[rollouts.BatchReleaseStatus]{Rule: d.Rule, Status: d.Status, Actions: planner.NewActions(planner.AfterStatus, d.Rule, d.Effects...), Events: d.Events}
}

// Status implements reconcile.Object.
func (p *Pass) Status() rollouts.BatchReleaseStatus { return p.Release.Status }

// Commit implements reconcile.Object.
func (p *Pass) Commit(ctx context.Context, next rollouts.BatchReleaseStatus) error {
	stored, err := p.CommitBatchRelease(ctx, p.Release, next)
	if err == nil {
		p.Release = stored
	}
	return err
}

// Act implements reconcile.Object.
func (p *Pass) Act(ctx context.Context, a planner.Action) error {
	return reconcile.ApplyBatchEffect(ctx, p.Cluster, &p.Batch, a.Effect)
}

// WithWriteError implements reconcile.Object.
func (p *Pass) WithWriteError(e planner.WriteError) (next rollouts.BatchReleaseStatus, announce, ok bool) {
	next = *p.Release.Status.DeepCopy()
	next.Conditions, announce = planner.RecordWriteError(next.Conditions, e, p.Facts.Now)
	return next, announce, true
}

// ownedByRollout reports whether the controller of the BatchRelease is, or was, a Rollout.
func ownedByRollout(b *rollouts.BatchRelease) bool {
	ref := metav1.GetControllerOf(b)
	return ref != nil && ref.Kind == "Rollout"
}
