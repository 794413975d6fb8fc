// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var (
	cloneSetKind            = schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1alpha1", Kind: "CloneSet"}
	advancedStatefulSetKind = schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1beta1", Kind: "StatefulSet"}
	advancedDaemonSetKind   = schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1alpha1", Kind: "DaemonSet"}
)

// inPlaceReady is the readiness gate by which Kruise makes a pod unready during an in-place update.
const inPlaceReady corev1.PodConditionType = "InPlaceUpdateReady"

// isUpdatingInPlace reports whether a pod with ready containers is about to be updated in place.
func isUpdatingInPlace(p *corev1.Pod) bool {
	gate, containers := condition(p, inPlaceReady), condition(p, corev1.ContainersReady)
	return gate != nil && gate.Status == corev1.ConditionFalse && containers != nil && containers.Status == corev1.ConditionTrue
}

// CloneSet has the fields of Kruise's CloneSet that Weir uses. Its pods have no order, and a
// partition keeps a share of them at the earlier revision.
type CloneSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   CloneSetSpec   `json:"spec,omitempty"`
	Status CloneSetStatus `json:"status,omitempty"`

	Unknown UnknownFields `json:"-"`
}

func (c *CloneSet) unknownFields() *UnknownFields { return &c.Unknown }

// CloneSetSpec is the desired state.
type CloneSetSpec struct {
	Replicas             *int32                 `json:"replicas,omitempty"`
	Template             corev1.PodTemplateSpec `json:"template"`
	UpdateStrategy       CloneSetUpdateStrategy `json:"updateStrategy,omitempty"`
	RevisionHistoryLimit *int32                 `json:"revisionHistoryLimit,omitempty"`
	MinReadySeconds      int32                  `json:"minReadySeconds,omitempty"`
	ScaleStrategy        CloneSetScaleStrategy  `json:"scaleStrategy,omitzero"`
}

// CloneSetScaleStrategy is how the controller creates and deletes pods.
type CloneSetScaleStrategy struct {
	// PodsToDelete names the pods to delete first.
	PodsToDelete []string `json:"podsToDelete,omitempty"`
}

// CloneSetUpdateStrategy is how the controller replaces pods, or updates them in place.
type CloneSetUpdateStrategy struct {
	Type string `json:"type,omitempty"`
	// Partition is how many pods, or what share of them, stay at the earlier revision.
	Partition      *intstr.IntOrString `json:"partition,omitempty"`
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	MaxSurge       *intstr.IntOrString `json:"maxSurge,omitempty"`
	// Paused stops all updates.
	Paused bool `json:"paused"`
}

