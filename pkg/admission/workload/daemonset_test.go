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

type daemonEdit func(*appsv1.DaemonSet)

// daemonSet returns a labelled DaemonSet with pods on five nodes and its owner's update strategy.
func daemonSet(edits ...daemonEdit) *appsv1.DaemonSet {
	d := &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns", Generation: 1, Labels: map[string]string{rollouts.LabelWorkloadType: "daemonset"}},
		Spec: appsv1.DaemonSetSpec{
			RevisionHistoryLimit: new(int32(10)),
			Template:             corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "v1"}}}},
			UpdateStrategy:       appsv1.DaemonSetUpdateStrategy{RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: new(intstr.FromInt32(2))}},
		},
		Status: appsv1.DaemonSetStatus{ObservedGeneration: 1, DesiredNumberScheduled: 5},
	}
	ofType(appsv1.RollingUpdateDaemonSetStrategyType)(d)
	for _, e := range edits {
		e(d)
	}
	return d
}

func daemonImage(v string) daemonEdit {
	return func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.Containers[0].Image = v }
}

func ofType(t appsv1.DaemonSetUpdateStrategyType) daemonEdit {
	return func(d *appsv1.DaemonSet) { d.Spec.UpdateStrategy.Type = t }
}

func withSurge(s intstr.IntOrString) daemonEdit {
	return func(d *appsv1.DaemonSet) { d.Spec.UpdateStrategy.RollingUpdate.MaxSurge = &s }
}

func plainStrategy(d *appsv1.DaemonSet) { d.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{} }

func nowhere(d *appsv1.DaemonSet) { d.Status.DesiredNumberScheduled = 0 }

func fresh(d *appsv1.DaemonSet) { d.Status = appsv1.DaemonSetStatus{} }

func allowing(n int32) daemonEdit {
	return func(d *appsv1.DaemonSet) {
		d.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(n))
	}
}

func stable(seconds int32) daemonEdit {
	return func(d *appsv1.DaemonSet) { d.Spec.MinReadySeconds = seconds }
}

func withoutLabels(d *appsv1.DaemonSet) { d.Labels = nil }

func remembersLess(d *appsv1.DaemonSet) { d.Spec.RevisionHistoryLimit = new(int32(0)) }

func daemonMarked(d *appsv1.DaemonSet) {
	metav1.SetMetaDataAnnotation(&d.ObjectMeta, rollouts.AnnotationInProgress, "true")
}

func namedAgain(d *appsv1.DaemonSet) { d.Labels[rollouts.LabelRolloutID] = "again" }

func namedAside(d *appsv1.DaemonSet) {
	metav1.SetMetaDataAnnotation(&d.ObjectMeta, rollouts.LabelRolloutID, "again")
}

// daemonHeld marks the DaemonSet as held by the Rollout web; daemonDriven sets the fields of a release at
// 20%.
func daemonHeld(d *appsv1.DaemonSet) {
	ofType(appsv1.OnDeleteDaemonSetStrategyType)(d)
	d.Annotations = map[string]string{rollouts.AnnotationInProgress: `{"rolloutName":"web"}`}
}

func daemonDriven(d *appsv1.DaemonSet) {
	daemonHeld(d)
	d.Annotations[rollouts.AnnotationControlInfo] = `{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"BatchRelease","name":"web","uid":"u"}`
	driving(`{"rollingStyle":"Partition","partition":"20%","revisionHistoryLimit":2}`)(d)
	d.Labels[rollouts.LabelStableRevision] = "abc"
}

func driving(value string) daemonEdit {
	return func(d *appsv1.DaemonSet) { d.Annotations[rollouts.AnnotationDeploymentStrategy] = value }
}

// hisOnDelete sets the record of an owner who uses OnDelete.
func hisOnDelete(d *appsv1.DaemonSet) {
	d.Annotations[rollouts.AnnotationOriginalStrategy] = `{"type":"OnDelete"}`
}

