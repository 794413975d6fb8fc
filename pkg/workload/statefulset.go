// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"math"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

var statefulSetKind = appsv1.SchemeGroupVersion.WithKind("StatefulSet")

// statefulSet releases a StatefulSet by its partition: the native controller replaces only pods
// whose ordinal is not below the partition, the highest first.
var statefulSet = partitioned{&partitionKind{
	kind:            statefulSetKind.Kind,
	subjectOf:       func(o object.Object) subject { return nativeStatefulSet{nativeOf(o)} },
	revisionName:    (*appsv1.ControllerRevision).GetName,
	podRevision:     revisionLabelOf,
	arrangePods:     arrangeByOrdinal,
	unsupported:     onDeleteUnsupported,
	selectDeletions: stuckPods,
	ordered:         true,
}}

// statefulSetLike releases a StatefulSet of another API group, if it has the same fields as the
// native one.
var statefulSetLike = func() partitioned {
	kind := *statefulSet.partitionKind
	kind.subjectOf = func(o object.Object) subject {
		return likeStatefulSet{nativeStatefulSet{nativeOf(o)}, o.(*StatefulSetLike)}
	}
	kind.revisionInStatus, kind.missingField = true, missingStatefulSetField
	return partitioned{&kind}
}()

// frozen is the partition that allows no replacement. OpenKruise writes the same value.
const frozen int32 = math.MaxInt16

// missingStatefulSetField returns a field that a release needs and the object lacks. The controller
// may not have written the status of a new object yet.
func missingStatefulSetField(v view) string {
	field := ""
	switch {
	case len(v.template.Spec.Containers) == 0:
		field = "pods in spec.template"
	case v.observedGeneration == 0:
		field = "status.observedGeneration"
	case v.updateRevision == "":
		field = "status.updateRevision"
	case v.history[v.currentRevision] == nil:
		field = "ControllerRevision of the name in status.currentRevision"
	default:
		return ""
	}
	return "no " + field + "; Weir can release this kind only if it has this, as a StatefulSet of apps/v1 does"
}

// orderedSet is the subject of a kind whose pods have ordinals. Every kind with
// partitionKind.ordered needs one: declare that its subject is an orderedSet, so that a
// missing method fails the build.
type orderedSet interface {
	object.Object
	subject
	// updateType points to spec.updateStrategy.type.
	updateType() *appsv1.StatefulSetUpdateStrategyType
	// copyStrategyFrom copies the update strategy of another object of the same kind.
	copyStrategyFrom(other orderedSet)
	// placeOf returns a function from an ordinal to the place of the pod: 0 is the first pod. The
	// place is negative if the set has no pod with this ordinal.
	placeOf() func(number int) int
}

var _ orderedSet = nativeStatefulSet{}

// onDeleteUnsupported refuses update strategies other than RollingUpdate, with which the controller
// replaces no pods.
func onDeleteUnsupported(obj object.Object) string {
	t := *orderedSetOf(obj).updateType()
	if isRollingUpdate(t) {
		return ""
	}
	return "spec.updateStrategy.type " + string(t) +
		", which replaces a pod only after a user deletes it; set RollingUpdate to release in steps"
}

// orderedSetOf returns the subject of an object whose pods have ordinals. A native StatefulSet is
// wrapped, because its type has none of the methods.
func orderedSetOf(obj object.Object) orderedSet {
	if s, ok := obj.(orderedSet); ok {
		return s
	}
	return nativeStatefulSet{nativeOf(obj)}
}

// isRollingUpdate reports whether the controller replaces pods with an update strategy of the type.
func isRollingUpdate(t appsv1.StatefulSetUpdateStrategyType) bool {
	return t == "" || t == appsv1.RollingUpdateStatefulSetStrategyType
}

// stopOrderedController saves the owner's partition, and freezes the set.
func stopOrderedController(s orderedSet, isHeld bool) {
	own := originalStrategy{Partition: s.fields().partition}
	switch {
	case isHeld:
		own = readOriginalStrategy(s)
	case own.Partition >= frozen:
		own.Partition = 0
	}
	saveOriginalStrategy(s, own)
	s.setPartition(frozen)
}

// preserveOrderedStrategy restores the strategy that was has, and saves what the owner wrote. It
// freezes the set if the template changes, until a step sets the next partition.
func preserveOrderedStrategy(was, s orderedSet, isAnother bool) {
	before, wrote := was.fields().partition, s.fields().partition
	switch t := *s.updateType(); {
	case !isRollingUpdate(t):
		saveOriginalStrategy(s, originalStrategy{Type: string(t)})
		s.copyStrategyFrom(was)
	case wrote != before:
		saveOriginalStrategy(s, originalStrategy{Partition: wrote})
		s.setPartition(before)
	}
	if isAnother {
		s.setPartition(frozen)
	}
}

