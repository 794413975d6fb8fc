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

// WorkloadChanged accepts updates of workloads that a pass depends on. kube-controller-manager updates the
// status of a Deployment for every pod. For a held Deployment the ReplicaSets have the pod counts, so these
// status updates do not matter.
func WorkloadChanged() predicate.Predicate {
	return filterUpdates(func(was, is *appsv1.Deployment) bool {
		return !replicaSetsCountPods(was) || !replicaSetsCountPods(is) ||
			was.Status.ObservedGeneration != is.Status.ObservedGeneration || !equality.Semantic.DeepEqual(comparableMetadata(was), comparableMetadata(is))
	})
}

// filterUpdates returns a predicate that accepts updates of objects of type T only if matters returns true.
// It accepts all other events, and all objects of other types.
func filterUpdates[T client.Object](matters func(was, is T) bool) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, ok := e.ObjectOld.(T)
		is, too := e.ObjectNew.(T)
		return !ok || !too || recoverPanic("comparing updates", e.ObjectNew, func() bool { return matters(was, is) })
	}}
}

// SkipInitialList rejects the objects of the first list after a start. At a start every Rollout and every
// BatchRelease is enqueued anyway.
func SkipInitialList() predicate.Predicate {
	return predicate.Funcs{CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList }}
}

// replicaSetsCountPods reports whether passes take the pod counts of a Deployment from its ReplicaSets. For
// a canary Deployment they take them from its status.
func replicaSetsCountPods(d *appsv1.Deployment) bool {
	return d.Annotations[rollouts.AnnotationInProgress] != "" && d.Labels[rollouts.LabelCanaryDeployment] == ""
}

// comparableMetadata returns the metadata that passes depend on. The generation covers the spec.
func comparableMetadata(o client.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		UID: o.GetUID(), Generation: o.GetGeneration(), Labels: o.GetLabels(), Annotations: o.GetAnnotations(),
		OwnerReferences: o.GetOwnerReferences(), Finalizers: o.GetFinalizers(), DeletionTimestamp: o.GetDeletionTimestamp(),
	}
}

// OwnedChanged accepts updates of objects that a workload owns, if a pass depends on the change: the spec,
// the counts and the annotations of a ReplicaSet, the readiness and the labels of a pod.
func OwnedChanged() predicate.Predicate {
	return predicate.And(filterUpdates(replicaSetChanged), filterUpdates(podChanged))
}

func replicaSetChanged(was, is *appsv1.ReplicaSet) bool {
	return was.Generation != is.Generation || was.Status.Replicas != is.Status.Replicas || was.Status.ReadyReplicas != is.Status.ReadyReplicas ||
		was.Status.AvailableReplicas != is.Status.AvailableReplicas || workload.HasStaleCounters(was) != workload.HasStaleCounters(is) || workload.HasObservedZero(was) != workload.HasObservedZero(is) ||
		!equality.Semantic.DeepEqual(was.Status.Conditions, is.Status.Conditions) ||
		!equality.Semantic.DeepEqual(was.Annotations, is.Annotations) || !slices.Equal(was.Finalizers, is.Finalizers)
}

func podChanged(was, is *corev1.Pod) bool {
	return workload.IsReadyOrTerminating(was) != workload.IsReadyOrTerminating(is) || was.Status.Phase != is.Status.Phase || podHealthChanged(was, is)
}

// PodHealthChanged accepts events of pods if a pod is created or deleted, or if its labels or the problem
// that keeps it from running have changed.
func PodHealthChanged() predicate.Predicate { return filterUpdates(podHealthChanged) }

// podHealthChanged ignores states that are normal for a while, such as a container that starts. Passes look
// at these pods again after a delay.
func podHealthChanged(was, is *corev1.Pod) bool {
	trouble := func(p *corev1.Pod) string {
		problem, _ := workload.UnreadyReasons([]*corev1.Pod{p}, "", time.Time{})
		return problem.Message
	}
	health := func(p *corev1.Pod) planner.PodHealth { return workload.ObserveHealth([]*corev1.Pod{p}, time.Time{}) }
	return trouble(was) != trouble(is) || health(was) != health(is) ||
		(was.DeletionTimestamp == nil) != (is.DeletionTimestamp == nil) || !maps.Equal(was.Labels, is.Labels)
}

// ScaleTargetChanged accepts events of autoscalers if one is created or deleted, or scales another target.
func ScaleTargetChanged() predicate.Predicate {
	return filterUpdates(func(was, is *autoscalingv2.HorizontalPodAutoscaler) bool {
		return was.Spec.ScaleTargetRef.Name != is.Spec.ScaleTargetRef.Name
	})
}

// OnlyDeletions accepts only deletions.
func OnlyDeletions() predicate.Predicate {
	never := predicate.NewPredicateFuncs(func(client.Object) bool { return false })
	return predicate.Funcs{CreateFunc: never.Create, UpdateFunc: never.Update, GenericFunc: never.Generic}
}

// BatchTargetChanged accepts updates of BatchReleases that change the target of the workload.
func BatchTargetChanged() predicate.Predicate {
	return filterUpdates(func(was, is *v1beta1.BatchRelease) bool {
		return !equality.Semantic.DeepEqual(was.Status.Drive, is.Status.Drive) ||
			was.Spec.ReleasePlan.StableRevision != is.Spec.ReleasePlan.StableRevision
	})
}

// RolloutPhaseChanged accepts updates of Rollouts that change the phase.
func RolloutPhaseChanged() predicate.Predicate {
	return filterUpdates(func(was, is *v1beta1.Rollout) bool { return was.Status.Phase != is.Status.Phase })
}
