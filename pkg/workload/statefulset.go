// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

const statefulSetLabel = "statefulset"

var statefulSetKind = appsv1.SchemeGroupVersion.WithKind("StatefulSet")

// statefulSet releases a StatefulSet by its partition: its native controller
// replaces the pods of the highest ordinals, and goes no further than it is told.
type statefulSet struct{ baseAdapter }

var _ Adapter = statefulSet{}

// frozen is the partition that lets nothing be replaced, as other clients of the
// API write it.
const frozen int32 = math.MaxInt16

// Observe implements Adapter.
func (statefulSet) Observe(obj object.Object, owned []object.Object) planner.Workload {
	o := sortOut(obj.(*appsv1.StatefulSet), owned)
	s := o.set
	w := planner.Workload{
		Generation: s.Generation, Settled: o.settled(), Replicas: o.replicas(),
		Labelled: s.Labels[rollouts.LabelWorkloadType] == statefulSetLabel, Held: held(s), PendingEdit: hasPendingEdit(s), HasManagedFields: hasKeys(s),
		Paused:         partitionOf(s) >= max(o.replicas(), 1),
		LastStays:      o.lastStays(),
		StableRevision: o.stable,
		UpdateRevision: o.update, PodTemplateHash: o.update, LiveRevision: o.live,
		AtStable: o.live != "" && o.update == o.stable, RolloutID: rolloutID(s), Target: readTarget(s),
		Revisions: o.history.names(), Unavailable: o.unavailable(), UnsupportedReason: statefulSet{}.UnsupportedReason(s),
		Rolling: !held(s) && o.rolling(),
	}
	o.count(&w)
	w.Native = w.Target == nil || o.back(*w.Target)
	w.TargetApplied = w.Target != nil && len(change(s, o.aimed(*w.Target))) == 0 && len(o.stuck()) == 0
	w.RevisionKind = controllerRevision
	w.StableGone = o.stable != "" && o.history[o.stable] == nil
	w.StableTemplate, w.BackByTemplate = digest(o.history.template(o.stable)), true
	return w
}

// back reports whether nothing is left to do of an abort. Without pods the stable
// template has to stay.
func (o statefulSetView) back(to planner.Target) bool {
	return to.Abort && (!o.goesBack(to) || o.replicas() == 0 && o.live == o.stable)
}

// rolling reports whether pods of another template are still to be replaced.
func (o statefulSetView) rolling() bool {
	st := o.set.Status
	return !o.settled() || st.CurrentRevision != st.UpdateRevision || st.UpdatedReplicas < st.Replicas || o.outdated()
}

// outdated reports whether a pod of another template is there, whatever the status counts.
func (o statefulSetView) outdated() bool {
	return slices.ContainsFunc(o.pods, func(p *corev1.Pod) bool { return p != nil && counts(p) && revisionOf(p) != o.live })
}

// count is the facts about pods. What the native controller has not counted yet,
// others do not see either.
func (o statefulSetView) count(w *planner.Workload) {
	all, ready := census(o.pods)
	for revision, n := range all {
		if revision != o.update {
			w.StableReplicas += n
		}
		if revision != o.update && revision != o.stable {
			w.SupersededReplicas += n
		}
	}
	w.SupersededBehind, w.Lingers, w.Shrinks = o.behind(), keptPod(o.pods), o.beyond
	w.StableReadyReplicas, w.LiveReadyReplicas = ready[o.stable], ready[o.live]
	w.UpdatedReplicas, w.UpdatedReadyReplicas = all[o.update], ready[o.update]
	if o.settled() && o.live == o.update {
		w.UpdatedReplicas = min(w.UpdatedReplicas, o.set.Status.UpdatedReplicas)
		w.UpdatedReadyReplicas = min(w.UpdatedReadyReplicas, w.UpdatedReplicas)
	}
}

// behind counts superseded pods below the first of the update revision, which the
// native controller replaces last.
func (o statefulSetView) behind() int32 {
	var n int32
	for _, p := range o.pods {
		switch {
		case p == nil || !counts(p) || revisionOf(p) == o.stable:
		case revisionOf(p) == o.update:
			return n
		default:
			n++
		}
	}
	return 0
}

// census counts the pods of each revision, and those that are ready.
func census(pods []*corev1.Pod) (all, ready map[string]int32) {
	all, ready = map[string]int32{}, map[string]int32{}
	for _, p := range pods {
		if p == nil || !counts(p) {
			continue
		}
		all[revisionOf(p)]++
		if isReady(p) {
			ready[revisionOf(p)]++
		}
	}
	return all, ready
}

// UnsupportedReason implements Adapter.
func (statefulSet) UnsupportedReason(obj object.Object) string {
	s := obj.(*appsv1.StatefulSet)
	if held(s) || rollsByItself(s) {
		return ""
	}
	return "the StatefulSet has spec.updateStrategy.type " + string(s.Spec.UpdateStrategy.Type) +
		", with which a pod is replaced when somebody deletes it, and here none is deleted for that; set RollingUpdate to release in steps"
}

