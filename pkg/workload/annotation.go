// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Annotations of the native controller on ReplicaSets.
const (
	annotationRevision = "deployment.kubernetes.io/revision"
	annotationDesired  = "deployment.kubernetes.io/desired-replicas"
	annotationMax      = "deployment.kubernetes.io/max-replicas"
)

var (
	// ourAnnotations are on a workload only while it is held or driven; words of a
	// refusal are never stored by Weir.
	ourAnnotations = []string{
		rollouts.AnnotationInProgress,
		rollouts.AnnotationControlInfo,
		rollouts.AnnotationDeploymentStrategy,
		rollouts.AnnotationDeploymentExtraStatus,
		rollouts.AnnotationOriginalStrategy,
		rollouts.AnnotationWantedSpec,
		rollouts.AnnotationRefused,
		rollouts.AnnotationAskedAgain,
	}
	// ourLabels likewise.
	ourLabels = []string{rollouts.LabelStableRevision, rollouts.LabelControlled}
)

// maxMark is more than the longest mark has: a name in JSON. The webhook configuration has the same
// number.
const maxMark = 512

// inProgress is the value of the annotation that marks a held workload.
type inProgress struct {
	RolloutName string `json:"rolloutName"`
}

// driving is the value of the deployment-strategy annotation. The members after
// Partition are Weir's own; other readers ignore them.
type driving struct {
	RollingStyle rollouts.Style `json:"rollingStyle,omitempty"`
	// RollingUpdate is the owner's; nil when the owner's strategy is Recreate.
	RollingUpdate *appsv1.RollingUpdateDeployment `json:"rollingUpdate,omitempty"`
	Paused        bool                            `json:"paused,omitempty"`
	Partition     intstr.IntOrString              `json:"partition"`
	KeepOne       bool                            `json:"keepOne,omitempty"`
	Least         int32                           `json:"least,omitempty"`
	Abort         bool                            `json:"abort,omitempty"`
	Revision      string                          `json:"revision,omitempty"`
	// UpdateTemplate is the digest of the template of Revision.
	UpdateTemplate string `json:"updateTemplate,omitempty"`
	// RevisionHistoryLimit is the owner's, when it had to be raised.
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
	// SetAsideRevision names the revision that the owner asks for, while the live template
	// is the stable one, since pods are to come back to it.
	SetAsideRevision string `json:"aside,omitempty"`
	// SetAsideTemplate is the SHA-256 digest of the template of SetAsideRevision.
	SetAsideTemplate string `json:"asideTemplate,omitempty"`
}

// extraStatus is the value of the deployment-extra-status annotation.
type extraStatus struct {
	UpdatedReadyReplicas    int32 `json:"updatedReadyReplicas,omitempty"`
	ExpectedUpdatedReplicas int32 `json:"expectedUpdatedReplicas,omitempty"`
}

// ownersStrategy is the value of the annotation that keeps what the owner wrote of
// a StatefulSet or a DaemonSet. It is absent where that is the default.
type ownersStrategy struct {
	Type      string `json:"type,omitempty"`
	Partition int32  `json:"partition,omitempty"`
	Paused    bool   `json:"paused,omitempty"`
}

// keepOwners takes no partition of ours for the owner's.
func keepOwners(obj metav1.Object, o ownersStrategy) {
	if o.Partition >= frozen {
		return
	}
	obj.SetAnnotations(without(obj.GetAnnotations(), rollouts.AnnotationOriginalStrategy))
	if o != (ownersStrategy{}) {
		annotate(obj, rollouts.AnnotationOriginalStrategy, encode(o))
	}
}

// owners is the default where the annotation is unreadable, or says what the API
// server would refuse: nothing could be given back by that.
func owners(obj metav1.Object) ownersStrategy {
	var o ownersStrategy
	err := json.Unmarshal([]byte(obj.GetAnnotations()[rollouts.AnnotationOriginalStrategy]), &o)
	if err != nil || o.Partition < 0 || !slices.Contains([]string{"", rollingUpdateType, onDeleteType}, o.Type) {
		return ownersStrategy{}
	}
	return o
}

// Both are strategies of StatefulSets and of DaemonSets.
const (
	rollingUpdateType = string(appsv1.RollingUpdateStatefulSetStrategyType)
	onDeleteType      = string(appsv1.OnDeleteStatefulSetStrategyType)
)

var drivings = newMemo[*driving]()

// readDriving tells false when the annotation is absent or unreadable.
func readDriving(obj metav1.Object) (driving, bool) {
	value := obj.GetAnnotations()[rollouts.AnnotationDeploymentStrategy]
	if value == "" {
		return driving{}, false
	}
	v := drivings.of(value, func() *driving {
		v := &driving{}
		if err := json.Unmarshal([]byte(value), v); err != nil {
			return nil
		}
		v.fit()
		return v
	})
	if v == nil {
		return driving{}, false
	}
	own := *v
	own.RollingUpdate = v.RollingUpdate.DeepCopy()
	if v.RevisionHistoryLimit != nil {
		own.RevisionHistoryLimit = new(*v.RevisionHistoryLimit)
	}
	return own, true
}

// fit drops what the API server would refuse of the owner's: nothing could be given
// back by that.
func (v *driving) fit() {
	if limit := v.RevisionHistoryLimit; limit != nil && *limit < 0 {
		v.RevisionHistoryLimit = nil
	}
	if v.RollingUpdate != nil && wrongUpdate(v.RollingUpdate) != "" {
		v.RollingUpdate = &appsv1.RollingUpdateDeployment{}
		setDefaults(v.RollingUpdate)
	}
}

