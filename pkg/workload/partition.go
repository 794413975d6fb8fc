// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// partitioned releases a workload whose own controller replaces the pods, as many as
// its update strategy allows. A kind of such workloads is one partitionKind.
type partitioned struct{ *partitionKind }

var _ Adapter = partitioned{}

// partitionKind is what distinguishes one kind from the others.
type partitionKind struct {
	// kind is the kind in the API, such as StatefulSet. Messages name it.
	kind string
	// subjectOf returns the subject of an object, which is of the kind's Go type.
	subjectOf func(object.Object) subject
	// revisionName returns the name of a revision. revision returns the name of the revision that a
	// pod runs, in the same form.
	revisionName func(*appsv1.ControllerRevision) string
	podRevision  func(*corev1.Pod) string
	// arrangePods sets the pods of a view, and its size where the status has that.
	arrangePods func(*view, []*corev1.Pod)
	// unsupported returns what an object has that rules out a release in steps, as the end
	// of a message that begins "the StatefulSet has". It is nil if nothing does.
	unsupported func(object.Object) string
	// missingField ends the same message for a field that the release needs and the object does
	// not have. It is nil if every object has all fields.
	missingField func(view) string
	// selectDeletions returns the pods that Weir deletes for a target; nil if it deletes none.
	selectDeletions func(view, planner.Target) []*corev1.Pod
	// revisionInStatus reports whether status.updateRevision, or the like, is to be used
	// where no ControllerRevision has the live template: the controller may store a
	// template in another form than the object has.
	revisionInStatus bool
	// ordered reports whether pods have ordinals. The subject is an orderedSet then.
	ordered bool
	// newPodsUseTemplate reports whether the controller creates every new pod from the live
	// template, as a DaemonSet does on a new node. After an abort the stable template stays
	// the live one.
	newPodsUseTemplate bool
	// inPlace reports whether the controller also updates pods in place. Such a pod is
	// ready only once the status counts it as ready.
	inPlace bool
}

// subject gives access to one object of a kind. Its methods change the object.
type subject interface {
	fields() fields
	// stopController saves what the owner wrote of the strategy, and stops the controller. isHeld reports
	// whether the object is held already, so that the strategy is on record.
	stopController(isHeld bool)
	// preserveStrategy puts the strategy back as the API object was has it, and saves what the owner
	// wrote of it.
	// Another template stops the controller.
	preserveStrategy(was object.Object, isAnother bool)
	// setPartition has the controller keep n pods at the earlier revision.
	setPartition(n int32)
	// restore puts the owner's strategy back. isOurs reports whether the strategy that
	// is there is that of a release.
	restore(v view, how planner.RestoreWorkload, isOurs bool)
}

// pausable is a subject that its owner can pause apart from the partition.
type pausable interface{ resume() }

// fields are what the kinds have in common. Pointers lead into the object.
type fields struct {
	template *corev1.PodTemplateSpec
	// unknown points to the unknown fields of the template; nil for built-in kinds, for which
	// kube-apiserver stores no unknown fields.
	unknown      *UnknownFields
	historyLimit **int32
	// replicas is the size that the owner asks for; nil for the default, and where the
	// number of nodes is the size.
	replicas *int32
	// partition is how many pods stay at the earlier revision, and stopped reports
	// whether the strategy stops the controller apart from that.
	partition int32
	stopped   bool
	// maxUnavailable is how many pods the controller replaces at once.
	maxUnavailable int32
	// What follows is the status: the generation, the revision that serves, that of the
	// live template, and the numbers of pods.
	observedGeneration              int64
	currentRevision, updateRevision string
	total, updated, updatedReady    int32
}

// Observe implements Adapter.
func (a partitioned) Observe(obj object.Object, owned []object.Object, hold Hold) planner.Workload {
	v := a.view(obj, owned, hold)
	w := planner.Workload{
		Generation: obj.GetGeneration(), Settled: v.isObserved(), Replicas: v.size,
		Labelled: obj.GetLabels()[rollouts.LabelWorkloadType] == typeLabel(a.kind), Held: hold.Held,
		PendingEdit: hold.Active() && hasPendingEdit(obj), HasManagedFields: hasOurKeys(obj),
		Paused:             v.stopped || v.partition >= max(v.size, 1),
		KeepsLastStablePod: v.keepsLastStablePod(), NewPodsUseTemplate: a.newPodsUseTemplate,
		StableRevision: v.stable,
		UpdateRevision: v.update, PodTemplateHash: v.update, LiveRevision: v.live,
		HasStableTemplate: v.live != "" && v.update == v.stable, RolloutID: rolloutID(obj), Target: hold.Target(),
		Revisions: v.history.names(), MaxUnavailable: v.maxUnavailable, UnsupportedReason: v.unsupportedReason(),
		NativeUpdateRunning: !hold.Held && v.isRolling(), RevisionKind: controllerRevision,
		StableRevisionGone: v.stable != "" && v.history[v.stable] == nil,
		StableTemplate:     v.history.digest(v.stable), AbortSetsTemplate: true,
	}
	if v.aside == "" {
		w.UpdateTemplate = withUnknown(digestWithLabels(v.template), unknownIn(obj))
	}
	v.countPods(&w)
	if to := w.Target; to != nil {
		want, aside := v.forTarget(*to)
		w.TargetApplied = len(changesBetween(obj, want)) == 0 && aside == hold.strategy.aside() && len(v.podsToDelete(*to)) == 0
	}
	w.OwnerStrategyActive = w.Target == nil || v.isAbortComplete(*w.Target)
	return w
}

