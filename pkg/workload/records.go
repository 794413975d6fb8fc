// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Weir writes the state of a release as annotations on the workload: for people, for clients of
// OpenKruise, and for the settings of the owner that Weir replaces during a release. Admission
// lets nobody else change these records. The controllers read only the owner's settings from
// them; everything else comes from the store (Hold).

// strategyRecord is the value of the deployment-strategy annotation. OpenKruise defines the first
// four fields. Its readers ignore the others.
type strategyRecord struct {
	RollingStyle rollouts.Style `json:"rollingStyle,omitempty"`
	// RollingUpdate is the owner's; nil when the owner's strategy is Recreate.
	RollingUpdate *appsv1.RollingUpdateDeployment `json:"rollingUpdate,omitempty"`
	Paused        bool                            `json:"paused,omitempty"`
	Partition     intstr.IntOrString              `json:"partition"`
	KeepOne       bool                            `json:"keepOne,omitempty"`
	Least         int32                           `json:"least,omitempty"`
	Abort         bool                            `json:"abort,omitempty"`
	Revision      string                          `json:"revision,omitempty"`
	// UpdateTemplate is the SHA-256 digest of the template of Revision.
	UpdateTemplate string `json:"updateTemplate,omitempty"`
	// RevisionHistoryLimit is the owner's, when Weir had to raise it.
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
	// SetAsideRevision is the revision that the owner asks for, while Weir has set the stable
	// template in its place so that pods return to it.
	SetAsideRevision string `json:"aside,omitempty"`
	// SetAsideTemplate is the SHA-256 digest of the template of SetAsideRevision.
	SetAsideTemplate string `json:"asideTemplate,omitempty"`
}

// readStrategy reports whether the annotation exists and is readable.
func readStrategy(obj metav1.Object) (strategyRecord, bool) {
	var s strategyRecord
	value := obj.GetAnnotations()[rollouts.AnnotationDeploymentStrategy]
	if value == "" || json.Unmarshal([]byte(value), &s) != nil {
		return strategyRecord{}, false
	}
	s.dropInvalid()
	return s, true
}

// dropInvalid drops settings of the owner that kube-apiserver would refuse. Weir could not give
// them back.
func (s *strategyRecord) dropInvalid() {
	if limit := s.RevisionHistoryLimit; limit != nil && *limit < 0 {
		s.RevisionHistoryLimit = nil
	}
	if s.RollingUpdate != nil && validateRollingUpdate(s.RollingUpdate) != "" {
		s.RollingUpdate = &appsv1.RollingUpdateDeployment{}
		setDefaults(s.RollingUpdate)
	}
}

// writeStrategy keeps the annotation as it is if it has the same content in another spelling.
func writeStrategy(obj metav1.Object, s strategyRecord) {
	if old, ok := readStrategy(obj); ok && equality.Semantic.DeepEqual(old, s) {
		return
	}
	setAnnotation(obj, rollouts.AnnotationDeploymentStrategy, encode(s))
}

func (s strategyRecord) target() planner.Target {
	return planner.Target{
		Partition: s.Partition, KeepOne: s.KeepOne, MinExtraReplicas: s.Least, Abort: s.Abort,
		Revision: planner.Revision{Name: s.Revision, Template: s.UpdateTemplate},
	}
}

func (s *strategyRecord) setTarget(to planner.Target) {
	s.Partition, s.KeepOne, s.Least, s.Abort = to.Partition, to.KeepOne, to.MinExtraReplicas, to.Abort
	s.Revision, s.UpdateTemplate = to.Revision.Name, to.Revision.Template
}

func (s strategyRecord) aside() planner.Revision {
	return planner.Revision{Name: s.SetAsideRevision, Template: s.SetAsideTemplate}
}

// clearAside records that no revision is set aside any longer.
func clearAside(obj metav1.Object) {
	if s, _ := readStrategy(obj); s.SetAsideRevision != "" {
		s.SetAsideRevision, s.SetAsideTemplate = "", ""
		writeStrategy(obj, s)
	}
}

// readController returns the UID of the BatchRelease in the control-info annotation, and reports
// whether the annotation exists. The UID is empty if the annotation is unreadable. Such a workload
// is controlled all the same: clients of OpenKruise write references without a UID.
func readController(obj metav1.Object) (types.UID, bool) {
	value := obj.GetAnnotations()[rollouts.AnnotationControlInfo]
	if value == "" {
		return "", false
	}
	var ref metav1.OwnerReference
	if err := json.Unmarshal([]byte(value), &ref); err != nil {
		return "", true
	}
	return ref.UID, true
}

func writeController(obj metav1.Object, ref metav1.OwnerReference) {
	var old metav1.OwnerReference
	if err := json.Unmarshal([]byte(obj.GetAnnotations()[rollouts.AnnotationControlInfo]), &old); err == nil && equality.Semantic.DeepEqual(old, ref) {
		return
	}
	setAnnotation(obj, rollouts.AnnotationControlInfo, encode(ref))
}

// StyleOf returns the style of the last target that was written on a workload.
func StyleOf(obj metav1.Object) rollouts.Style {
	if s, ok := readStrategy(obj); ok && s.RollingStyle != "" {
		return s.RollingStyle
	}
	return rollouts.StylePartition
}