// CloneSetStatus is the observed state.
type CloneSetStatus struct {
	ObservedGeneration   int64  `json:"observedGeneration,omitempty"`
	Replicas             int32  `json:"replicas"`
	ReadyReplicas        int32  `json:"readyReplicas"`
	UpdatedReplicas      int32  `json:"updatedReplicas"`
	UpdatedReadyReplicas int32  `json:"updatedReadyReplicas"`
	CurrentRevision      string `json:"currentRevision,omitempty"`
	UpdateRevision       string `json:"updateRevision,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (c *CloneSet) DeepCopyObject() runtime.Object {
	out := *c
	c.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	c.Spec.Template.DeepCopyInto(&out.Spec.Template)
	out.Spec.Replicas, out.Spec.RevisionHistoryLimit = copyPointer(c.Spec.Replicas), copyPointer(c.Spec.RevisionHistoryLimit)
	out.Spec.ScaleStrategy.PodsToDelete = slices.Clone(c.Spec.ScaleStrategy.PodsToDelete)
	u := &out.Spec.UpdateStrategy
	u.Partition, u.MaxUnavailable, u.MaxSurge = copyPointer(u.Partition), copyPointer(u.MaxUnavailable), copyPointer(u.MaxSurge)
	return &out
}

// AdvancedStatefulSet has the fields of Kruise's StatefulSet that Weir uses. Most are the same as
// those of the native kind.
type AdvancedStatefulSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   AdvancedStatefulSetSpec  `json:"spec,omitempty"`
	Status appsv1.StatefulSetStatus `json:"status,omitempty"`

	Unknown UnknownFields `json:"-"`
}

func (s *AdvancedStatefulSet) unknownFields() *UnknownFields { return &s.Unknown }

// AdvancedStatefulSetSpec is the desired state.
type AdvancedStatefulSetSpec struct {
	Replicas             *int32                            `json:"replicas,omitempty"`
	Template             corev1.PodTemplateSpec            `json:"template"`
	UpdateStrategy       AdvancedStatefulSetUpdateStrategy `json:"updateStrategy,omitempty"`
	RevisionHistoryLimit *int32                            `json:"revisionHistoryLimit,omitempty"`
	Ordinals             *appsv1.StatefulSetOrdinals       `json:"ordinals,omitempty"`
	// ReserveOrdinals are ordinals that get no pod: numbers, and ranges such as 3-5.
	ReserveOrdinals []intstr.IntOrString `json:"reserveOrdinals,omitempty"`
}

// AdvancedStatefulSetUpdateStrategy is whether and how the controller replaces pods.
type AdvancedStatefulSetUpdateStrategy struct {
	Type          appsv1.StatefulSetUpdateStrategyType `json:"type,omitempty"`
	RollingUpdate *RollingUpdateAdvancedStatefulSet    `json:"rollingUpdate,omitempty"`
}

// RollingUpdateAdvancedStatefulSet has the parameters of RollingUpdate.
type RollingUpdateAdvancedStatefulSet struct {
	// Partition is how many pods stay at the earlier revision.
	Partition      *int32              `json:"partition,omitempty"`
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// MinReadySeconds is after how long a pod that is ready counts as available.
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`
	// Paused stops all of it.
	Paused *bool `json:"paused,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (s *AdvancedStatefulSet) DeepCopyObject() runtime.Object {
	out := *s
	s.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	s.Spec.Template.DeepCopyInto(&out.Spec.Template)
	s.Status.DeepCopyInto(&out.Status)
	out.Spec.Replicas, out.Spec.RevisionHistoryLimit = copyPointer(s.Spec.Replicas), copyPointer(s.Spec.RevisionHistoryLimit)
	out.Spec.Ordinals, out.Spec.ReserveOrdinals = copyPointer(s.Spec.Ordinals), slices.Clone(s.Spec.ReserveOrdinals)
	if u := copyPointer(s.Spec.UpdateStrategy.RollingUpdate); u != nil {
		u.Partition, u.MaxUnavailable, u.Paused = copyPointer(u.Partition), copyPointer(u.MaxUnavailable), copyPointer(u.Paused)
		u.MinReadySeconds = copyPointer(u.MinReadySeconds)
		out.Spec.UpdateStrategy.RollingUpdate = u
	}
	return &out
}

// AdvancedDaemonSet has the fields of Kruise's DaemonSet that Weir uses. Each node has a pod, and a
// partition keeps a number of pods at the earlier revision.
type AdvancedDaemonSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   AdvancedDaemonSetSpec   `json:"spec,omitempty"`
	Status AdvancedDaemonSetStatus `json:"status,omitempty"`

	Unknown UnknownFields `json:"-"`
}

func (d *AdvancedDaemonSet) unknownFields() *UnknownFields { return &d.Unknown }

// AdvancedDaemonSetSpec is the desired state.
type AdvancedDaemonSetSpec struct {
	MinReadySeconds      int32                           `json:"minReadySeconds,omitempty"`
	Template             corev1.PodTemplateSpec          `json:"template"`
	UpdateStrategy       AdvancedDaemonSetUpdateStrategy `json:"updateStrategy,omitempty"`
	RevisionHistoryLimit *int32                          `json:"revisionHistoryLimit,omitempty"`
}

// AdvancedDaemonSetUpdateStrategy is whether and how the controller replaces pods.
type AdvancedDaemonSetUpdateStrategy struct {
	Type          appsv1.DaemonSetUpdateStrategyType `json:"type,omitempty"`
	RollingUpdate *RollingUpdateAdvancedDaemonSet    `json:"rollingUpdate,omitempty"`
}

// RollingUpdateAdvancedDaemonSet has the parameters of RollingUpdate.
type RollingUpdateAdvancedDaemonSet struct {
	// Partition is on how many nodes the pod stays at the earlier revision.
	Partition      *int32              `json:"partition,omitempty"`
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// Selector selects the nodes whose pods are replaced; nil for all.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Paused stops all of it.
	Paused *bool `json:"paused,omitempty"`
}

// AdvancedDaemonSetStatus is the observed state: that of the native kind, and a hash.
type AdvancedDaemonSetStatus struct {
	appsv1.DaemonSetStatus `json:",inline"`
	// DaemonSetHash is the revision of the template. Pods have it as a label value.
	DaemonSetHash string `json:"daemonSetHash,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (d *AdvancedDaemonSet) DeepCopyObject() runtime.Object {
	out := *d
	d.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	d.Spec.Template.DeepCopyInto(&out.Spec.Template)
	d.Status.DaemonSetStatus.DeepCopyInto(&out.Status.DaemonSetStatus)
	out.Spec.RevisionHistoryLimit = copyPointer(d.Spec.RevisionHistoryLimit)
	if u := copyPointer(d.Spec.UpdateStrategy.RollingUpdate); u != nil {
		u.Partition, u.MaxUnavailable, u.Paused, u.Selector = copyPointer(u.Partition), copyPointer(u.MaxUnavailable), copyPointer(u.Paused), u.Selector.DeepCopy()
		out.Spec.UpdateStrategy.RollingUpdate = u
	}
	return &out
}

func copyPointer[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}

func orZero[T any](p *T) T { return orElse(p, *new(T)) }

func orElse[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
