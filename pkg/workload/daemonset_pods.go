// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/weir-rollouts/weir/pkg/planner"
)

// arrangeByNode has the size be the number of nodes that are to have a pod. A status that counts
// fewer than have one is not believed.
func arrangeByNode(v *view, pods []*corev1.Pod) {
	var n int32
	nodes := map[string]bool{}
	for _, p := range pods {
		if isActive(p) && (p.Spec.NodeName == "" || !nodes[p.Spec.NodeName]) {
			nodes[p.Spec.NodeName] = true
			n++
		}
	}
	v.pods, v.size, v.isStatusBehind = pods, max(v.total, n), v.total < n
	v.total = v.size
}

// mayRestoreType reports whether the owner's strategy releases nothing that is to stay. After
// an abort every pod runs the live template.
func (v view) mayRestoreType(how planner.RestoreWorkload) bool {
	if how.KeepPaused {
		return v.isStable()
	}
	underway := v.update != v.stable && slices.ContainsFunc(v.pods, func(p *corev1.Pod) bool { return isActive(p) && v.podRevision(p) != v.update })
	return how.Wait || !underway
}

// podsToReplace are the pods to be deleted now, so that as many as is told get the live
// template. Never are more pods not ready than the owner allows to be missing; the
// next ones are due when those that came are ready. One that is not ready costs
// nothing. While the status is not believed, nobody knows on how many nodes a pod is still
// to come for one that was deleted, and none is due.
func podsToReplace(v view, to planner.Target) []*corev1.Pod {
	if v.isStatusBehind || !mayDelete(v, to) {
		return nil
	}
	share := to.Limit(v.size)
	if to.Abort {
		share = v.size - share
	}
	outdated := v.outdated()
	slices.SortFunc(outdated, v.compareDeletion)
	need, may := share-countComing(v), v.maxUnavailable-max(v.size-countServing(v), 0)
	var due []*corev1.Pod
	for _, p := range outdated {
		switch {
		case int32(len(due)) >= need: //nolint:gosec // of the number of nodes
			return due
		case !isReady(p):
			due = append(due, p)
		case may > 0:
			may--
			due = append(due, p)
		}
	}
	return due
}

// mayDelete reports whether the native controller has seen the workload, and pods that come
// are of the revision that is told.
func mayDelete(v view, to planner.Target) bool {
	return v.isObserved() && v.live != "" && (!to.Abort || v.live == v.stable)
}

// countComing is how many nodes have a pod of the live template, or none and will get
// one. Where the node of the old pod is lost nothing comes.
func countComing(v view) int32 {
	var live, others, stuck int32
	for _, p := range v.pods {
		switch {
		case isActive(p) && v.podRevision(p) == v.live:
			live++
		case isActive(p):
			others++
		case isUnreachable(p):
			stuck++
		}
	}
	return live + max(v.size-live-others-stuck, 0)
}

// countServing is how many pods serve. For how long they have is known to the native
// controller.
func countServing(v view) int32 {
	var n int32
	for _, p := range v.pods {
		if isReady(p) {
			n++
		}
	}
	if d := v.obj.(*appsv1.DaemonSet); d.Spec.MinReadySeconds > 0 {
		n = min(n, d.Status.NumberAvailable)
	}
	return n
}

// compareDeletion says which pod goes first: one that is not ready, then one of a release
// that was superseded, then the one that its user, or else its age, makes cheaper.
func (v view) compareDeletion(a, b *corev1.Pod) int {
	return cmp.Or(
		cmp.Compare(deletionRank(a), deletionRank(b)),
		cmp.Compare(supersededRank(v, b), supersededRank(v, a)),
		cmp.Compare(deletionCost(a), deletionCost(b)),
		b.CreationTimestamp.Compare(a.CreationTimestamp.Time),
		cmp.Compare(a.Name, b.Name),
	)
}

// deletionRank has those last that would only be on their way out for as long as their
// node is lost.
func deletionRank(p *corev1.Pod) int {
	switch {
	case isReady(p):
		return 1
	case isUnreachable(p):
		return 2
	default:
		return 0
	}
}

func supersededRank(v view, p *corev1.Pod) int {
	if v.podRevision(p) != v.stable {
		return 1
	}
	return 0
}

func deletionCost(p *corev1.Pod) int {
	n, err := strconv.Atoi(p.Annotations[corev1.PodDeletionCost])
	if err != nil {
		return 0
	}
	return n
}

// isUnreachable reports whether a pod was declared not ready though its containers are, as far
// as its kubelet has said: that does not answer.
func isUnreachable(p *corev1.Pod) bool {
	ready, containers := condition(p, corev1.PodReady), condition(p, corev1.ContainersReady)
	return ready != nil && ready.Status != corev1.ConditionTrue && containers != nil && containers.Status == corev1.ConditionTrue
}
