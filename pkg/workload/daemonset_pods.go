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

// arrangeByNode sets the size to the number of nodes that should have a pod. If the status counts
// fewer nodes than have a pod, the status is outdated, and the number of nodes with pods is used.
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

// mayRestoreType reports whether the owner's strategy would replace no pod that must stay. After an
// abort every pod runs the live template.
func (v view) mayRestoreType(how planner.RestoreWorkload) bool {
	if how.KeepPaused {
		return v.isStable()
	}
	underway := v.update != v.stable && slices.ContainsFunc(v.pods, func(p *corev1.Pod) bool { return isActive(p) && v.podRevision(p) != v.update })
	return how.Wait || !underway
}

// podsToReplace returns the pods to delete now, so that as many pods as the target says get the live
// template. The number of unready pods never exceeds the owner's limit: further pods are deleted
// when the new ones are ready. Deleting an unready pod does not count against the limit. While the
// status is outdated, the number of nodes that wait for a replacement is unknown, so no pod is
// deleted.
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

// mayDelete reports whether the native controller has observed the workload, and will create pods of
// the revision that the target needs.
func mayDelete(v view, to planner.Target) bool {
	return v.isObserved() && v.live != "" && (!to.Abort || v.live == v.stable)
}

// countComing counts the nodes that have a pod of the live template, or have none and will get one.
// A node that is lost gets no new pod while the old pod is still there.
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

// countServing counts the ready pods. If minReadySeconds is set, only the native controller knows
// how many pods are available.
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

// compareDeletion orders pods for deletion: unready pods first, then pods of a superseded release,
// then pods with a lower deletion cost, then younger pods.
func (v view) compareDeletion(a, b *corev1.Pod) int {
	return cmp.Or(
		cmp.Compare(deletionRank(a), deletionRank(b)),
		cmp.Compare(supersededRank(v, b), supersededRank(v, a)),
		cmp.Compare(deletionCost(a), deletionCost(b)),
		b.CreationTimestamp.Compare(a.CreationTimestamp.Time),
		cmp.Compare(a.Name, b.Name),
	)
}

// deletionRank puts pods on a lost node last: such a pod would stay in deletion as long as its node
// is lost.
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

// isUnreachable reports whether a pod is not ready although its kubelet last reported ready
// containers. The kubelet does not respond then.
func isUnreachable(p *corev1.Pod) bool {
	ready, containers := condition(p, corev1.PodReady), condition(p, corev1.ContainersReady)
	return ready != nil && ready.Status != corev1.ConditionTrue && containers != nil && containers.Status == corev1.ConditionTrue
}