// StyleOf is the style in which a workload was last driven.
func StyleOf(obj metav1.Object) rollouts.Style {
	if v, ok := readDriving(obj); ok && v.RollingStyle != "" {
		return v.RollingStyle
	}
	return rollouts.StylePartition
}

func writeDriving(obj metav1.Object, v driving) {
	if old, ok := readDriving(obj); ok && equality.Semantic.DeepEqual(old, v) {
		return
	}
	annotate(obj, rollouts.AnnotationDeploymentStrategy, encode(v))
}

var controllers = newMemo[types.UID]()

// readOwner has no UID where the annotation is unreadable: under control all the
// same, since others write names there that lead nowhere.
func readOwner(obj metav1.Object) (types.UID, bool) {
	value := obj.GetAnnotations()[rollouts.AnnotationControlInfo]
	if value == "" {
		return "", false
	}
	return controllers.of(value, func() types.UID {
		var ref metav1.OwnerReference
		if err := json.Unmarshal([]byte(value), &ref); err != nil {
			return ""
		}
		return ref.UID
	}), true
}

// alone reports whether no release drives a workload, but its annotation does: every
// release names its revision there, and those who write it by hand do not.
func alone(obj metav1.Object) bool {
	_, controlled := readOwner(obj)
	v, ok := readDriving(obj)
	return controlled && ok && !held(obj) && v.Revision == "" && !v.Abort
}

func writeOwner(obj metav1.Object, ref metav1.OwnerReference) {
	var old metav1.OwnerReference
	err := json.Unmarshal([]byte(obj.GetAnnotations()[rollouts.AnnotationControlInfo]), &old)
	if err == nil && equality.Semantic.DeepEqual(old, ref) {
		return
	}
	annotate(obj, rollouts.AnnotationControlInfo, encode(ref))
}

// readTarget returns what a workload was last told; nil when it is not driven.
func readTarget(obj metav1.Object) *planner.Target {
	owner, controlled := readOwner(obj)
	v, ok := readDriving(obj)
	if !controlled || !ok {
		return nil
	}
	target := v.target()
	target.Owner = owner
	return &target
}

// target is how far a workload may go, of whoever has told it.
func (v driving) target() planner.Target {
	return planner.Target{Partition: v.Partition, KeepOne: v.KeepOne, Least: v.Least, Abort: v.Abort, Revision: planner.Revision{Name: v.Revision, Template: v.UpdateTemplate}}
}

// told is what is written of a target.
func (v *driving) told(to planner.Target) {
	v.Partition, v.KeepOne, v.Least, v.Abort = to.Partition, to.KeepOne, to.Least, to.Abort
	v.Revision, v.UpdateTemplate = to.Revision.Name, to.Revision.Template
}

// held tells by presence: values that others write are no JSON.
func held(obj metav1.Object) bool {
	return obj.GetAnnotations()[rollouts.AnnotationInProgress] != ""
}

// HolderOf returns the name of the Rollout that holds a workload; "" if there is none, or if the
// name can not be read.
func HolderOf(obj metav1.Object) string {
	var by inProgress
	if err := json.Unmarshal([]byte(obj.GetAnnotations()[rollouts.AnnotationInProgress]), &by); err != nil {
		return ""
	}
	return by.RolloutName
}

func writeHeld(obj metav1.Object, by string) {
	annotate(obj, rollouts.AnnotationInProgress, encode(inProgress{RolloutName: by}))
}

// namedStable is the revision that is on record as the stable one, which counts while the
// workload is driven or held; empty if none is.
func namedStable(obj metav1.Object) string {
	if _, driven := readOwner(obj); !driven && !held(obj) {
		return ""
	}
	return obj.GetLabels()[rollouts.LabelStableRevision]
}

func rolloutID(obj metav1.Object) string {
	if id := obj.GetLabels()[rollouts.LabelRolloutID]; id != "" {
		return id
	}
	return obj.GetAnnotations()[rollouts.LabelRolloutID]
}

// renamed reports whether an update names another release.
func renamed(old, update metav1.Object) bool {
	return old.GetLabels()[rollouts.LabelRolloutID] != update.GetLabels()[rollouts.LabelRolloutID] ||
		old.GetAnnotations()[rollouts.LabelRolloutID] != update.GetAnnotations()[rollouts.LabelRolloutID]
}

// encode cannot fail for the types of this file.
func encode(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

func annotate(obj metav1.Object, key, value string) {
	m := maps.Clone(obj.GetAnnotations())
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	obj.SetAnnotations(m)
}

func label(obj metav1.Object, key, value string) {
	m := maps.Clone(obj.GetLabels())
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	obj.SetLabels(m)
}

// hasAny reports whether m has one of keys.
func hasAny(m map[string]string, keys []string) bool {
	for _, k := range keys {
		if _, ok := m[k]; ok {
			return true
		}
	}
	return false
}

// without returns m less keys.
func without(m map[string]string, keys ...string) map[string]string {
	if !hasAny(m, keys) {
		return m
	}
	m = maps.Clone(m)
	for _, k := range keys {
		delete(m, k)
	}
	if len(m) == 0 {
		return nil
	}
	return m
}

// unmark removes all keys of ours that a release writes.
func unmark(obj metav1.Object) {
	obj.SetAnnotations(without(obj.GetAnnotations(), ourAnnotations...))
	obj.SetLabels(without(obj.GetLabels(), ourLabels...))
}

// Marked reports whether something is held or driven, or a copy of what is.
func Marked(o metav1.Object) bool {
	a := o.GetAnnotations()
	return a[rollouts.AnnotationInProgress] != "" || a[rollouts.AnnotationControlInfo] != ""
}
