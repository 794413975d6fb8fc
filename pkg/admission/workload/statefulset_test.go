// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

type setEdit func(*appsv1.StatefulSet)

// statefulSet returns a labelled StatefulSet with its owner's update strategy.
func statefulSet(edits ...setEdit) *appsv1.StatefulSet {
	s := &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns", Labels: map[string]string{rollouts.LabelWorkloadType: "statefulset"}},
		Spec: appsv1.StatefulSetSpec{
			Replicas:             new(int32(5)),
			RevisionHistoryLimit: new(int32(10)),
			Template:             corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "v1"}}}},
		},
	}
	upTo(0)(s)
	for _, e := range edits {
		e(s)
	}
	return s
}

func setImage(v string) setEdit {
	return func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = v }
}

func upTo(partition int32) setEdit {
	return func(s *appsv1.StatefulSet) {
		s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{
			Type:          appsv1.RollingUpdateStatefulSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: &partition, MaxUnavailable: new(intstr.FromInt32(2))},
		}
	}
}

func onDelete(s *appsv1.StatefulSet) {
	s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
}

func sized(n int32) setEdit { return func(s *appsv1.StatefulSet) { s.Spec.Replicas = &n } }

func beginAt(n int32) setEdit {
	return func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: n} }
}

func lasting(seconds int32) setEdit {
	return func(s *appsv1.StatefulSet) { s.Spec.MinReadySeconds = seconds }
}

func unlabelled(s *appsv1.StatefulSet) { s.Labels = nil }

func shortMemory(s *appsv1.StatefulSet) { s.Spec.RevisionHistoryLimit = new(int32(0)) }

func setNamed(s *appsv1.StatefulSet) {
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, rollouts.LabelRolloutID, "again")
}

func setMarked(s *appsv1.StatefulSet) {
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, rollouts.AnnotationInProgress, "true")
}

// setHeld marks the StatefulSet as held by the Rollout web; setDriven sets the fields of a release at
// partition 4.
func setHeld(s *appsv1.StatefulSet) {
	upTo(32767)(s)
	s.Annotations = map[string]string{rollouts.AnnotationInProgress: `{"rolloutName":"web"}`}
}

func setDriven(s *appsv1.StatefulSet) {
	setHeld(s)
	upTo(4)(s)
	s.Annotations[rollouts.AnnotationControlInfo] = `{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"BatchRelease","name":"web","uid":"u"}`
	s.Annotations[rollouts.AnnotationDeploymentStrategy] = `{"rollingStyle":"Partition","partition":"20%","revisionHistoryLimit":2}`
	s.Labels[rollouts.LabelStableRevision] = "web-abc"
}

// ownerWrote sets the record of the value that the owner gets back.
func ownerWrote(value string) setEdit {
	return func(s *appsv1.StatefulSet) { s.Annotations[rollouts.AnnotationOriginalStrategy] = value }
}

func setRemembered(s *appsv1.StatefulSet) {
	s.Annotations[rollouts.AnnotationDeploymentStrategy] = `{"rollingStyle":"Partition","partition":"20%","revisionHistoryLimit":0}`
}

func backToStable(s *appsv1.StatefulSet) {
	s.Annotations[rollouts.AnnotationDeploymentStrategy] = `{"rollingStyle":"Partition","partition":0,"abort":true,"aside":"web-v2"}`
}

func overtaken(s *appsv1.StatefulSet) {
	s.Annotations[rollouts.AnnotationDeploymentStrategy] = `{"rollingStyle":"Partition","partition":0,"abort":true}`
}

