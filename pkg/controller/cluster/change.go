// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// WorkloadChanged passes updates of workloads that matter. The native controller
// counts the pods of a Deployment in its status with each of them; while it is held,
// only its ReplicaSets are asked for that.
func WorkloadChanged() predicate.Predicate {
	return updates(func(was, is *appsv1.Deployment) bool {
		return !counted(was) || !counted(is) ||
			was.Status.ObservedGeneration != is.Status.ObservedGeneration || !equality.Semantic.DeepEqual(metaOf(was), metaOf(is))
	})
}

// updates passes updates of objects of a type that change what matters, and whatever
// happens to others.
func updates[T client.Object](matters func(was, is T) bool) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, ok := e.ObjectOld.(T)
		is, too := e.ObjectNew.(T)
		return !ok || !too || recovered("comparing updates", e.ObjectNew, func() bool { return matters(was, is) })
	}}
}

// SinceStart leaves out what a start finds: there each Rollout and each BatchRelease wakes its
// own pass, which sees all of that.
func SinceStart() predicate.Predicate {
	return predicate.Funcs{CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList }}
}

// counted reports whether the pods of a Deployment are counted by its ReplicaSets. Those of
// one that is made beside another are counted by its status.
func counted(d *appsv1.Deployment) bool {
	return d.Annotations[rollouts.AnnotationInProgress] != "" && d.Labels[rollouts.LabelCanaryDeployment] == ""
}

// metaOf tells by the generation whether the spec changed, too.
func metaOf(o client.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		UID: o.GetUID(), Generation: o.GetGeneration(), Labels: o.GetLabels(), Annotations: o.GetAnnotations(),
		OwnerReferences: o.GetOwnerReferences(), Finalizers: o.GetFinalizers(), DeletionTimestamp: o.GetDeletionTimestamp(),
	}
}

// OwnedChanged passes updates of what a workload owns that matter: of the spec, the
// sizes and the marks of a ReplicaSet, of whether a pod serves and of its labels.
func OwnedChanged() predicate.Predicate {
	return predicate.And(updates(setChanged), updates(podChanged))
}

func setChanged(was, is *appsv1.ReplicaSet) bool {
	return was.Generation != is.Generation || was.Status.Replicas != is.Status.Replicas || was.Status.ReadyReplicas != is.Status.ReadyReplicas ||
		was.Status.AvailableReplicas != is.Status.AvailableReplicas || workload.HasStaleCounters(was) != workload.HasStaleCounters(is) || workload.HasObservedZero(was) != workload.HasObservedZero(is) ||
		!equality.Semantic.DeepEqual(was.Status.Conditions, is.Status.Conditions) ||
		!equality.Semantic.DeepEqual(was.Annotations, is.Annotations) || !slices.Equal(was.Finalizers, is.Finalizers)
}

func podChanged(was, is *corev1.Pod) bool {
	return workload.IsReadyOrTerminating(was) != workload.IsReadyOrTerminating(is) || was.Status.Phase != is.Status.Phase || troubleChanged(was, is)
}

// TroubleChanged passes pods only when there are more or fewer of them, or when their
// labels or what keeps them from running has changed.
func TroubleChanged() predicate.Predicate { return updates(troubleChanged) }

// troubleChanged leaves out what is normal for a while and is looked at again without
// being told.
func troubleChanged(was, is *corev1.Pod) bool {
	trouble := func(p *corev1.Pod) string {
		message, _ := workload.UnreadyReasons([]*corev1.Pod{p}, "", time.Time{})
		return message
	}
	health := func(p *corev1.Pod) planner.PodHealth { return workload.ObserveHealth([]*corev1.Pod{p}, time.Time{}) }
	return trouble(was) != trouble(is) || health(was) != health(is) ||
		(was.DeletionTimestamp == nil) != (is.DeletionTimestamp == nil) || !maps.Equal(was.Labels, is.Labels)
}

// TargetChanged passes autoscalers only when they come, or scale something else: to give
// one back may be the last that is done.
func TargetChanged() predicate.Predicate {
	return updates(func(was, is *autoscalingv2.HorizontalPodAutoscaler) bool {
		return was.Spec.ScaleTargetRef.Name != is.Spec.ScaleTargetRef.Name
	})
}

// Deleted passes nothing but deletions.
func Deleted() predicate.Predicate {
	never := predicate.NewPredicateFuncs(func(client.Object) bool { return false })
	return predicate.Funcs{CreateFunc: never.Create, UpdateFunc: never.Update, GenericFunc: never.Generic}
}

// DriveChanged passes BatchReleases that tell their workload something else.
func DriveChanged() predicate.Predicate {
	return updates(func(was, is *v1beta1.BatchRelease) bool {
		return !equality.Semantic.DeepEqual(was.Status.Drive, is.Status.Drive) ||
			was.Spec.ReleasePlan.StableRevision != is.Spec.ReleasePlan.StableRevision
	})
}

// PhaseChanged passes Rollouts whose release begins or ends.
func PhaseChanged() predicate.Predicate {
	return updates(func(was, is *v1beta1.Rollout) bool { return was.Status.Phase != is.Status.Phase })
}
