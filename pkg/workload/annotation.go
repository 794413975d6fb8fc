// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Annotations of the native controller on ReplicaSets.
const (
	annotationRevision = "deployment.kubernetes.io/revision"
	annotationDesired  = "deployment.kubernetes.io/desired-replicas"
	annotationMax      = "deployment.kubernetes.io/max-replicas"
)

var (
	// ourAnnotations exist on a workload only while it is held or has a target. Weir never stores
	// the annotation of a refusal.
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
	// ourLabels exist on a workload only while it is held or has a target.
	ourLabels = []string{rollouts.LabelStableRevision, rollouts.LabelControlled}
)

// maxMark limits the length of the annotation that marks a held workload: a name in JSON. The
// webhook configuration has the same number.
const maxMark = 512

// inProgress is the value of the annotation that marks a held workload.
type inProgress struct {
	RolloutName string `json:"rolloutName"`
}

// extraStatus is the value of the deployment-extra-status annotation.
type extraStatus struct {
	UpdatedReadyReplicas    int32 `json:"updatedReadyReplicas,omitempty"`
	ExpectedUpdatedReplicas int32 `json:"expectedUpdatedReplicas,omitempty"`
}

// originalStrategy is the value of the annotation that saves the owner's update strategy of a
// StatefulSet or a DaemonSet. The annotation is absent if the strategy is the default.
type originalStrategy struct {
	Type      string `json:"type,omitempty"`
	Partition int32  `json:"partition,omitempty"`
	Paused    bool   `json:"paused,omitempty"`
}

// saveOriginalStrategy writes the annotation. It ignores a partition that Weir wrote.
func saveOriginalStrategy(obj metav1.Object, o originalStrategy) {
	if o.Partition >= frozen {
		return
	}
	obj.SetAnnotations(withoutKeys(obj.GetAnnotations(), rollouts.AnnotationOriginalStrategy))
	if o != (originalStrategy{}) {
		setAnnotation(obj, rollouts.AnnotationOriginalStrategy, encode(o))
	}
}

// readOriginalStrategy reads the annotation. It returns the default if the value is unreadable or
// kube-apiserver would refuse it, because Weir could not restore such a value.
func readOriginalStrategy(obj metav1.Object) originalStrategy {
	var o originalStrategy
	err := json.Unmarshal([]byte(obj.GetAnnotations()[rollouts.AnnotationOriginalStrategy]), &o)
	if err != nil || o.Partition < 0 || !slices.Contains([]string{"", rollingUpdateType, onDeleteType}, o.Type) {
		return originalStrategy{}
	}
	return o
}

const (
	// StatefulSets and DaemonSets share these update strategies.
	rollingUpdateType = string(appsv1.RollingUpdateStatefulSetStrategyType)
	onDeleteType      = string(appsv1.OnDeleteStatefulSetStrategyType)
)

// hasHoldMark reports whether the annotation that marks a held workload exists. Its value may be no
// JSON: other clients write it, too.
func hasHoldMark(obj metav1.Object) bool {
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

func writeHoldMark(obj metav1.Object, by string) {
	setAnnotation(obj, rollouts.AnnotationInProgress, encode(inProgress{RolloutName: by}))
}

func rolloutID(obj metav1.Object) string {
	if id := obj.GetLabels()[rollouts.LabelRolloutID]; id != "" {
		return id
	}
	return obj.GetAnnotations()[rollouts.LabelRolloutID]
}

// changesRolloutID reports whether an update names another release.
func changesRolloutID(old, update metav1.Object) bool {
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

func setAnnotation(obj metav1.Object, key, value string) {
	m := maps.Clone(obj.GetAnnotations())
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	obj.SetAnnotations(m)
}

func setLabel(obj metav1.Object, key, value string) {
	m := maps.Clone(obj.GetLabels())
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	obj.SetLabels(m)
}

// hasAnyKey reports whether m has at least one of the keys.
func hasAnyKey(m map[string]string, keys []string) bool {
	for _, k := range keys {
		if _, ok := m[k]; ok {
			return true
		}
	}
	return false
}

// withoutKeys returns m without the keys. It does not change m.
func withoutKeys(m map[string]string, keys ...string) map[string]string {
	if !hasAnyKey(m, keys) {
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

// removeRecords removes all keys that a release writes.
func removeRecords(obj metav1.Object) {
	obj.SetAnnotations(withoutKeys(obj.GetAnnotations(), ourAnnotations...))
	obj.SetLabels(withoutKeys(obj.GetLabels(), ourLabels...))
}

// HasReleaseMark reports whether an object is held or has a target, or is a copy of such an object.
func HasReleaseMark(o metav1.Object) bool {
	a := o.GetAnnotations()
	return a[rollouts.AnnotationInProgress] != "" || a[rollouts.AnnotationControlInfo] != ""
}
