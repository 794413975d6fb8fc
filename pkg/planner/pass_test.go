// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/batch"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// batchPass is one pass of the BatchRelease controller.
func (w *world) batchPass(name string) {
	w.as("batch", func() error {
		b := find[*rollouts.BatchRelease](w.view(kindBatch), kindBatch, name)
		if b == nil {
			return nil
		}
		facts := batch.Observed{Now: w.now, Release: b, Owned: metav1.GetControllerOf(b) != nil}
		facts.Wanted, facts.Taken = w.wanted(b)
		row, seen, owned := w.observeWorkload(b.Spec.WorkloadRef, b.Spec.Plan.RollingStyle, planner.KnownOf(nil, b))
		if seen.Object != nil {
			f := row.Facts(seen, owned)
			facts.Workload = &f
			facts.Trouble = w.trouble(b, owned, f)
			if batch.Marks(facts.Labels, b.Spec.Plan.RollingStyle, &f) {
				facts.Pods = w.podsOf(owned, f)
			}
		}
		plan := w.check.batch(facts)
		if len(plan.Actions) > 0 || !equality.Semantic.DeepEqual(b.Status, plan.Status) {
			next := clone(b)
			next.Status = plan.Status
			if err := w.commit(next); err != nil {
				return err
			}
			w.tell.batchPlanned(b, plan)
			b = find[*rollouts.BatchRelease](w.store.objects, kindBatch, name)
		}
		for _, a := range plan.Actions {
			w.acts++
			w.tell.acted(a)
			if err := w.batchAct(a, b, row, seen, owned); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *world) batchAct(action planner.Action, b *rollouts.BatchRelease, row workload.Row, seen workload.Seen, owned []object.Object) error {
	if m, ok := action.(planner.MarkPods); ok {
		return w.mark(m.Marks)
	}
	changes := batchChanges(action, b, row, seen.Object, owned)
	if _, ours := action.(planner.DropFinalizer); !ours {
		changes = seen.Changes(changes)
	}
	return w.write(changes...)
}

func batchChanges(action planner.Action, b *rollouts.BatchRelease, row workload.Row, d object.Object, owned []object.Object) []object.Change {
	switch a := action.(type) {
	case planner.SetTarget:
		return row.SetTarget(d, owned, a, *metav1.NewControllerRef(b, wire("BatchRelease")))
	case planner.Discard:
		return row.Discard(d, owned)
	case planner.Tell:
		return row.Tell(d, owned)
	case planner.RestoreStrategy:
		return row.RestoreStrategy(d, owned)
	case planner.Hold:
		return row.Take(d, b.Name, a.Again)
	case planner.RestoreWorkload:
		return row.Restore(d, owned, a)
	case planner.DropFinalizer:
		next := clone(b)
		next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == rollouts.FinalizerBatchRelease })
		return []object.Change{{Base: b, Want: next}}
	default:
		panic(fmt.Sprintf("no effect for %q", action))
	}
}

// wanted reports whether the Rollout of a BatchRelease exists, and else which one
// releases its workload.
func (w *world) wanted(b *rollouts.BatchRelease) (wanted bool, taken string) {
	rollout := find[*rollouts.Rollout](w.view(kindRollout), kindRollout, b.Name)
	switch {
	case rollout == nil:
		return false, ""
	case planner.Owns(rollout, b) && !planner.Over(rollout):
		return true, ""
	case planner.Over(rollout), rollout.Status.Phase == rollouts.PhaseDisabled && rollout.Spec.Disabled:
		return false, ""
	default:
		return false, rollout.Name
	}
}

// trouble is what the pods complain about that are waited for.
func (w *world) trouble(b *rollouts.BatchRelease, owned []object.Object, f planner.Workload) string {
	revision, whose := batch.Awaits(b, &f)
	var pods []corev1.Pod
	for _, o := range owned {
		p, isPod := o.(*corev1.Pod)
		switch {
		case revision == "":
		case !isPod && o.GetLabels()[hashKey] == revision:
			pods = append(pods, w.kubelets(o.(*appsv1.ReplicaSet))...)
		case isPod && p.Labels[ordinalKey] == revision:
			pods = append(pods, w.shown(corev1.PodTemplateSpec{Spec: p.Spec}, isReady(p)))
		}
	}
	message, _ := workload.Trouble(pods, whose, w.now)
	return message
}

// kubelets show the pods of a set as they see them.
func (w *world) kubelets(rs *appsv1.ReplicaSet) []corev1.Pod {
	pods := make([]corev1.Pod, rs.Status.Replicas)
	for i := range pods {
		pods[i] = w.shown(rs.Spec.Template, int32(i) < rs.Status.ReadyReplicas)
	}
	return pods
}

// shown is a pod as its kubelet sees it.
func (w *world) shown(t corev1.PodTemplateSpec, ready bool) corev1.Pod {
	var pod corev1.Pod
	c := corev1.ContainerStatus{Name: "main", State: corev1.ContainerState{
		Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(w.now.Add(-time.Hour))},
	}}
	switch {
	case ready:
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	case bad(t):
		c.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}
	case !w.store.unready[tagOf(&t)]:
		c.State.Running.StartedAt = metav1.NewTime(w.now) // any moment now
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{c}
	return pod
}

// sizePass is one pass of the Deployment controller. It has nothing to commit.
func (w *world) sizePass(name string) {
	w.as("sizes", func() error {
		ref := &rollouts.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: name}
		known, named := w.known(name)
		row, seen, owned := w.observeWorkload(ref, rollouts.StylePartition, known)
		d := seen.Object
		if !named {
			d = seen.Stored
		}
		switch {
		case d == nil, !marked(d), !named && (row.Held(d) || w.made(d)), known.Batch != "" && known.Target == nil, known.UID != "" && known.UID != d.GetUID():
			return nil
		}
		seen.Object = d
		facts, ok := row.Sizing(seen, owned)
		if !ok {
			return nil
		}
		scale := w.check.sizes(facts)
		if len(scale.Steps) == 0 {
			if !facts.Alone {
				return nil
			}
			return w.write(row.Tell(d, owned)...)
		}
		changes, err := row.Sets(d, owned, scale)
		if err != nil {
			return err
		}
		w.tell.sized(scale)
		return w.write(seen.Based(changes)...)
	})
}

// made reports whether the caches show a BatchRelease which has made the object.
func (w *world) made(o object.Object) bool {
	return slices.ContainsFunc(each[*rollouts.BatchRelease](w.view(kindBatch)), func(b *rollouts.BatchRelease) bool { return planner.Beside(b, o) })
}

// known is what the caches show of the store about a Deployment.
func (w *world) known(name string) (planner.Known, bool) {
	b := find[*rollouts.BatchRelease](w.view(kindBatch), kindBatch, name)
	for _, r := range each[*rollouts.Rollout](w.view(kindRollout)) {
		if r.Spec.WorkloadRef.Name == name && (r.Status.Phase != rollouts.PhaseDisabled || !r.Spec.Disabled) {
			return planner.KnownOf(r, b), true
		}
	}
	if b != nil {
		return planner.KnownOf(nil, b), true
	}
	return planner.Known{}, false
}

func marked(o object.Object) bool {
	return o.GetAnnotations()[rollouts.AnnotationInProgress] != "" || o.GetAnnotations()[rollouts.AnnotationControlInfo] != ""
}