// These are the stored objects after updates of a StatefulSet through each path.
func TestAdmitStatefulSet(t *testing.T) {
	t.Parallel()
	healthy := named{liveRollout(func(r *rollouts.Rollout) { r.Spec.WorkloadRef.Kind = "StatefulSet" })}
	tests := map[string]struct {
		rollouts    named
		old, update []setEdit
		want        []setEdit
	}{
		"a new template is held":            {healthy, nil, []setEdit{setImage("v2")}, []setEdit{setImage("v2"), setHeld}},
		"another name of a release is held": {healthy, nil, []setEdit{setNamed}, []setEdit{setHeld, setNamed}},
		"a mark beside it is dropped":       {healthy, nil, []setEdit{setNamed, setMarked}, []setEdit{setHeld, setNamed}},
		"the owner's partition is kept":     {healthy, []setEdit{upTo(2)}, []setEdit{upTo(2), setImage("v2")}, []setEdit{setImage("v2"), setHeld, ownerWrote(`{"partition":2}`)}},
		"one left paused has no partition":  {healthy, []setEdit{upTo(32767)}, []setEdit{upTo(32767), setImage("v2")}, []setEdit{setImage("v2"), setHeld}},
		"one of OnDelete is refused":        {healthy, []setEdit{onDelete}, []setEdit{onDelete, setImage("v2")}, []setEdit{onDelete}},
		"without pods nothing is held":      {healthy, []setEdit{sized(0)}, []setEdit{sized(0), setImage("v2")}, []setEdit{sized(0), setImage("v2")}},
		"an edit of the rest is not":        {healthy, nil, []setEdit{sized(7)}, []setEdit{sized(7)}},
		"no rollout":                        {nil, nil, []setEdit{setImage("v2")}, []setEdit{setImage("v2")}},
		"a driven one goes no further":      {healthy, []setEdit{setDriven}, []setEdit{setDriven, upTo(0)}, []setEdit{setDriven}},
		"the owner's new partition is kept": {healthy, []setEdit{setDriven}, []setEdit{setDriven, upTo(1)}, []setEdit{setDriven, ownerWrote(`{"partition":1}`)}},
		"the owner's OnDelete is kept":      {healthy, []setEdit{setDriven}, []setEdit{setDriven, onDelete}, []setEdit{setDriven, ownerWrote(`{"type":"OnDelete"}`)}},
		"a driven one is replaced by bare":  {healthy, []setEdit{setDriven}, []setEdit{unlabelled}, []setEdit{setDriven}},
		"another template stops it":         {healthy, []setEdit{setDriven}, []setEdit{setDriven, setImage("v3")}, []setEdit{setDriven, setImage("v3"), upTo(32767)}},
		"the history limit is kept":         {healthy, []setEdit{setDriven}, []setEdit{setDriven, shortMemory}, []setEdit{setDriven, setRemembered}},
		"its ordinals begin where they did": {healthy, []setEdit{setDriven}, []setEdit{setDriven, beginAt(1)}, []setEdit{setDriven}},
		"and not where they began once":     {healthy, []setEdit{setDriven, beginAt(7)}, []setEdit{setDriven}, []setEdit{setDriven, beginAt(7)}},
		"nor elsewhere":                     {healthy, []setEdit{setHeld, beginAt(7)}, []setEdit{setHeld, beginAt(8)}, []setEdit{setHeld, beginAt(7)}},
		"pods count as soon as they did":    {healthy, []setEdit{setDriven, lasting(5)}, []setEdit{setDriven, lasting(100000)}, []setEdit{setDriven, lasting(5)}},
		"also where that was at once":       {healthy, []setEdit{setHeld}, []setEdit{setHeld, lasting(100000)}, []setEdit{setHeld}},
		"at rest they begin anywhere":       {healthy, nil, []setEdit{beginAt(1)}, []setEdit{beginAt(1)}},
		"a held one without a rollout":      {nil, []setEdit{setHeld}, []setEdit{setHeld, upTo(0)}, []setEdit{setHeld}},
		"the label stays with a rollout":    {healthy, nil, []setEdit{unlabelled}, nil},
	}
	asked := asker(t)
	for path, admit := range admissionPaths(t) {
		for name, tt := range tests {
			t.Run(path+"/"+name, func(t *testing.T) {
				t.Parallel()
				got := admit.stored(t, tt.rollouts, "alice", statefulSet(tt.old...), statefulSet(tt.update...))
				if diff := cmp.Diff(statefulSet(tt.want...), got); diff != "" {
					t.Errorf("stored (-want +got):\n%s", diff)
				}
				if changed := !cmp.Equal(got, statefulSet(tt.update...)); changed && !asked(sent{as: "alice", old: statefulSet(tt.old...), update: statefulSet(tt.update...)}) {
					t.Error("the shipped configuration does not ask about this update")
				}
			})
		}
	}
}

// A new template that is written while pods return to the stable revision starts a release.
func TestAdmitStatefulSetGoingBack(t *testing.T) {
	t.Parallel()
	got := admitted(t, &Handler{Rollouts: named{}, Controller: weir}, "alice",
		statefulSet(setDriven, backToStable), statefulSet(setDriven, backToStable, setImage("v3")))
	if diff := cmp.Diff(statefulSet(setDriven, setImage("v3"), upTo(32767), overtaken), got); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}
