// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/workload"
)

type advancedEdit func(*workload.AdvancedDaemonSet)

// advancedDaemonSet returns an OpenKruise DaemonSet with the default strategy of OpenKruise.
func advancedDaemonSet(edits ...advancedEdit) *workload.AdvancedDaemonSet {
	n := daemonSet()
	d := &workload.AdvancedDaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps.kruise.io/v1alpha1", Kind: "DaemonSet"},
		ObjectMeta: n.ObjectMeta,
		Spec: workload.AdvancedDaemonSetSpec{
			RevisionHistoryLimit: n.Spec.RevisionHistoryLimit, Template: n.Spec.Template,
			UpdateStrategy: workload.AdvancedDaemonSetUpdateStrategy{
				Type:          appsv1.RollingUpdateDaemonSetStrategyType,
				RollingUpdate: &workload.RollingUpdateAdvancedDaemonSet{MaxUnavailable: n.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable},
			},
		},
		Status: workload.AdvancedDaemonSetStatus{DaemonSetStatus: n.Status},
	}
	for _, e := range edits {
		e(d)
	}
	return d
}

func advancedImage(v string) advancedEdit {
	return func(d *workload.AdvancedDaemonSet) { d.Spec.Template.Spec.Containers[0].Image = v }
}

func advancedUpTo(partition int32) advancedEdit {
	return func(d *workload.AdvancedDaemonSet) { d.Spec.UpdateStrategy.RollingUpdate.Partition = &partition }
}

func advancedPaused(p bool) advancedEdit {
	return func(d *workload.AdvancedDaemonSet) { d.Spec.UpdateStrategy.RollingUpdate.Paused = &p }
}

func advancedByHand(d *workload.AdvancedDaemonSet) {
	d.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
}

func advancedPlain(d *workload.AdvancedDaemonSet) {
	d.Spec.UpdateStrategy = workload.AdvancedDaemonSetUpdateStrategy{}
}

func advancedChoosy(d *workload.AdvancedDaemonSet) {
	d.Spec.UpdateStrategy.RollingUpdate.Selector = &metav1.LabelSelector{}
}

func advancedNowhere(d *workload.AdvancedDaemonSet) { d.Status.DesiredNumberScheduled = 0 }

func advancedForgetful(d *workload.AdvancedDaemonSet) { d.Spec.RevisionHistoryLimit = new(int32(0)) }

// advancedRolling sets a strategy that contains only Weir's values.
func advancedRolling(d *workload.AdvancedDaemonSet) {
	d.Spec.UpdateStrategy = workload.AdvancedDaemonSetUpdateStrategy{
		Type: appsv1.RollingUpdateDaemonSetStrategyType, RollingUpdate: &workload.RollingUpdateAdvancedDaemonSet{},
	}
}

func advancedHeld(d *workload.AdvancedDaemonSet) {
	advancedUpTo(32767)(d)
	advancedPaused(false)(d)
	d.Annotations = map[string]string{rollouts.AnnotationInProgress: `{"rolloutName":"web"}`}
}

func advancedDriven(d *workload.AdvancedDaemonSet) {
	advancedHeld(d)
	advancedUpTo(4)(d)
	d.Annotations[rollouts.AnnotationControlInfo] = `{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"BatchRelease","name":"web","uid":"u"}`
	advancedDriving(`{"rollingStyle":"Partition","partition":"20%","revisionHistoryLimit":2}`)(d)
	d.Labels[rollouts.LabelStableRevision] = "abc"
}

func advancedDriving(value string) advancedEdit {
	return func(d *workload.AdvancedDaemonSet) { d.Annotations[rollouts.AnnotationDeploymentStrategy] = value }
}

func advancedOwner(value string) advancedEdit {
	return func(d *workload.AdvancedDaemonSet) { d.Annotations[rollouts.AnnotationOriginalStrategy] = value }
}

func advancedBare(d *workload.AdvancedDaemonSet) { d.Labels, d.Annotations = nil, nil }

