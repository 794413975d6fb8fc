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

// arrangeByOrdinal puts the pods of a StatefulSet in their order. Nothing is kept of those that are
// missing: who writes a StatefulSet may have it ask for two billion.
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

// ordinalOf is the number at the end of the name of a pod; -1 if there is none.
func ordinalOf(p *corev1.Pod) int {
	n, err := strconv.Atoi(p.Name[strings.LastIndex(p.Name, "-")+1:])
	if err != nil {
		return -1
	}
	return n
}

func revisionLabelOf(p *corev1.Pod) string { return p.Labels[appsv1.ControllerRevisionHashLabelKey] }

// countBehind counts superseded pods below the first of the update revision, which the
// native controller replaces last.
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

// partitionKeeping is the partition with which the native controller leaves that many pods
// of the update revision: those of the lowest ordinals.
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

// partitionReleasing is the partition with which as many pods run the update revision as the
// share says. Those below it that run it already count: on the way back in batches, which
// the lowest ordinals have never left, and where the size has grown. Where there are as
// many without one above it, or too many, nothing more is let through, however the pods
// move.
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
		// One that runs it above the partition, or right below it, is none of those to come.
		if from > 0 && place >= from-1 {
			from--
		}
	}
	if from == v.size {
		return frozen
	}
	return from
}

// stuckPods are pods that are to be replaced and are not ready, or are not ready and of
// a version that was superseded. The native controller waits for such a pod to get
// ready before it replaces it, or makes another, which may be never. Below the
// partition it makes the one that its status names, so that none is deleted there while
// that is not the stable one.
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

// isStuck reports whether a pod is not ready, and that nobody is about to replace it.
func isStuck(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && !isReady(p) && !isUpdatingInPlace(p)
}
