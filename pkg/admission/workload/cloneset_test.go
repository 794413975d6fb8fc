// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/workload"
)

type cloneEdit func(*workload.CloneSet)

// cloneSet returns a labelled CloneSet with its owner's update strategy.
func cloneSet(edits ...cloneEdit) *workload.CloneSet {
	c := &workload.CloneSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps.kruise.io/v1alpha1", Kind: "CloneSet"},
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns", Labels: map[string]string{rollouts.LabelWorkloadType: "cloneset"}},
		Spec: workload.CloneSetSpec{
			Template:       corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "v1"}}}},
			UpdateStrategy: workload.CloneSetUpdateStrategy{Type: "InPlaceIfPossible", Partition: new(intstr.FromInt32(0))},
		},
	}
	for _, e := range edits {
		e(c)
	}
	return c
}

func cloneImage(v string) cloneEdit {
	return func(c *workload.CloneSet) { c.Spec.Template.Spec.Containers[0].Image = v }
}

func cloneUpTo(partition string) cloneEdit {
	return func(c *workload.CloneSet) { c.Spec.UpdateStrategy.Partition = new(intstr.Parse(partition)) }
}

func clonePaused(c *workload.CloneSet) { c.Spec.UpdateStrategy.Paused = true }

func cloneSized(n int32) cloneEdit { return func(c *workload.CloneSet) { c.Spec.Replicas = &n } }

func cloneBare(c *workload.CloneSet) { c.Labels, c.Annotations = nil, nil }

func cloneForgetful(c *workload.CloneSet) { c.Spec.RevisionHistoryLimit = new(int32(0)) }

func cloneNamed(c *workload.CloneSet) { c.Labels[rollouts.LabelRolloutID] = "again" }

func cloneMarked(c *workload.CloneSet) {
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, rollouts.AnnotationInProgress, "true")
}

func cloneHeld(c *workload.CloneSet) {
	cloneUpTo("100%")(c)
	c.Annotations = map[string]string{rollouts.AnnotationInProgress: `{"rolloutName":"web"}`}
}

func cloneDriven(c *workload.CloneSet) {
	cloneHeld(c)
	cloneUpTo("80%")(c)
	c.Spec.RevisionHistoryLimit = new(int32(10))
	c.Annotations[rollouts.AnnotationDeploymentStrategy] = `{"rollingStyle":"Partition","partition":"20%","revisionHistoryLimit":2}`
	c.Annotations[rollouts.AnnotationControlInfo] = `{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"BatchRelease","name":"web","uid":"u"}`
	c.Labels[rollouts.LabelStableRevision] = "abc"
}

func cloneRemembered(c *workload.CloneSet) {
	c.Annotations[rollouts.AnnotationDeploymentStrategy] = `{"rollingStyle":"Partition","partition":"20%","revisionHistoryLimit":0}`
}

func cloneOwner(value string) cloneEdit {
	return func(c *workload.CloneSet) { c.Annotations[rollouts.AnnotationOriginalStrategy] = value }
}

const cloneYears = 2147483646

func cloneMoves(surge, unavailable string, seconds int32) cloneEdit {
	return func(c *workload.CloneSet) {
		c.Spec.MinReadySeconds = seconds
		c.Spec.UpdateStrategy.MaxSurge, c.Spec.UpdateStrategy.MaxUnavailable = new(intstr.Parse(surge)), new(intstr.Parse(unavailable))
	}
}

func cloneNames(pods ...string) cloneEdit {
	return func(c *workload.CloneSet) { c.Spec.ScaleStrategy.PodsToDelete = pods }
}

// cloneBeside sets the fields of a CloneSet during a blue-green release.
func cloneBeside(c *workload.CloneSet) {
	cloneDriven(c)
	cloneUpTo("0")(c)
	cloneMoves("50%", "0", cloneYears)(c)
	cloneNames("web-1")(c)
	cloneOwner(`{"maxUnavailable":0,"maxSurge":1,"minReadySeconds":5}`)(c)
}

// These are the stored objects after updates of a CloneSet with a blue-green release.
func TestAdmitCloneSetBlueGreen(t *testing.T) {
	t.Parallel()
	healthy := named{liveRollout(func(r *rollouts.Rollout) {
		r.Spec.WorkloadRef.APIVersion, r.Spec.WorkloadRef.Kind = "apps.kruise.io/v1alpha1", "CloneSet"
		r.Spec.Strategy = rollouts.Strategy{BlueGreen: &rollouts.Release{}}
	})}
	for name, tt := range map[string]struct{ update, want []cloneEdit }{
		"another template goes nowhere": {[]cloneEdit{cloneImage("v3")}, []cloneEdit{cloneImage("v3"), cloneUpTo("100%"), cloneNames()}},
		"the owner applies all of it":   {[]cloneEdit{cloneMoves("1", "0", 5), cloneUpTo("0"), cloneBare}, nil},
		"the owner wants it otherwise":  {[]cloneEdit{cloneMoves("2", "10%", 7)}, []cloneEdit{cloneOwner(`{"maxUnavailable":"10%","maxSurge":2,"minReadySeconds":7}`)}},
		"the owner's pause is kept":     {[]cloneEdit{clonePaused}, []cloneEdit{cloneOwner(`{"paused":true,"maxUnavailable":0,"maxSurge":1,"minReadySeconds":5}`)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old, update := cloneSet(cloneBeside), cloneSet(append([]cloneEdit{cloneBeside}, tt.update...)...)
			got := admitted(t, &Handler{Rollouts: healthy, Controller: weir}, "alice", old, update)
			if diff := cmp.Diff(cloneSet(append([]cloneEdit{cloneBeside}, tt.want...)...), got); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
			if !asker(t)(sent{as: "alice", old: old, update: update}) {
				t.Error("the shipped configuration does not ask about this update")
			}
		})
	}
}

