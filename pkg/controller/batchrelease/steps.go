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
	"github.com/weir-rollouts/weir/pkg/controller/pass"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Cluster is what a pass reads and writes. An object that does not exist is nil.
type Cluster interface {
	pass.BatchCluster
	BatchRelease(context.Context, types.NamespacedName) (*rollouts.BatchRelease, error)
	// Wanted reports whether the Rollout of a BatchRelease is there.
	Wanted(context.Context, *rollouts.BatchRelease) (bool, error)
	// RolloutNaming is the Rollout that releases a workload; empty if none does.
	RolloutNaming(context.Context, schema.GroupKind, types.NamespacedName) (string, error)
}

// passes are those over the BatchReleases of a cluster.
type passes struct {
	Cluster
	now    func() time.Time
	labels planner.PodLabels
}

// Steps are those of the passes over the BatchReleases of a cluster that no Rollout has.
func Steps(c Cluster, now func() time.Time, labels planner.PodLabels) pass.Steps[pass.Batch, rollouts.BatchReleaseStatus] {
	p := passes{Cluster: c, now: now, labels: labels}
	return pass.Steps[pass.Batch, rollouts.BatchReleaseStatus]{
		Observe: p.observe,
		Decide:  Decide,
		Status:  func(b *pass.Batch) rollouts.BatchReleaseStatus { return b.Release.Status },
		Commit:  pass.Store(func(b *pass.Batch) **rollouts.BatchRelease { return &b.Release }, c.CommitBatchRelease),
		Act: func(ctx context.Context, b *pass.Batch, a planner.Action) error {
			return pass.OnBatch(ctx, c, b, a.Effect)
		},
		RecordWriteError: p.denied,
		Again:            func(b *pass.Batch) time.Duration { return b.Again },
	}
}

// Decide is planner.DecideBatch.
func Decide(b *pass.Batch) pass.Decision[rollouts.BatchReleaseStatus] {
	plan := planner.DecideBatch(b.Facts)
	return pass.Decision[rollouts.BatchReleaseStatus]{Rule: plan.Rule, Status: plan.Status, Actions: planner.Actions(planner.AfterStatus, plan.Rule, plan.Effects...), Events: plan.Events}
}

// denied has a write error.
func (p passes) denied(b *pass.Batch, e planner.WriteError) (next rollouts.BatchReleaseStatus, news bool) {
	next = *b.Release.Status.DeepCopy()
	next.Conditions, news = planner.RecordWriteError(next.Conditions, e, p.now())
	return next, news
}

// observe leaves a BatchRelease alone that a Rollout has: that one's passes are about it, too.
func (p passes) observe(ctx context.Context, key types.NamespacedName) (*pass.Batch, error) {
	release, err := p.BatchRelease(ctx, key)
	if err != nil || release == nil {
		return nil, err
	}
	if wanted, err := p.Wanted(ctx, release); wanted || err != nil {
		return nil, err
	}
	b := &pass.Batch{Release: release, Facts: planner.BatchInput{Now: p.now(), Release: release, OwnedByRollout: owned(release), Labels: p.labels}}
	if err := p.observeTaken(ctx, b); err != nil {
		return nil, err
	}
	readable, err := pass.ObserveBatch(ctx, p.Cluster, b, nil)
	if !readable || err != nil {
		return nil, err
	}
	return b, nil
}

// observeTaken finds the Rollout that releases what is named by the BatchRelease of
// nobody, or of a Rollout that is gone or another one.
func (p passes) observeTaken(ctx context.Context, b *pass.Batch) (err error) {
	ref := b.Release.Spec.WorkloadRef
	if ref == nil {
		return nil
	}
	gk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
	b.Facts.ReleasedBy, err = p.RolloutNaming(ctx, gk, types.NamespacedName{Namespace: b.Release.Namespace, Name: ref.Name})
	return err
}

// owned reports whether the controller of the BatchRelease is, or was, a Rollout.
func owned(b *rollouts.BatchRelease) bool {
	ref := metav1.GetControllerOf(b)
	return ref != nil && ref.Kind == "Rollout"
}
