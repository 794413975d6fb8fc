// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/weir-rollouts/weir/pkg/planner"
)

// arrangeByOrdinal sorts the pods of a StatefulSet by place. It stores nothing for missing pods,
// because a StatefulSet may ask for two billion.
func arrangeByOrdinal(v *view, pods []*corev1.Pod) {
	place, at := orderedSetOf(v.obj).placeOf(), map[int]*corev1.Pod{}
	for _, p := range pods {
		switch i := place(ordinalOf(p)); {
		case i >= 0 && i < int(v.size):
			at[i] = p
		case i >= 0 && isActive(p):
			v.hasSurplusPods = true
		}
	}
	for _, i := range slices.Sorted(maps.Keys(at)) {
		v.places, v.pods = append(v.places, int32(i)), append(v.pods, at[i]) //nolint:gosec // below the size
	}
}

// ordinalOf returns the number at the end of the name of a pod; -1 if there is none.
func ordinalOf(p *corev1.Pod) int {
	n, err := strconv.Atoi(p.Name[strings.LastIndex(p.Name, "-")+1:])
	if err != nil {
		return -1
	}
	return n
}

func revisionLabelOf(p *corev1.Pod) string { return p.Labels[appsv1.ControllerRevisionHashLabelKey] }

// countBehind counts superseded pods below the first pod of the update revision. The native
// controller replaces these pods last.
func (v view) countBehind() int32 {
	var n int32
	for _, p := range v.pods {
		switch {
		case !v.ordered || !isActive(p) || v.podRevision(p) == v.stable:
		case v.podRevision(p) == v.update:
			return n
		default:
			n++
		}
	}
	return 0
}

// partitionKeeping returns the partition with which the native controller keeps n pods of the update
// revision, those with the lowest ordinals.
func partitionKeeping(v view, n int32) int32 {
	if n == 0 {
		return 0
	}
	for i, p := range v.pods {
		if v.podRevision(p) == v.update {
			return v.places[i] + min(n, math.MaxInt32-v.places[i])
		}
	}
	return 0
}

// partitionReleasing returns the partition with which share pods run the update revision. Pods below
// the partition may run it already: after an abort in batches, or after the size has grown. They
// count. If enough pods, or too many, run the update revision, the partition allows no further
// replacement.
func partitionReleasing(v view, share int32) int32 {
	more := share
	var running []int32
	for i, p := range v.pods {
		if v.podRevision(p) == v.update {
			running = append(running, v.places[i])
			more--
		}
	}
	if more < 0 {
		return frozen
	}
	from := max(v.size-more, 0)
	for _, place := range slices.Backward(running) {
		// A pod that runs the revision above the partition, or right below it, needs no replacement.
		if from > 0 && place >= from-1 {
			from--
		}
	}
	if from == v.size {
		return frozen
	}
	return from
}

// stuckPods returns unready pods that are to be replaced, or that run a superseded version. The
// native controller waits until such a pod is ready before it replaces it or creates another, which
// may never happen. Below the partition it recreates a pod from the revision that its status names
// as current. So pods there are deleted only if this revision is the stable one.
func stuckPods(v view, _ planner.Target) []*corev1.Pod {
	if !v.isObserved() || v.live == "" {
		return nil
	}
	var stuck []*corev1.Pod
	for i, p := range v.pods {
		if !isStuck(p) || v.podRevision(p) == v.live {
			continue
		}
		if v.places[i] >= v.partition || v.podRevision(p) != v.stable && v.currentRevision == v.stable {
			stuck = append(stuck, p)
		}
	}
	return stuck
}

// isStuck reports whether a pod is not ready, and nobody is about to replace it.
func isStuck(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && !isReady(p) && !isUpdatingInPlace(p)
}