// UnholdableReason implements Adapter.
func (a partitioned) UnholdableReason(old, update object.Object, isHeld bool) string {
	if why := a.unsupportedReason(update); why != "" && !isHeld {
		return why
	}
	was := a.subjectOf(old).fields()
	return scaledToZeroReason(was.replicas, a.subjectOf(update).fields().replicas, was.total, isHeld)
}

// unsupportedReason returns why an object cannot be released; empty if it can. Of a held object
// only its owner's strategy would show that.
func (a partitioned) unsupportedReason(obj object.Object) string {
	if a.unsupported == nil {
		return ""
	}
	return a.explainHas(a.unsupported(obj))
}

// explainHas returns the message for what an object has; empty for nothing.
func (k *partitionKind) explainHas(what string) string {
	if what == "" {
		return ""
	}
	return "the " + k.kind + " has " + what
}

// canHold reports whether there is something to hold. Without pods the controller takes
// the newest template for the stable one at once. A DaemonSet without nodes is held all
// the same until the controller sees that: admission would know from a status only.
func (a partitioned) canHold(obj object.Object) bool {
	return (a.unsupported == nil || a.unsupported(obj) == "") && !isZero(a.subjectOf(obj).fields().replicas)
}

// isZero reports whether no pods are wanted; the default is 1.
func isZero(replicas *int32) bool { return replicas != nil && *replicas == 0 }

// Hold implements Adapter. Another door of admission may have held the object a moment
// ago: then what it saved of the owner's strategy stays.
func (a partitioned) Hold(obj object.Object, by string, isHeld bool) {
	a.subjectOf(obj).stopController(isHeld)
	writeHoldMark(obj, by)
}

// PreserveHold implements Adapter.
func (a partitioned) PreserveHold(old, update object.Object) {
	KeepRecords(old, update)
	was, is := a.subjectOf(old).fields(), a.subjectOf(update).fields()
	isAnother := !sameWholeTemplate(was.template, is.template) || !sameUnknown(old, update)
	a.subjectOf(update).preserveStrategy(old, isAnother)
	keepLimit(old, update, is.historyLimit, *was.historyLimit)
	if isAnother {
		clearAside(update)
	}
}

// SetTarget implements Adapter.
func (a partitioned) SetTarget(obj object.Object, owned []object.Object, hold Hold, to planner.SetTarget, owner metav1.OwnerReference) []object.Change {
	v := a.view(obj, owned, hold)
	want, aside := v.forTarget(to.Target)
	v.writeTarget(want, rollouts.StylePartition, to.Target, aside, owner)
	changes := changesBetween(obj, want)
	if len(changes) > 0 {
		return changes
	}
	for _, p := range v.podsToDelete(to.Target) {
		changes = append(changes, object.Change{Base: p})
	}
	return changes
}

// RestoreStrategy implements Adapter: the owner's template is back in its place, and held,
// once the controller takes the stable one for the current one.
func (a partitioned) RestoreStrategy(obj object.Object, owned []object.Object, hold Hold) []object.Change {
	v := a.view(obj, owned, hold)
	if a.newPodsUseTemplate || !v.isObserved() || v.size == 0 || v.currentRevision != v.stable {
		return nil
	}
	want := copyOf(obj)
	v.setUpdateTemplate(want)
	a.subjectOf(want).setPartition(frozen)
	hold.withAside(planner.Revision{}).writeRecords(want)
	return changesBetween(obj, want)
}

// SetStable implements Adapter.
func (a partitioned) SetStable(obj object.Object, owned []object.Object, hold Hold) []object.Change {
	v := a.view(obj, owned, hold)
	if v.history.template(v.stable) == nil {
		return nil
	}
	want := copyOf(obj)
	v.setTemplate(want, v.stable)
	hold.withAside(planner.Revision{}).writeRecords(want)
	setLabel(want, rollouts.LabelStableRevision, v.stable)
	return changesBetween(obj, want)
}

// Restore implements Adapter.
func (a partitioned) Restore(obj object.Object, owned []object.Object, hold Hold, how planner.RestoreWorkload) []object.Change {
	return changesBetween(obj, a.view(obj, owned, hold).restoredObject(how))
}

// restoredObject is the object as its owner wants it. A kind whose new pods have the live
// template keeps the stable one where the workload stays paused.
func (v view) restoredObject(how planner.RestoreWorkload) object.Object {
	want := v.hold.copyOf(v.obj)
	if !v.newPodsUseTemplate || !how.KeepPaused {
		v.setUpdateTemplate(want)
	}
	s := v.subjectOf(want)
	s.restore(v, how, v.hold.Active())
	restoreLimit(v.hold.strategy, s.fields().historyLimit)
	removeRecords(want)
	return want
}

// copyOf is a deep copy.
func copyOf(obj object.Object) object.Object { return obj.DeepCopyObject().(object.Object) }
