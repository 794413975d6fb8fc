// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"math"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

type edit func(*appsv1.Deployment)

// deployment returns a labelled Deployment with its owner's update strategy.
func deployment(edits ...edit) *appsv1.Deployment {
	d := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns", Labels: map[string]string{rollouts.LabelWorkloadType: "deployment"}},
		Spec: appsv1.DeploymentSpec{
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "v1"}}}},
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType},
		},
	}
	for _, e := range edits {
		e(d)
	}
	return d
}

func image(v string) edit {
	return func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = v }
}

// held marks the Deployment as held by the Rollout web.
func held(d *appsv1.Deployment) {
	d.Spec.Paused = true
	d.Annotations = map[string]string{rollouts.AnnotationInProgress: `{"rolloutName":"web"}`}
}

// driven sets the fields of a release: Recreate, with a BatchRelease.
func driven(d *appsv1.Deployment) {
	held(d)
	d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	d.Annotations[rollouts.AnnotationDeploymentStrategy] = `{"rollingStyle":"Partition","rollingUpdate":{"maxUnavailable":"25%","maxSurge":"25%"},"partition":"20%"}`
	d.Annotations[rollouts.AnnotationControlInfo] = `{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"BatchRelease","name":"web","uid":"u"}`
	d.Labels[rollouts.LabelStableRevision] = "abc"
	d.Labels[rollouts.LabelControlled] = "true"
}

// switched sets the fields of a blue-green release, whose values no owner uses.
func switched(d *appsv1.Deployment) {
	held(d)
	d.Spec.Paused = false
	surging(2, "0%")(d)
	d.Spec.MinReadySeconds, d.Spec.ProgressDeadlineSeconds = math.MaxInt32-1, new(int32(math.MaxInt32))
	d.Annotations[rollouts.AnnotationDeploymentStrategy] = `{"rollingStyle":"BlueGreen","partition":"20%"}`
	d.Annotations[rollouts.AnnotationControlInfo] = `{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"BatchRelease","name":"web","uid":"u"}`
	d.Annotations[rollouts.AnnotationOriginalStrategy] = `{"maxUnavailable":"25%","maxSurge":"25%","minReadySeconds":5,"progressDeadlineSeconds":600}`
}

// hasty sets an owner's value in a manifest; noted sets the record of that value.
func hasty(d *appsv1.Deployment) {
	d.Spec.MinReadySeconds, d.Spec.ProgressDeadlineSeconds = 0, new(int32(60))
}

func noted(d *appsv1.Deployment) {
	notedAs(`{"maxUnavailable":"10%","maxSurge":3,"minReadySeconds":0,"progressDeadlineSeconds":60}`)(d)
}

func notedAs(value string) edit {
	return func(d *appsv1.Deployment) { d.Annotations[rollouts.AnnotationOriginalStrategy] = value }
}

func readyFor(seconds int32) edit {
	return func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = seconds }
}

func due(seconds int32) edit {
	return func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = &seconds }
}

// surgingBy sets the strategy that results if a patch changes one limit of Weir's strategy.
func surgingBy(n int32) edit {
	return func(d *appsv1.Deployment) {
		d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: new(intstr.FromInt32(n))}
	}
}

// surging sets an owner's strategy; given sets the record of that strategy.
func surging(surge int, unavailable string) edit {
	return func(d *appsv1.Deployment) {
		d.Spec.Strategy = appsv1.DeploymentStrategy{
			Type: appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{
				MaxSurge: new(intstr.FromInt(surge)), MaxUnavailable: new(intstr.FromString(unavailable)),
			},
		}
	}
}

func given(surge int, unavailable string) edit {
	return func(d *appsv1.Deployment) {
		d.Annotations[rollouts.AnnotationDeploymentStrategy] = fmt.Sprintf(
			`{"rollingStyle":"Partition","rollingUpdate":{"maxUnavailable":%q,"maxSurge":%d},"partition":"20%%"}`, unavailable, surge)
	}
}

// remembered sets the record of a history limit of 0 while Weir needs the history.
func remembered(d *appsv1.Deployment) {
	d.Spec.RevisionHistoryLimit = new(int32(10))
	v := d.Annotations[rollouts.AnnotationDeploymentStrategy]
	d.Annotations[rollouts.AnnotationDeploymentStrategy] = strings.TrimSuffix(v, "}") + `,"revisionHistoryLimit":0}`
}

// noHistory sets the record of a history limit of 0 before the release begins.
func noHistory(d *appsv1.Deployment) {
	d.Spec.RevisionHistoryLimit = new(int32(10))
	d.Annotations[rollouts.AnnotationDeploymentStrategy] = `{"partition":0,"revisionHistoryLimit":0}`
}

// wants sets a note that a user writes.
func wants(note string) edit {
	return func(d *appsv1.Deployment) { set(d, rollouts.AnnotationWantedSpec, note) }
}

func remembers(n int32) edit { return func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = &n } }

func bare(d *appsv1.Deployment)     { d.Annotations, d.Labels = nil, nil }
func unmarked(d *appsv1.Deployment) { d.Annotations = nil }
func resumed(d *appsv1.Deployment)  { d.Spec.Paused = false }
func rolling(d *appsv1.Deployment) {
	d.Spec.Strategy.Type = appsv1.RollingUpdateDeploymentStrategyType
}
func hashed(d *appsv1.Deployment) {
	d.Spec.Template.Labels = map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: "x"}
}

// markedBy sets the annotations that clients of OpenKruise write to release a new rollout ID only.
func markedBy(value string) edit {
	return func(d *appsv1.Deployment) {
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, rollouts.AnnotationInProgress, value)
	}
}

func rolloutID(d *appsv1.Deployment)     { d.Labels[rollouts.LabelRolloutID] = "7" }
func annotatedHold(d *appsv1.Deployment) { held(d) }
func scaled(d *appsv1.Deployment)        { n := int32(7); d.Spec.Replicas = &n }
