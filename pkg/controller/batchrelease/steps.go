// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package batchrelease

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/batch"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/controller/pass"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// Cluster is what a pass reads and writes. An object that does not exist is nil.
type Cluster interface {
	pass.Writer
	BatchRelease(context.Context, types.NamespacedName) (*rollouts.BatchRelease, error)
	// Wanted reports whether the Rollout of a BatchRelease is there.
	Wanted(context.Context, *rollouts.BatchRelease) (bool, error)
	// RolloutNaming is the Rollout that releases a workload; empty if none does.
	RolloutNaming(context.Context, schema.GroupKind, types.NamespacedName) (string, error)
	// Absent is the reason why the workloads of a row cannot be read.
	Absent(context.Context, workload.Row) (cluster.Absence, error)
	Workload(ctx context.Context, row workload.Row, namespace, name string, known planner.Known) (*cluster.Workload, error)
	// Pods are those of a revision of the workload.
	Pods(ctx context.Context, w *cluster.Workload, revision string) ([]corev1.Pod, error)

	// CommitBatchRelease stores a status at the version of the BatchRelease, and returns what is stored.
	CommitBatchRelease(context.Context, *rollouts.BatchRelease, rollouts.BatchReleaseStatus) (*rollouts.BatchRelease, error)
	DropFinalizer(ctx context.Context, o object.Object, finalizer string) error
	// Mark labels pods.
	Mark(ctx context.Context, namespace string, marks []planner.Mark) error
}

// Observation is one pass' view, with what its changes are based on.
type Observation struct {
	Facts batch.Observed
	// Release is as it is stored now, and Facts.Release as it was observed.
	Release  *rollouts.BatchRelease
	workload *cluster.Workload
	// again is when pods that may still get ready are looked at again.
	again time.Duration
}

// passes are those over the BatchReleases of a cluster.
type passes struct {
	Cluster
	now    func() time.Time
	labels batch.PodLabels
}

// Steps are those of the passes over the BatchReleases of a cluster.
func Steps(c Cluster, now func() time.Time, labels batch.PodLabels) pass.Steps[Observation, rollouts.BatchReleaseStatus] {
	p := passes{Cluster: c, now: now, labels: labels}
	return pass.Steps[Observation, rollouts.BatchReleaseStatus]{
		Observe:          p.observe,
		Decide:           Decide,
		Status:           func(o *Observation) rollouts.BatchReleaseStatus { return o.Release.Status },
		Commit:           pass.Store(func(o *Observation) **rollouts.BatchRelease { return &o.Release }, c.CommitBatchRelease),
		Act:              p.act,
		RecordWriteError: p.denied,
		Again:            func(o *Observation) time.Duration { return o.again },
	}
}

// Decide is batch.Decide.
func Decide(o *Observation) pass.Decision[rollouts.BatchReleaseStatus] {
	plan := batch.Decide(o.Facts)
	return pass.Decision[rollouts.BatchReleaseStatus]{Rule: plan.Rule, Status: plan.Status, Actions: plan.Actions, Events: plan.Events}
}

// denied has a write error; the Rollout announces it.
func (p passes) denied(o *Observation, e planner.WriteError) (next rollouts.BatchReleaseStatus, news bool) {
	next = *o.Release.Status.DeepCopy()
	next.Conditions, _ = planner.RecordWriteError(next.Conditions, e, p.now())
	return next, false
}

func (p passes) observe(ctx context.Context, key types.NamespacedName) (*Observation, error) {
	release, err := p.BatchRelease(ctx, key)
	if err != nil || release == nil {
		return nil, err
	}
	obs := &Observation{Release: release, Facts: batch.Observed{Now: p.now(), Release: release, Owned: owned(release), Labels: p.labels}}
	if obs.Facts.Wanted, err = p.Wanted(ctx, release); err != nil {
		return nil, err
	}
	ref := release.Spec.WorkloadRef
	if ref == nil {
		return obs, nil
	}
	if err := p.observeTaken(ctx, obs, *ref); err != nil {
		return nil, err
	}
	style := cmp.Or(release.Spec.Plan.RollingStyle, rollouts.StylePartition)
	row, ok := workload.Find(ref.APIVersion, ref.Kind, style)
	if !ok {
		return nil, nil // the Rollout says what is not supported
	}
	readable, err := p.observeWorkload(ctx, obs, row)
	if err != nil || !readable {
		return nil, err // the Rollout says what may not be read
	}
	if obs.workload == nil {
		return obs, nil
	}
	return obs, p.observePods(ctx, obs, style)
}