// These are the stored objects after updates of a CloneSet.
func TestAdmitCloneSet(t *testing.T) {
	t.Parallel()
	healthy := named{liveRollout(func(r *rollouts.Rollout) {
		r.Spec.WorkloadRef.APIVersion, r.Spec.WorkloadRef.Kind = "apps.kruise.io/v1alpha1", "CloneSet"
	})}
	tests := map[string]struct {
		rollouts    named
		old, update []cloneEdit
		want        []cloneEdit
	}{
		"a new template is held":           {healthy, nil, []cloneEdit{cloneImage("v2")}, []cloneEdit{cloneImage("v2"), cloneHeld}},
		"a name alone, and a mark":         {healthy, nil, []cloneEdit{cloneNamed, cloneMarked}, []cloneEdit{cloneNamed, cloneHeld}},
		"the owner's partition is kept":    {healthy, []cloneEdit{cloneUpTo("30%")}, []cloneEdit{cloneUpTo("30%"), cloneImage("v2")}, []cloneEdit{cloneImage("v2"), cloneHeld, cloneOwner(`{"partition":"30%"}`)}},
		"a partition that is no number":    {healthy, []cloneEdit{cloneUpTo("abc")}, []cloneEdit{cloneUpTo("abc"), cloneImage("v2")}, []cloneEdit{cloneImage("v2"), cloneHeld}},
		"one left paused has no partition": {healthy, []cloneEdit{cloneUpTo("100%")}, []cloneEdit{cloneUpTo("100%"), cloneImage("v2")}, []cloneEdit{cloneImage("v2"), cloneHeld}},
		"without pods nothing is held":     {healthy, []cloneEdit{cloneSized(0)}, []cloneEdit{cloneSized(0), cloneImage("v2")}, []cloneEdit{cloneSized(0), cloneImage("v2")}},
		"an edit of the rest is not":       {healthy, nil, []cloneEdit{cloneSized(7)}, []cloneEdit{cloneSized(7)}},
		"no rollout":                       {nil, nil, []cloneEdit{cloneImage("v2")}, []cloneEdit{cloneImage("v2")}},
		"a driven one goes no further":     {healthy, []cloneEdit{cloneDriven}, []cloneEdit{cloneDriven, cloneUpTo("0")}, []cloneEdit{cloneDriven}},
		"the owner's new partition":        {healthy, []cloneEdit{cloneDriven}, []cloneEdit{cloneDriven, cloneUpTo("1")}, []cloneEdit{cloneDriven, cloneOwner(`{"partition":1}`)}},
		"the owner's pause is kept":        {healthy, []cloneEdit{cloneDriven}, []cloneEdit{cloneDriven, clonePaused}, []cloneEdit{cloneDriven, cloneOwner(`{"paused":true}`)}},
		"a driven one is replaced by bare": {healthy, []cloneEdit{cloneDriven}, []cloneEdit{cloneDriven, cloneBare}, []cloneEdit{cloneDriven}},
		"another template stops it":        {healthy, []cloneEdit{cloneDriven}, []cloneEdit{cloneDriven, cloneImage("v3")}, []cloneEdit{cloneDriven, cloneImage("v3"), cloneUpTo("100%")}},
		"the history limit is kept":        {healthy, []cloneEdit{cloneDriven}, []cloneEdit{cloneDriven, cloneForgetful}, []cloneEdit{cloneDriven, cloneRemembered}},
		"a held one without a rollout":     {nil, []cloneEdit{cloneHeld}, []cloneEdit{cloneHeld, cloneUpTo("0")}, []cloneEdit{cloneHeld}},
		"the label stays with a rollout":   {healthy, nil, []cloneEdit{cloneBare}, nil},
	}
	asked := asker(t)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old, update := cloneSet(tt.old...), cloneSet(tt.update...)
			got := admitted(t, &Handler{Rollouts: tt.rollouts, Controller: weir}, "alice", old, update)
			if diff := cmp.Diff(cloneSet(tt.want...), got); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
			if changed := !cmp.Equal(got, update); changed && !asked(sent{as: "alice", old: old, update: update}) {
				t.Error("the shipped configuration does not ask about this update")
			}
		})
	}
}
