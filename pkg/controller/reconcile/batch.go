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

// BatchCluster reads and writes the objects of a BatchRelease, with or without a Rollout. The methods
// return nil for an object that does not exist.
type BatchCluster interface {
	Writer
	// CheckAvailability returns the reason why the workloads of a row cannot be read.
	CheckAvailability(context.Context, workload.Row) (cluster.Unavailability, error)
	Workload(ctx context.Context, row workload.Row, namespace, name string, known planner.HoldState) (*cluster.Workload, error)
	// Pods returns the pods of a revision of the workload.
	Pods(ctx context.Context, w *cluster.Workload, revision string) ([]*corev1.Pod, error)
	// Autoscalers returns the autoscalers of the workload with the name, including disabled ones. The
	// workload need not exist.
	Autoscalers(ctx context.Context, namespace, name string) ([]object.Object, error)
	// CommitBatchRelease stores a status at the resourceVersion of the BatchRelease, and returns the stored
	// BatchRelease.
	CommitBatchRelease(context.Context, *rollouts.BatchRelease, rollouts.BatchReleaseStatus) (*rollouts.BatchRelease, error)
	RemoveFinalizer(ctx context.Context, o object.Object, finalizer string) error
	// LabelPods writes the batch labels of pods.
	LabelPods(ctx context.Context, namespace string, marks []planner.PodLabel) error
}

// Batch is a BatchRelease as one pass observed it, with the objects that the pass changes.
type Batch struct {
	Facts planner.BatchInput
	// Release is the BatchRelease as it is stored now. Facts.Release is the BatchRelease as it was
	// observed.
	Release  *rollouts.BatchRelease
	workload *cluster.Workload
	// enableScalers has the changes that enable the autoscalers of the workload.
	enableScalers []object.Change
	// RequeueAfter is the time until the next look at pods that may still become ready; zero if there are
	// none.
	RequeueAfter time.Duration
}

// ObserveBatch reads the workload of a BatchRelease with its pods and autoscalers, and reports whether
// workloads of this kind can be read. The parameter was is the workload if the pass has already read it,
// or nil.
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
	if b.enableScalers, err = enableScalerChanges(ctx, c, row, b.Release.Namespace, ref.Name); err != nil {
		return false, err
	}
	b.Facts.DisabledScalers = len(b.enableScalers) > 0
	known := planner.HoldStateOf(nil, b.Release)
	var w *cluster.Workload
	if was.IsFor(row, ref.Name) {
		w = was.WithHold(known)
	} else if w, readable, err = readWorkload(ctx, c, row, b.Release.Namespace, ref.Name, known); w == nil || err != nil {
		return readable, err
	}
	facts := w.Facts()
	b.workload, b.Facts.Workload = w, &facts
	return true, b.observePods(ctx, c, style)
}

// enableScalerChanges returns the changes that enable the autoscalers of a workload, if a release in the
// style of the row may have disabled them.
func enableScalerChanges(ctx context.Context, c BatchCluster, row workload.Row, namespace, name string) ([]object.Change, error) {
	if !row.OwnsAutoscalers {
		return nil, nil
	}
	scalers, err := c.Autoscalers(ctx, namespace, name)
	return row.EnableAutoscalers(name, scalers), err
}

// readWorkload reads a workload, and reports whether workloads of its kind can be read. It returns nil if
// the workload does not exist.
func readWorkload(ctx context.Context, c BatchCluster, row workload.Row, namespace, name string, known planner.HoldState) (w *cluster.Workload, readable bool, err error) {
	absence, err := c.CheckAvailability(ctx, row)
	if err != nil || absence.Reason != "" {
		return nil, !absence.Forbidden, err
	}
	w, err = c.Workload(ctx, row, namespace, name, known)
	return w, true, err
}

// observePods reads the pods that the batch waits for, to find the reason why they are not ready, and the
// pods of the update revision if they need batch labels.
func (b *Batch) observePods(ctx context.Context, c BatchCluster, style rollouts.Style) error {
	facts := b.Facts.Workload
	if revision, whose := planner.AwaitedPods(b.Release, facts); revision != "" {
		pods, err := c.Pods(ctx, b.workload, revision)
		if err != nil {
			return err
		}
		b.Facts.PodProblem, b.RequeueAfter = workload.UnreadyReasons(pods, whose, b.Facts.Now)
		if refusal := facts.PodCreationErrors[revision]; refusal != "" {
			b.Facts.PodProblem = planner.PodProblem{Message: whose + " " + refusal, Failing: rollouts.FailingPodsRefused}
		}
	}
	if facts.PodTemplateHash == "" || !planner.LabelsPods(b.Facts.Labels, style, facts) {
		return nil
	}
	pods, err := c.Pods(ctx, b.workload, facts.PodTemplateHash)
	b.Facts.Pods = workload.UpdatedPods(pods)
	return err
}

// ApplyBatchEffect carries out an effect that the planner decided for a BatchRelease.
func ApplyBatchEffect(ctx context.Context, c BatchCluster, b *Batch, effect planner.Effect) error {
	switch a := effect.(type) {
	case planner.RemoveFinalizer:
		return c.RemoveFinalizer(ctx, b.Release, rollouts.FinalizerBatchRelease)
	case planner.LabelPods:
		return c.LabelPods(ctx, b.Release.Namespace, a.Labels)
	case planner.EnableScalers:
		return c.Write(ctx, b.enableScalers)
	}
	changes, err := b.workloadChanges(effect)
	if err != nil {
		return err
	}
	return c.Write(ctx, changes)
}

// workloadChanges returns the changes that an effect makes to the workload and to the objects that it
// owns.
func (b *Batch) workloadChanges(effect planner.Effect) ([]object.Change, error) {
	w := b.workload
	switch a := effect.(type) {
	case planner.SetTarget:
		return w.WithRepair(w.Row.SetTarget(w.Object, w.Owned, w.Hold, a, cluster.OwnerReferenceTo(b.Release))), nil
	case planner.DeleteExtraWorkload:
		return w.WithRepair(w.Row.RemoveExtraDeployments(w.Object, w.Owned)), nil
	case planner.UpdateExtraStatus:
		return w.WithRepair(w.Row.UpdateExtraStatus(w.Object, w.Owned, w.Hold)), nil
	case planner.RestoreStrategy:
		return w.WithRepair(w.Row.RestoreStrategy(w.Object, w.Owned, w.Hold)), nil
	case planner.HoldWorkload:
		return w.WithRepair(w.Row.HoldMissed(w.Object, w.Hold, b.Release.Name, a.Again)), nil
	case planner.RestoreWorkload:
		return w.WithRepair(w.Row.Restore(w.Object, w.Owned, w.Hold, a)), nil
	default:
		return nil, fmt.Errorf("the effect %q is not one of a batch", effect)
	}
}
