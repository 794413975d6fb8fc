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

// partitioned releases a workload whose native controller replaces pods up to a limit in the update
// strategy. Each such kind is one partitionKind.
type partitioned struct{ *partitionKind }

var _ Adapter = partitioned{}

// partitionKind has what distinguishes one kind from the others.
type partitionKind struct {
	// kind is the kind in the API, such as StatefulSet. Messages name it.
	kind string
	// subjectOf returns the subject of an object, which must have the kind's Go type.
	subjectOf func(object.Object) subject
	// revisionName returns the name of a revision. podRevision returns the name of the revision that
	// a pod runs, in the same form.
	revisionName func(*appsv1.ControllerRevision) string
	podRevision  func(*corev1.Pod) string
	// arrangePods sets the pods of a view. It also sets the size if the status determines the size.
	arrangePods func(*view, []*corev1.Pod)
	// unsupported returns a feature of an object that rules out a release in steps, as the end of a
	// message that begins "the StatefulSet has". It is nil if nothing does.
	unsupported func(object.Object) string
	// missingField ends the same message for a field that the release needs and the object lacks. It
	// is nil if every object has all fields.
	missingField func(view) string
	// selectDeletions returns the pods that Weir deletes for a target; nil if Weir deletes none.
	selectDeletions func(view, planner.Target) []*corev1.Pod
	// revisionInStatus is set if the controller may store a changed form of a template in its
	// ControllerRevision, so that no stored template equals the live one. Then the newest revision is
	// the live one if status.updateRevision names it.
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

// subject reads and changes one object of a kind in place.
type subject interface {
	fields() fields
	// stopController saves the owner's strategy, and stops the controller. isHeld reports whether
	// the object is held already, so that the strategy is saved.
	stopController(isHeld bool)
	// preserveStrategy restores the strategy that was has, and saves the strategy that the owner
	// wrote. isAnother reports whether the template changes as well; then it stops the controller.
	preserveStrategy(was object.Object, isAnother bool)
	// setPartition makes the controller keep n pods at the earlier revision.
	setPartition(n int32)
	// restore writes the owner's strategy back. isOurs reports whether the current strategy is
	// Weir's.
	restore(v view, how planner.RestoreWorkload, isOurs bool)
}

// pausable is implemented by a subject whose owner can pause it independently of the partition.
type pausable interface{ resume() }

// fields are the fields that the kinds have in common. Pointers lead into the object.
type fields struct {
	template *corev1.PodTemplateSpec
	// unknown points to the unknown fields of the template; nil for built-in kinds, for which
	// kube-apiserver stores no unknown fields.
	unknown      *UnknownFields
	historyLimit **int32
	// replicas is the size that the owner asks for. It is nil for the default, and if the number of
	// nodes is the size.
	replicas *int32
	// partition is how many pods stay at the earlier revision. stopped reports whether another field
	// of the strategy stops the controller.
	partition int32
	stopped   bool
	// maxUnavailable is how many pods the controller replaces at once.
	maxUnavailable int32
	// The following fields are from the status: the observed generation, the revision that serves,
	// the revision of the live template, and the numbers of pods.
	observedGeneration              int64
	currentRevision, updateRevision string
	total, updated, updatedReady    int32
}

// Observe implements Adapter.
func (a partitioned) Observe(obj object.Object, owned []object.Object, hold Hold) planner.Workload {
	v := a.view(obj, owned, hold)
	w := planner.Workload{
		Generation: obj.GetGeneration(), Settled: v.isObserved(), Replicas: v.size, RolloutID: rolloutID(obj),
		Labelled: obj.GetLabels()[rollouts.LabelWorkloadType] == typeLabel(a.kind),
		Paused:   v.stopped || v.partition >= max(v.size, 1), NativeUpdateRunning: !hold.Held && v.isRolling(),
		MaxUnavailable: v.maxUnavailable, UnsupportedReason: v.unsupportedReason(),
		KindTraits: planner.KindTraits{
			KeepsLastStablePod: v.keepsLastStablePod(), NewPodsUseTemplate: a.newPodsUseTemplate,
			AbortSetsTemplate: true, RevisionKind: controllerRevision,
		},
		HoldFacts: planner.HoldFacts{
			Held: hold.Held, HasManagedFields: hasOurKeys(obj), PendingEdit: hold.Active() && hasPendingEdit(obj), Target: hold.Target(),
		},
		RevisionFacts: planner.RevisionFacts{
			StableRevision: v.stable, StableTemplate: v.history.digest(v.stable),
			StableRevisionGone: v.stable != "" && v.history[v.stable] == nil,
			HasStableTemplate:  v.live != "" && v.update == v.stable,
			UpdateRevision:     v.update, PodTemplateHash: v.update, LiveRevision: v.live, Revisions: v.history.names(),
		},
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

// strategyFirst is the advice about an update strategy with which Weir cannot hold a new template.
const strategyFirst = ". Send two updates: first spec.updateStrategy, then spec.template"

// UnholdableReason implements Adapter.
func (a partitioned) UnholdableReason(old, update object.Object, isHeld bool) string {
	if why := a.unsupportedReason(update); why != "" && !isHeld {
		return why + strategyFirst
	}
	was := a.subjectOf(old).fields()
	return scaledToZeroReason(was.replicas, a.subjectOf(update).fields().replicas, was.total, isHeld)
}

// unsupportedReason returns why an object cannot be released; empty if it can. Call it only for
// objects that are not held: the strategy in a held object is Weir's, not the owner's.
func (a partitioned) unsupportedReason(obj object.Object) string {
	if a.unsupported == nil {
		return ""
	}
	return a.explainHas(a.unsupported(obj))
}

// explainHas returns the message about a feature of an object; empty for an empty feature.
func (k *partitionKind) explainHas(what string) string {
	if what == "" {
		return ""
	}
	return "the " + k.kind + " has " + what
}

// canHold reports whether there is something to hold. Without pods the controller takes the newest
// template for the stable one at once. A DaemonSet without nodes is held until the controller has
// observed the template, because only its status shows that there are no nodes.
func (a partitioned) canHold(obj object.Object) bool {
	return (a.unsupported == nil || a.unsupported(obj) == "") && !isZero(a.subjectOf(obj).fields().replicas)
}

// isZero reports whether the size is 0. The default is 1.
func isZero(replicas *int32) bool { return replicas != nil && *replicas == 0 }

// Hold implements Adapter. Scenario: an admission policy or another webhook has held the object a
// moment ago. Then the saved strategy of the owner stays.
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

// RestoreStrategy implements Adapter. It sets the owner's template again, held, as soon as the
// controller takes the stable revision for the current one.
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

// restoredObject returns the object with the owner's settings. A kind that creates new pods from the
// live template keeps the stable template if the workload stays paused.
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

// copyOf returns a deep copy.
func copyOf(obj object.Object) object.Object { return obj.DeepCopyObject().(object.Object) }