func rollsByItself(s *appsv1.StatefulSet) bool {
	t := s.Spec.UpdateStrategy.Type
	return t == "" || t == appsv1.RollingUpdateStatefulSetStrategyType
}

// Changed implements Adapter. Without pods there is nothing to hold, and the
// native controller takes the newest template for the stable one at once.
func (a statefulSet) Changed(oldObj, newObj object.Object) bool {
	s := newObj.(*appsv1.StatefulSet)
	return (a.Rolls(oldObj, s) || renamed(oldObj, s)) && rollsByItself(s) && !isZero(s.Spec.Replicas)
}

// Rolls implements Adapter.
func (statefulSet) Rolls(oldObj, newObj object.Object) bool {
	return !samePods(&oldObj.(*appsv1.StatefulSet).Spec.Template, &newObj.(*appsv1.StatefulSet).Spec.Template)
}

// Sized implements Adapter.
func (statefulSet) Sized(oldObj, newObj object.Object, isHeld bool) string {
	was := oldObj.(*appsv1.StatefulSet)
	return empties(was.Spec.Replicas, newObj.(*appsv1.StatefulSet).Spec.Replicas, was.Status.Replicas, isHeld)
}

// isZero reports whether no pods are wanted; the default is 1.
func isZero(replicas *int32) bool { return replicas != nil && *replicas == 0 }

// Hold implements Adapter. The owner's own partition is kept for the end. Of one that is
// held, as by another door of admission, all is kept already, and what stands there is ours.
func (statefulSet) Hold(obj object.Object, by string) {
	s := obj.(*appsv1.StatefulSet)
	own := ownersStrategy{Partition: partitionOf(s)}
	switch {
	case held(s):
		own = owners(s)
	case own.Partition >= frozen:
		own.Partition = 0
	}
	keepOwners(s, own)
	setPartition(&s.Spec, frozen)
	writeHeld(s, by)
}

// Keep implements Adapter. Another template goes nowhere until a step says how
// far. What the owner writes of the strategy is given back in the end. Other ordinals
// would take pods below the partition away, and make new ones above it. An abort waits
// for available pods, so that when they count as that is settled before.
func (statefulSet) Keep(oldObj, newObj object.Object) {
	was, s := oldObj.(*appsv1.StatefulSet), newObj.(*appsv1.StatefulSet)
	KeepRecords(was, s)
	s.Spec.Ordinals, s.Spec.MinReadySeconds = copied(was.Spec.Ordinals), was.Spec.MinReadySeconds
	switch {
	case !rollsByItself(s):
		keepOwners(s, ownersStrategy{Type: string(s.Spec.UpdateStrategy.Type)})
		s.Spec.UpdateStrategy = *was.Spec.UpdateStrategy.DeepCopy()
	case partitionOf(s) != partitionOf(was):
		keepOwners(s, ownersStrategy{Partition: partitionOf(s)})
		setPartition(&s.Spec, partitionOf(was))
	}
	keepLimit(was, s, &s.Spec.RevisionHistoryLimit, was.Spec.RevisionHistoryLimit)
	if !samePods(&was.Spec.Template, &s.Spec.Template) {
		setPartition(&s.Spec, frozen)
		setAside(s, "")
	}
}

func partitionOf(s *appsv1.StatefulSet) int32 {
	if u := s.Spec.UpdateStrategy.RollingUpdate; u != nil && u.Partition != nil {
		return *u.Partition
	}
	return 0
}

func setPartition(s *appsv1.StatefulSetSpec, partition int32) {
	u := &s.UpdateStrategy
	if u.Type != "" { // a kind of another group may have none
		u.Type = appsv1.RollingUpdateStatefulSetStrategyType
	}
	if u.RollingUpdate == nil {
		u.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{}
	}
	u.RollingUpdate.Partition = &partition
}

// unavailable is how many pods the native controller replaces at once.
func (o statefulSetView) unavailable() int32 {
	u := o.set.Spec.UpdateStrategy.RollingUpdate
	if u == nil || u.MaxUnavailable == nil {
		return 1
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(u.MaxUnavailable, int(o.replicas()), false)
	if err != nil {
		return 1
	}
	return max(int32(n), 1) //nolint:gosec // bounded by replicas
}

// stuck are pods that are to be replaced and are not ready, or are not ready and of
// a version that was superseded. The native controller waits for such a pod to get
// ready before it replaces it, or makes another, which may be never. Below the
// partition it makes the one that its status names, so that none is deleted there while
// that is not the stable one.
func (o statefulSetView) stuck() []*corev1.Pod {
	if !o.settled() || o.live == "" {
		return nil
	}
	var stuck []*corev1.Pod
	for i, p := range o.pods {
		if p == nil || !hangs(p) || revisionOf(p) == o.live {
			continue
		}
		if i >= int(partitionOf(o.set)) || revisionOf(p) != o.stable && o.set.Status.CurrentRevision == o.stable {
			stuck = append(stuck, p)
		}
	}
	return stuck
}

// hangs reports whether a pod is not ready, and that nobody is about to replace it.
func hangs(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && !isReady(p) && !updating(p)
}