// observeWorkload reads the workload, if there is one, and reports whether it may be
// read at all.
func (p passes) observeWorkload(ctx context.Context, obs *Observation, row workload.Row) (readable bool, err error) {
	absence, err := p.Absent(ctx, row)
	if err != nil || absence.Why != "" {
		return !absence.Forbidden, err
	}
	b := obs.Release
	obs.workload, err = p.Workload(ctx, row, b.Namespace, b.Spec.WorkloadRef.Name, planner.KnownOf(nil, b))
	if err == nil && obs.workload != nil {
		facts := obs.workload.Facts()
		obs.Facts.Workload = &facts
	}
	return true, err
}

// observeTaken finds the Rollout that releases what is named by the BatchRelease of
// nobody, or of a Rollout that is gone or another one.
func (p passes) observeTaken(ctx context.Context, obs *Observation, ref rollouts.ObjectRef) error {
	if obs.Facts.Wanted {
		return nil
	}
	gk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
	var err error
	obs.Facts.Taken, err = p.RolloutNaming(ctx, gk, types.NamespacedName{Namespace: obs.Release.Namespace, Name: ref.Name})
	return err
}

// observePods looks at the pods that are waited for, to find out why they do not
// get ready, and at those of the update revision where they are to be labelled.
func (p passes) observePods(ctx context.Context, obs *Observation, style rollouts.Style) error {
	facts := obs.Facts.Workload
	if revision, whose := batch.Awaits(obs.Release, facts); revision != "" {
		pods, err := p.Pods(ctx, obs.workload, revision)
		if err != nil {
			return err
		}
		obs.Facts.Trouble, obs.again = workload.Trouble(pods, whose, p.now())
		if refusal := facts.Refusals[revision]; refusal != "" {
			obs.Facts.Trouble = whose + " " + refusal
		}
	}
	if facts.PodTemplateHash == "" || !batch.Marks(p.labels, style, facts) {
		return nil
	}
	pods, err := p.Pods(ctx, obs.workload, facts.PodTemplateHash)
	obs.Facts.Pods = workload.Pods(pods)
	return err
}

// owned reports whether the controller of the BatchRelease is, or was, a Rollout.
func owned(b *rollouts.BatchRelease) bool {
	ref := metav1.GetControllerOf(b)
	return ref != nil && ref.Kind == "Rollout"
}

func (p passes) act(ctx context.Context, obs *Observation, action planner.Action) error {
	switch a := action.(type) {
	case planner.DropFinalizer:
		return p.DropFinalizer(ctx, obs.Release, rollouts.FinalizerBatchRelease)
	case planner.MarkPods:
		return p.Mark(ctx, obs.Release.Namespace, a.Marks)
	}
	changes, err := onWorkload(obs, action)
	if err != nil {
		return err
	}
	return p.Write(ctx, changes)
}

// onWorkload is what an action changes on the workload and on what it owns.
func onWorkload(obs *Observation, action planner.Action) ([]object.Change, error) {
	w := obs.workload
	switch a := action.(type) {
	case planner.SetTarget:
		return w.Changes(w.Row.SetTarget(w.Object, w.Owned, a, cluster.OwnedBy(obs.Release))), nil
	case planner.Discard:
		return w.Changes(w.Row.Discard(w.Object, w.Owned)), nil
	case planner.Tell:
		return w.Changes(w.Row.Tell(w.Object, w.Owned)), nil
	case planner.RestoreStrategy:
		return w.Changes(w.Row.RestoreStrategy(w.Object, w.Owned)), nil
	case planner.Hold:
		return w.Changes(w.Row.Take(w.Object, obs.Release.Name, a.Again)), nil
	case planner.RestoreWorkload:
		return w.Changes(w.Row.Restore(w.Object, w.Owned, a)), nil
	default:
		return nil, fmt.Errorf("no effect for %q", action)
	}
}