// These are the stored objects after updates of an OpenKruise DaemonSet.
func TestAdmitAdvancedDaemonSet(t *testing.T) {
	t.Parallel()
	healthy := named{liveRollout(func(r *rollouts.Rollout) {
		r.Spec.WorkloadRef.APIVersion, r.Spec.WorkloadRef.Kind = "apps.kruise.io/v1alpha1", "DaemonSet"
	})}
	type edits = []advancedEdit
	v2, v3 := advancedImage("v2"), advancedImage("v3")
	tests := map[string]struct {
		rollouts    named
		old, update edits
		want        edits
	}{
		"a new template is held":           {healthy, nil, edits{v2}, edits{v2, advancedHeld}},
		"the owner's partition is kept":    {healthy, edits{advancedUpTo(2)}, edits{advancedUpTo(2), v2}, edits{v2, advancedHeld, advancedOwner(`{"partition":2}`)}},
		"the owner's OnDelete is kept":     {healthy, edits{advancedByHand}, edits{advancedByHand, v2}, edits{v2, advancedHeld, advancedOwner(`{"type":"OnDelete"}`)}},
		"the owner's pause is kept":        {healthy, edits{advancedPaused(true)}, edits{advancedPaused(true), v2}, edits{v2, advancedHeld, advancedOwner(`{"paused":true}`)}},
		"one without a strategy is held":   {healthy, edits{advancedPlain}, edits{advancedPlain, v2}, edits{advancedRolling, v2, advancedHeld}},
		"one left paused has no partition": {healthy, edits{advancedUpTo(32767)}, edits{advancedUpTo(32767), v2}, edits{v2, advancedHeld}},
		"without nodes, says its status":   {healthy, edits{advancedNowhere}, edits{advancedNowhere, v2}, edits{v2, advancedHeld, advancedNowhere}},
		"an edit of the rest is not":       {healthy, nil, edits{advancedUpTo(1)}, edits{advancedUpTo(1)}},
		"no rollout":                       {nil, nil, edits{v2}, edits{v2}},
		"a driven one goes no further":     {healthy, edits{advancedDriven}, edits{advancedDriven, advancedUpTo(0)}, edits{advancedDriven}},
		"nor without a strategy":           {healthy, edits{advancedDriven}, edits{advancedDriven, advancedPlain}, edits{advancedDriven, advancedRolling, advancedUpTo(4), advancedPaused(false)}},
		"the owner's new partition":        {healthy, edits{advancedDriven}, edits{advancedDriven, advancedUpTo(1)}, edits{advancedDriven, advancedOwner(`{"partition":1}`)}},
		"the owner's new pause":            {healthy, edits{advancedDriven}, edits{advancedDriven, advancedPaused(true)}, edits{advancedDriven, advancedOwner(`{"paused":true}`)}},
		"the owner's new OnDelete":         {healthy, edits{advancedDriven}, edits{advancedDriven, advancedByHand}, edits{advancedDriven, advancedOwner(`{"type":"OnDelete"}`)}},
		"a driven one is replaced by bare": {healthy, edits{advancedDriven}, edits{advancedDriven, advancedBare}, edits{advancedDriven}},
		"another template stops it":        {healthy, edits{advancedDriven}, edits{advancedDriven, v3}, edits{advancedDriven, v3, advancedUpTo(32767)}},
		"with the strategy as once read":   {healthy, edits{advancedDriven}, edits{advancedDriven, v3, advancedUpTo(5)}, edits{advancedDriven, v3, advancedUpTo(32767)}},
		"or with none of the owner's":      {healthy, edits{advancedDriven, advancedOwner(`{"partition":2}`)}, edits{advancedDriven, v3, advancedUpTo(0)}, edits{advancedDriven, v3, advancedUpTo(32767)}},
		"the history limit is kept":        {healthy, edits{advancedDriven}, edits{advancedDriven, advancedForgetful}, edits{advancedDriven, advancedDriving(`{"rollingStyle":"Partition","partition":"20%","revisionHistoryLimit":0}`)}},
		"a held one without a rollout":     {nil, edits{advancedHeld}, edits{advancedHeld, advancedUpTo(0)}, edits{advancedHeld}},
		"the label stays with a rollout":   {healthy, nil, edits{advancedBare}, nil},
	}
	asked := asker(t)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old, update := advancedDaemonSet(tt.old...), advancedDaemonSet(tt.update...)
			got := admitted(t, &Handler{Rollouts: tt.rollouts, Controller: weir}, "alice", old, update)
			if diff := cmp.Diff(advancedDaemonSet(tt.want...), got); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
			if changed := !cmp.Equal(got, update); changed && !asked(sent{as: "alice", old: old, update: update}) {
				t.Error("the shipped configuration does not ask about this update")
			}
		})
	}
}
