// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// BatchCluster is what is read and written for a BatchRelease, whether a Rollout has it or
// not. An object that does not exist is nil.
type BatchCluster interface {
	Writer
	// Absent is the reason why the workloads of a row cannot be read.
	Absent(context.Context, workload.Row) (cluster.Absence, error)
	Workload(ctx context.Context, row workload.Row, namespace, name string, known planner.HoldState) (*cluster.Workload, error)
	// Pods are those of a revision of the workload.
	Pods(ctx context.Context, w *cluster.Workload, revision string) ([]*corev1.Pod, error)
	// Autoscalers are those of the workload of a name, disabled or not. It need not exist.
	Autoscalers(ctx context.Context, namespace, name string) ([]object.Object, error)
	// CommitBatchRelease stores a status at the version of the BatchRelease, and returns what is stored.
	CommitBatchRelease(context.Context, *rollouts.BatchRelease, rollouts.BatchReleaseStatus) (*rollouts.BatchRelease, error)
	DropFinalizer(ctx context.Context, o object.Object, finalizer string) error
	// Mark labels pods.
	Mark(ctx context.Context, namespace string, marks []planner.PodLabel) error
}

// Batch is one pass' view of a BatchRelease, with what its changes are based on.
type Batch struct {
	Facts planner.BatchInput
	// Release is as it is stored now, and Facts.Release as it was observed.
	Release  *rollouts.BatchRelease
	workload *cluster.Workload
	// enable are the changes that enable the autoscalers of the workload.
	enable []object.Change
	// Again is when pods that may still get ready are looked at again.
	Again time.Duration
}

// ObserveBatch reads what a BatchRelease is about, and reports whether it can be read. A
// workload that was read already is not read again.
func ObserveBatch(ctx context.Context, c BatchCluster, b *Batch, was *cluster.Workload) (readable bool, err error) {
	ref := b.Release.Spec.WorkloadRef
	if ref == nil {
		return true, nil
	}
	style := cmp.Or(b.Release.Spec.Plan.RollingStyle, rollouts.StylePartition)
	row, ok := workload.Find(ref.APIVersion, ref.Kind, style)
	if !ok {
		return false, nil
	}
	if b.enable, err = disabledScalers(ctx, c, row, b.Release.Namespace, ref.Name); err != nil {
		return false, err
	}
	b.Facts.DisabledScalers = len(b.enable) > 0
	known := planner.HoldStateOf(nil, b.Release)
	var w *cluster.Workload
	if was.Is(row, ref.Name) {
		w = was.WithHold(known)
	} else if w, readable, err = readWorkload(ctx, c, row, b.Release.Namespace, ref.Name, known); w == nil || err != nil {
		return readable, err
	}
	facts := w.Facts()
	b.workload, b.Facts.Workload = w, &facts
	return true, b.observePods(ctx, c, style)
}

// disabledScalers returns the changes that enable the autoscalers of a workload, if a release in the
// style of the row may have disabled them.
func disabledScalers(ctx context.Context, c BatchCluster, row workload.Row, namespace, name string) ([]object.Change, error) {
	if !row.OwnsAutoscalers {
		return nil, nil
	}
	beside, err := c.Autoscalers(ctx, namespace, name)
	return row.EnableAutoscalers(name, beside), err
}

// readWorkload reads a workload, and reports whether workloads of its kind can be read.
func readWorkload(ctx context.Context, c BatchCluster, row workload.Row, namespace, name string, known planner.HoldState) (w *cluster.Workload, readable bool, err error) {
	absence, err := c.Absent(ctx, row)
	if err != nil || absence.Why != "" {
		return nil, !absence.Forbidden, err
	}
	w, err = c.Workload(ctx, row, namespace, name, known)
	return w, true, err
}

// observePods looks at the pods that are waited for, to find out why they do not
// get ready, and at those of the update revision where they are to be labelled.
func (b *Batch) observePods(ctx context.Context, c BatchCluster, style rollouts.Style) error {
	facts := b.Facts.Workload
	if revision, whose := planner.AwaitedPods(b.Release, facts); revision != "" {
		pods, err := c.Pods(ctx, b.workload, revision)
		if err != nil {
			return err
		}
		b.Facts.PodProblem, b.Again = workload.UnreadyReasons(pods, whose, b.Facts.Now)
		if refusal := facts.PodCreationErrors[revision]; refusal != "" {
			b.Facts.PodProblem = whose + " " + refusal
		}
	}
	if facts.PodTemplateHash == "" || !planner.LabelsPods(b.Facts.Labels, style, facts) {
		return nil
	}
	pods, err := c.Pods(ctx, b.workload, facts.PodTemplateHash)
	b.Facts.Pods = workload.UpdatedPods(pods)
	return err
}

// OnBatch carries out an effect that a BatchRelease wants.
func OnBatch(ctx context.Context, c BatchCluster, b *Batch, effect planner.Effect) error {
	switch a := effect.(type) {
	case planner.RemoveFinalizer:
		return c.DropFinalizer(ctx, b.Release, rollouts.FinalizerBatchRelease)
	case planner.LabelPods:
		return c.Mark(ctx, b.Release.Namespace, a.Labels)
	case planner.EnableScalers:
		return c.Write(ctx, b.enable)
	}
	changes, err := b.onWorkload(effect)
	if err != nil {
		return err
	}
	return c.Write(ctx, changes)
}

// onWorkload returns what an effect changes on the workload and on what it owns.
func (b *Batch) onWorkload(effect planner.Effect) ([]object.Change, error) {
	w := b.workload
	switch a := effect.(type) {
	case planner.SetTarget:
		return w.Repaired(w.Row.SetTarget(w.Object, w.Owned, w.Hold, a, cluster.OwnedBy(b.Release))), nil
	case planner.DeleteExtraWorkload:
		return w.Repaired(w.Row.RemoveExtraDeployments(w.Object, w.Owned)), nil
	case planner.UpdateExtraStatus:
		return w.Repaired(w.Row.UpdateExtraStatus(w.Object, w.Owned, w.Hold)), nil
	case planner.RestoreStrategy:
		return w.Repaired(w.Row.RestoreStrategy(w.Object, w.Owned, w.Hold)), nil
	case planner.HoldWorkload:
		return w.Repaired(w.Row.HoldMissed(w.Object, w.Hold, b.Release.Name, a.Again)), nil
	case planner.RestoreWorkload:
		return w.Repaired(w.Row.Restore(w.Object, w.Owned, w.Hold, a)), nil
	default:
		return nil, fmt.Errorf("the effect %q is not one of a batch", effect)
	}
}