// These are the stored objects after updates of a DaemonSet through each path.
func TestAdmitDaemonSet(t *testing.T) {
	t.Parallel()
	const rolls, onDelete = appsv1.RollingUpdateDaemonSetStrategyType, appsv1.OnDeleteDaemonSetStrategyType
	v2 := daemonImage("v2")
	one, none := withSurge(intstr.FromString("10%")), withSurge(intstr.FromInt32(0))
	healthy := named{liveRollout(func(r *rollouts.Rollout) { r.Spec.WorkloadRef.Kind = "DaemonSet" })}
	tests := map[string]struct {
		rollouts    named
		old, update []daemonEdit
		want        []daemonEdit
	}{
		"a new template is held":            {healthy, nil, []daemonEdit{v2}, []daemonEdit{v2, daemonHeld}},
		"another name of a release is held": {healthy, nil, []daemonEdit{namedAgain}, []daemonEdit{namedAgain, daemonHeld}},
		"a mark beside it is dropped":       {healthy, nil, []daemonEdit{namedAgain, daemonMarked}, []daemonEdit{namedAgain, daemonHeld}},
		"a name in an annotation is too":    {healthy, nil, []daemonEdit{namedAside}, []daemonEdit{daemonHeld, namedAside}},
		"the owner's OnDelete is kept":      {healthy, []daemonEdit{ofType(onDelete)}, []daemonEdit{ofType(onDelete), v2}, []daemonEdit{v2, daemonHeld, hisOnDelete}},
		"one without a strategy is held":    {healthy, []daemonEdit{plainStrategy}, []daemonEdit{plainStrategy, v2}, []daemonEdit{plainStrategy, v2, daemonHeld}},
		"a surge is refused":                {healthy, []daemonEdit{one}, []daemonEdit{one, v2}, []daemonEdit{one}},
		"a surge of none is no surge":       {healthy, []daemonEdit{none}, []daemonEdit{none, v2}, []daemonEdit{none, v2, daemonHeld}},
		"with OnDelete there is no surge":   {healthy, []daemonEdit{ofType(onDelete), one}, []daemonEdit{ofType(onDelete), one, v2}, []daemonEdit{one, v2, daemonHeld, hisOnDelete}},
		"without nodes, says its status":    {healthy, []daemonEdit{nowhere}, []daemonEdit{nowhere, v2}, []daemonEdit{nowhere, v2, daemonHeld}},
		"who has not been counted is held":  {healthy, []daemonEdit{fresh}, []daemonEdit{fresh, v2}, []daemonEdit{fresh, v2, daemonHeld}},
		"an edit of the rest is not":        {healthy, nil, []daemonEdit{allowing(1)}, []daemonEdit{allowing(1)}},
		"no rollout":                        {nil, nil, []daemonEdit{v2}, []daemonEdit{v2}},
		"a driven one is not let go":        {healthy, []daemonEdit{daemonDriven}, []daemonEdit{daemonDriven, ofType(rolls)}, []daemonEdit{daemonDriven}},
		"nor by leaving out the strategy":   {healthy, []daemonEdit{daemonDriven}, []daemonEdit{daemonDriven, plainStrategy}, []daemonEdit{daemonDriven, plainStrategy, ofType(onDelete)}},
		"the owner wants it to roll":        {healthy, []daemonEdit{daemonDriven, hisOnDelete}, []daemonEdit{daemonDriven, hisOnDelete, ofType(rolls)}, []daemonEdit{daemonDriven}},
		"the owner lets more be missing":    {healthy, []daemonEdit{daemonDriven}, []daemonEdit{daemonDriven, ofType(rolls), allowing(4)}, []daemonEdit{daemonDriven, allowing(4)}},
		"a driven one is replaced by bare":  {healthy, []daemonEdit{daemonDriven}, []daemonEdit{withoutLabels}, []daemonEdit{daemonDriven}},
		"another template is not let go":    {healthy, []daemonEdit{daemonDriven}, []daemonEdit{ofType(rolls), daemonImage("v3")}, []daemonEdit{daemonDriven, daemonImage("v3")}},
		"the history limit is kept":         {healthy, []daemonEdit{daemonDriven}, []daemonEdit{daemonDriven, remembersLess}, []daemonEdit{daemonDriven, driving(`{"rollingStyle":"Partition","partition":"20%","revisionHistoryLimit":0}`)}},
		"pods count as soon as they did":    {healthy, []daemonEdit{daemonDriven, stable(5)}, []daemonEdit{daemonDriven, stable(100000)}, []daemonEdit{daemonDriven, stable(5)}},
		"a held one without a rollout":      {nil, []daemonEdit{daemonHeld}, []daemonEdit{daemonHeld, ofType(rolls)}, []daemonEdit{daemonHeld}},
		"the label stays with a rollout":    {healthy, nil, []daemonEdit{withoutLabels}, nil},
	}
	asked := asker(t)
	for path, admit := range admissionPaths(t) {
		for name, tt := range tests {
			t.Run(path+"/"+name, func(t *testing.T) {
				t.Parallel()
				got := admit.stored(t, tt.rollouts, "alice", daemonSet(tt.old...), daemonSet(tt.update...))
				if diff := cmp.Diff(daemonSet(tt.want...), got); diff != "" {
					t.Errorf("stored (-want +got):\n%s", diff)
				}
				if changed := !cmp.Equal(got, daemonSet(tt.update...)); changed && !asked(sent{as: "alice", old: daemonSet(tt.old...), update: daemonSet(tt.update...)}) {
					t.Error("the shipped configuration does not ask about this update")
				}
			})
		}
	}
}

// A new template that is written while the stable one is live starts a release.
func TestAdmitDaemonSetAborted(t *testing.T) {
	t.Parallel()
	aborted := driving(`{"rollingStyle":"Partition","partition":0,"abort":true,"aside":"v2"}`)
	got := admitted(t, &Handler{Rollouts: named{}, Controller: weir}, "alice",
		daemonSet(daemonDriven, aborted), daemonSet(daemonDriven, aborted, daemonImage("v3")))
	overtaken := driving(`{"rollingStyle":"Partition","partition":0,"abort":true}`)
	if diff := cmp.Diff(daemonSet(daemonDriven, overtaken, daemonImage("v3")), got); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}
