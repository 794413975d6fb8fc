// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/verb"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// commit stores a status with the planned resourceVersion as precondition.
func commit[T object.Object](a cachedCluster, next T) (T, error) {
	var none T
	if err := a.spendWrite(committing); err != nil {
		return none, err
	}
	if err := a.store.updateStatus(next); err != nil {
		return none, err
	}
	a.check.checkCommit(a.actor, next)
	return find[T](a.store.objects, keyOf(next).kind, next.GetName()), nil
}

func (a cachedCluster) CommitRollout(_ context.Context, r *rollouts.Rollout, status rollouts.RolloutStatus) (*rollouts.Rollout, error) {
	next := clone(r)
	next.Status = *status.DeepCopy()
	err := verb.Automatic(&r.Status, &next.Status, func() verb.Command { // like the server
		return verb.Command{User: "weir-controller", Now: metav1.NewTime(a.now)}
	})
	if err != nil {
		return nil, err
	}
	return commit(a, next)
}

func (a cachedCluster) CommitBatchRelease(_ context.Context, b *rollouts.BatchRelease, status rollouts.BatchReleaseStatus) (*rollouts.BatchRelease, error) {
	next := clone(b)
	next.Status = status
	if a.actor != "rollout" {
		return commit(a, next)
	}
	return a.CreateOrUpdateBatchRelease(context.Background(), b, next) // the pass of the Rollout stores this status
}

func (a cachedCluster) CommitTrafficRouting(_ context.Context, r *rollouts.TrafficRouting, status rollouts.TrafficRoutingStatus) (*rollouts.TrafficRouting, error) {
	next := clone(r)
	next.Status = status
	return commit(a, next)
}

// Write performs changes in order and stops at the first failure.
func (a cachedCluster) Write(_ context.Context, changes []object.Change) error {
	for _, c := range changes {
		if err := a.write(c); err != nil {
			return err
		}
	}
	return nil
}

func (a cachedCluster) write(c object.Change) error {
	if err := a.spendWrite(acting); err != nil {
		return err
	}
	if a.isLate && !isOwnKind(c) {
		return errStaleLease
	}
	a.check.checkEffect(a.actor)
	a.check.checkWriteIsUseful(a.actor, c)
	defer a.awaitSets()
	switch {
	case c.Base == nil:
		return a.store.create(c.Want)
	case c.Want != nil:
		return a.store.update(a.store.rebaseOnStatus(c.Base, typedIngress(c.Want)))
	default:
		return a.store.removeAtVersion(c.Base)
	}
}

// awaitSets makes the next pass observe the sets as written, like a WriteTracker.
func (a cachedCluster) awaitSets() {
	if a.actor == "sizes" {
		a.seen[kindSet] = a.store.newest()
	}
}

func (a cachedCluster) CreateOrUpdateBatchRelease(_ context.Context, was, b *rollouts.BatchRelease) (*rollouts.BatchRelease, error) {
	if err := a.spendWrite(acting); err != nil {
		return nil, err
	}
	write := a.store.create
	if was != nil {
		a.check.checkWriteIsUseful(a.actor, object.Change{Base: was, Want: b})
		write = a.store.updateAll
	}
	if err := write(b); err != nil {
		return nil, err
	}
	return find[*rollouts.BatchRelease](a.store.objects, kindBatch, b.Name), nil
}

func (a cachedCluster) DeleteBatchRelease(_ context.Context, b *rollouts.BatchRelease) error {
	return a.write(object.Change{Base: b})
}

func (a cachedCluster) AddFinalizer(_ context.Context, o object.Object, finalizer string) error {
	if slices.Contains(o.GetFinalizers(), finalizer) {
		return nil
	}
	next := clone(o)
	next.SetFinalizers(append(next.GetFinalizers(), finalizer))
	return a.write(object.Change{Base: o, Want: next})
}

func (a cachedCluster) RemoveFinalizer(_ context.Context, o object.Object, finalizer string) error {
	next := clone(o)
	next.SetFinalizers(slices.DeleteFunc(next.GetFinalizers(), func(f string) bool { return f == finalizer }))
	return a.write(object.Change{Base: o, Want: next})
}

func (a cachedCluster) AddToIndex(ctx context.Context, e *cluster.IndexEntry) error {
	return a.Write(ctx, workload.UpdateIndex(e.Index, e.Rollout.Namespace, map[string]string{e.Rollout.Name: e.Key}))
}

func (a cachedCluster) RemoveFromIndex(ctx context.Context, e *cluster.IndexEntry) error {
	return a.Write(ctx, workload.UpdateIndex(e.Index, e.Rollout.Namespace, map[string]string{e.Rollout.Name: ""}))
}

// WriteHistory creates a history without a status, and writes its status separately.
func (a cachedCluster) WriteHistory(_ context.Context, p cluster.ReleaseObjects, f planner.HistoryEntry) error {
	a.actionCount++
	name := planner.HistoryName(p.Rollout, f.Release.Number)
	made := find[*rollouts.RolloutHistory](a.store.objects, kindHistory, name) == nil
	if made {
		meta := metav1.ObjectMeta{Name: name, Labels: planner.HistoryLabels(p.Rollout, f.Release)}
		spec := rollouts.RolloutHistorySpec{Stable: stableInfo(p)}
		if err := a.write(object.Change{Want: &rollouts.RolloutHistory{ObjectMeta: meta, Spec: spec}}); err != nil {
			return err
		}
		a.historyWrites++
	}
	if f.Status == nil {
		return nil
	}
	if err := a.spendWrite(acting); err != nil {
		return err
	}
	a.check.checkEffect(a.actor)
	next := clone(find[*rollouts.RolloutHistory](a.store.objects, kindHistory, name))
	if !made && !f.MayReplace(next.Status) {
		return errConflict
	}
	next.Status = *f.Status
	a.historyWrites++
	return a.store.updateStatus(next)
}

// stableInfo returns the stable revision that a history stores.
func stableInfo(p cluster.ReleaseObjects) *rollouts.ObjectInfo {
	if p.Workload == nil || p.Stable == (planner.Revision{}) {
		return nil
	}
	kept := p.Workload.Row.Snapshot(p.Workload.Object, p.Workload.Owned, p.Stable)
	if kept == nil {
		return nil
	}
	return &rollouts.ObjectInfo{Name: kept.Name, Data: rollouts.RawJSON{Raw: kept.Spec}}
}

// LabelPods writes the labels of each pod separately.
func (a cachedCluster) LabelPods(_ context.Context, _ string, marks []planner.PodLabel) error {
	for _, m := range marks {
		if err := a.labelPod(m); err != nil {
			return err
		}
	}
	return nil
}