// StatefulSetLike is a custom resource of kind StatefulSet in another API group that has the
// fields of apps/v1.
type StatefulSetLike struct {
	appsv1.StatefulSet `json:",inline"`

	Unknown UnknownFields `json:"-"`
}

// DeepCopyObject implements runtime.Object.
func (s *StatefulSetLike) DeepCopyObject() runtime.Object {
	return &StatefulSetLike{StatefulSet: *s.StatefulSet.DeepCopy(), Unknown: s.Unknown}
}

func (s *StatefulSetLike) unknownFields() *UnknownFields { return &s.Unknown }

// nativeOf returns the apps/v1 fields of a native StatefulSet or a StatefulSetLike. Kruise's
// StatefulSet has its own type.
func nativeOf(obj object.Object) *appsv1.StatefulSet {
	if s, ok := obj.(*StatefulSetLike); ok {
		return &s.StatefulSet
	}
	return obj.(*appsv1.StatefulSet)
}

// likeStatefulSet implements subject for a StatefulSetLike: as for a native StatefulSet, with
// unknown fields.
type likeStatefulSet struct {
	nativeStatefulSet
	like *StatefulSetLike
}

func (s likeStatefulSet) fields() fields {
	f := s.nativeStatefulSet.fields()
	f.unknown = &s.like.Unknown
	return f
}

// nativeStatefulSet is the subject of a StatefulSet of apps/v1.
type nativeStatefulSet struct{ *appsv1.StatefulSet }

func (s nativeStatefulSet) fields() fields {
	f := fields{template: &s.Spec.Template, historyLimit: &s.Spec.RevisionHistoryLimit, replicas: s.Spec.Replicas, maxUnavailable: 1}
	if u := s.Spec.UpdateStrategy.RollingUpdate; u != nil {
		f.partition, f.maxUnavailable = orZero(u.Partition), resolveUnavailable(u.MaxUnavailable, orElse(f.replicas, 1), false)
	}
	f.countOrdered(&s.Status)
	return f
}

func (f *fields) countOrdered(st *appsv1.StatefulSetStatus) {
	f.observedGeneration, f.currentRevision, f.updateRevision = st.ObservedGeneration, st.CurrentRevision, st.UpdateRevision
	f.total, f.updated = st.Replicas, st.UpdatedReplicas
}

func (s nativeStatefulSet) stopController(isHeld bool) { stopOrderedController(s, isHeld) }

// preserveStrategy implements subject. It also keeps the ordinals: others would delete pods below
// the partition, and create new ones above it. It keeps minReadySeconds, because an abort waits for
// available pods, so the definition of available must not change.
func (s nativeStatefulSet) preserveStrategy(old object.Object, isAnother bool) {
	was := nativeStatefulSet{nativeOf(old)}
	s.Spec.Ordinals, s.Spec.MinReadySeconds = copyPointer(was.Spec.Ordinals), was.Spec.MinReadySeconds
	preserveOrderedStrategy(was, s, isAnother)
}

func (s nativeStatefulSet) setPartition(n int32) {
	u := &s.Spec.UpdateStrategy
	if u.Type != "" { // a kind of another group may lack the type
		u.Type = appsv1.RollingUpdateStatefulSetStrategyType
	}
	if u.RollingUpdate == nil {
		u.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{}
	}
	u.RollingUpdate.Partition = &n
}

// restore implements subject. A workload that stays paused keeps a partition that allows no
// replacement.
func (s nativeStatefulSet) restore(_ view, how planner.RestoreWorkload, isOurs bool) {
	switch own := readOriginalStrategy(s); {
	case how.KeepPaused:
		s.setPartition(frozen)
	case own.Type != "":
		s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.StatefulSetUpdateStrategyType(own.Type)}
	case isOurs:
		s.setPartition(own.Partition)
	}
}

func (s nativeStatefulSet) updateType() *appsv1.StatefulSetUpdateStrategyType {
	return &s.Spec.UpdateStrategy.Type
}

func (s nativeStatefulSet) copyStrategyFrom(other orderedSet) {
	s.Spec.UpdateStrategy = *other.(nativeStatefulSet).Spec.UpdateStrategy.DeepCopy()
}

func (s nativeStatefulSet) placeOf() func(number int) int {
	first := int(orZero(s.Spec.Ordinals).Start)
	return func(number int) int { return number - first }
}
