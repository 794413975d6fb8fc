// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/internal/golden"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

func truePointer() *bool { v := true; return &v }

func owner() metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: "rollouts.kruise.io/v1beta1", Kind: "BatchRelease", Name: "web", UID: "b-1",
		Controller: truePointer(), BlockOwnerDeletion: truePointer(),
	}
}

func TestFindRevisions(t *testing.T) {
	type found struct {
		Label, Key string
		OK         bool
	}
	deploy := found{"deployment", "pod-template-hash", true}
	for name, tc := range map[string]struct {
		apiVersion, kind string
		style            rollouts.Style
		want             found
	}{
		"deployment":    {"apps/v1", "Deployment", rollouts.StylePartition, deploy},
		"other version": {"apps/v1beta1", "Deployment", rollouts.StylePartition, deploy},
		"other group":   {"extensions/v1", "Deployment", rollouts.StylePartition, found{}},
		"other kind":    {"apps/v1", "ReplicaSet", rollouts.StylePartition, found{}},
		"statefulset":   {"apps/v1", "StatefulSet", rollouts.StylePartition, found{"statefulset", "controller-revision-hash", true}},
		"Kruise's":      {"apps.kruise.io/v1alpha1", "StatefulSet", rollouts.StylePartition, found{"statefulset", "controller-revision-hash", true}},
		"any group's":   {"apps.example.com/v1", "StatefulSet", rollouts.StylePartition, found{"statefulset", "controller-revision-hash", true}},
		"but no style":  {"apps.example.com/v1", "StatefulSet", rollouts.StyleBlueGreen, found{}},
		"of no group":   {"v1", "StatefulSet", rollouts.StylePartition, found{}},
		"no blue-green": {"apps/v1", "StatefulSet", rollouts.StyleBlueGreen, found{}},
		"other style":   {"apps/v1", "Deployment", rollouts.Style("Recreate"), found{}},
		"canary":        {"apps/v1", "Deployment", rollouts.StyleCanary, deploy},
		"blue-green":    {"apps/v1", "Deployment", rollouts.StyleBlueGreen, deploy},
		"malformed":     {"a/b/c", "Deployment", rollouts.StylePartition, found{}},
	} {
		t.Run(name, func(t *testing.T) {
			r, ok := Find(tc.apiVersion, tc.kind, tc.style)
			if diff := cmp.Diff(tc.want, found{r.TypeLabel(), r.RevisionKey, ok}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestChanges has one golden file for each case. An edit says what differs from the state of the
// input file. A second pass must have no changes.
func TestChanges(t *testing.T) {
	a := deployment{}
	drive := func(to planner.Target) func(*appsv1.Deployment, []object.Object) []object.Change {
		return func(d *appsv1.Deployment, owned []object.Object) []object.Change {
			return a.SetTarget(d, owned, HoldFromRecords(d), planner.SetTarget{Target: to}, owner())
		}
	}
	restore := func(keepPaused bool) func(*appsv1.Deployment, []object.Object) []object.Change {
		return func(d *appsv1.Deployment, owned []object.Object) []object.Change {
			return a.Restore(d, owned, HoldFromRecords(d), planner.RestoreWorkload{KeepPaused: keepPaused})
		}
	}
	label := func(d *appsv1.Deployment, _ []object.Object) []object.Change {
		return rowOf(t, deploymentKind).AddTypeLabel(d, HoldFromRecords(d))
	}
	unlabel := func(d *appsv1.Deployment, _ []object.Object) []object.Change {
		return rowOf(t, deploymentKind).RemoveTypeLabel(d, HoldFromRecords(d))
	}
	third := planner.Target{Partition: intstr.FromString("30%"), Owner: "b-1", Revision: planner.Revision{Name: "any"}}
	for name, tc := range map[string]struct {
		in   string
		edit func(t *testing.T, d *appsv1.Deployment, owned []object.Object)
		op   func(*appsv1.Deployment, []object.Object) []object.Change
	}{
		"label":       {in: "native", op: label, edit: func(_ *testing.T, d *appsv1.Deployment, _ []object.Object) { d.Labels = nil }},
		"label-again": {in: "native", op: label},
		"unlabel":     {in: "native", op: unlabel},
		"drive-first": {in: "held", op: drive(planner.Target{Partition: intstr.FromInt32(0), Owner: "b-1", Revision: planner.Revision{Name: "r2"}})},
		"drive-same": {in: "driven", op: drive(third), edit: func(_ *testing.T, d *appsv1.Deployment, _ []object.Object) {
			d.Annotations[rollouts.AnnotationDeploymentExtraStatus] = `{"updatedReadyReplicas":2,"expectedUpdatedReplicas":3}`
		}},
		"drive-on":   {in: "driven", op: drive(planner.Target{Partition: intstr.FromString("60%"), Owner: "b-1", Revision: planner.Revision{Name: "any"}})},
		"drive-back": {in: "driven", op: drive(planner.Target{Partition: intstr.FromString("30%"), Abort: true, Owner: "b-1", Revision: planner.Revision{Name: "any"}})},
		"drive-defaults": {in: "held", op: drive(third), edit: func(_ *testing.T, d *appsv1.Deployment, _ []object.Object) {
			d.Spec.Strategy = appsv1.DeploymentStrategy{}
		}},
		"drive-recreate": {in: "held", op: drive(third), edit: func(_ *testing.T, d *appsv1.Deployment, _ []object.Object) {
			d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
		}},
		// Something put other values in force: they are repaired, and what was
		// saved first stays saved.
		"drive-repair": {in: "driven", op: drive(third), edit: func(_ *testing.T, d *appsv1.Deployment, _ []object.Object) {
			d.Spec.Paused = false
			d.Labels = nil
			delete(d.Annotations, rollouts.AnnotationControlInfo)
		}},
		// An older controller froze sizes and noted no revision.
		"drive-unfreeze": {in: "driven", op: drive(third), edit: func(_ *testing.T, d *appsv1.Deployment, _ []object.Object) {
			d.Annotations[rollouts.AnnotationDeploymentStrategy] =
				`{"rollingStyle":"Partition","rollingUpdate":{"maxUnavailable":0,"maxSurge":1},"paused":true,"partition":1}`
		}},
		"rest": {in: "aborted", op: func(d *appsv1.Deployment, owned []object.Object) []object.Change {
			return a.RestoreStrategy(d, owned, HoldFromRecords(d))
		}},
		"rest-early": {
			in: "aborted", op: func(d *appsv1.Deployment, owned []object.Object) []object.Change {
				return a.RestoreStrategy(d, owned, HoldFromRecords(d))
			},
			edit: func(t *testing.T, _ *appsv1.Deployment, owned []object.Object) {
				*findSet(t, owned, "web-two").Spec.Replicas = 1
			},
		},
		"restore-driven": {in: "driven", op: restore(false)},
		"restore-paused": {in: "aborted", op: restore(true)},
		// A note on a set without pods misleads nobody.
		"restore-idle": {in: "driven", op: restore(false), edit: func(t *testing.T, d *appsv1.Deployment, owned []object.Object) {
			setReplicas("web-one", 0)(t, d, owned)
		}},
		"restore-held":    {in: "held", op: restore(false)},
		"restore-copies":  {in: "copied", op: restore(false)},
		"restore-nothing": {in: "native", op: restore(false)},
		"restore-unsettled": {in: "copied", op: restore(false), edit: func(_ *testing.T, d *appsv1.Deployment, _ []object.Object) {
			d.Generation++
		}},
		// The owner paused it, and only a leftover label is ours.
		"restore-leftover": {in: "native", op: restore(false), edit: func(_ *testing.T, d *appsv1.Deployment, _ []object.Object) {
			d.Spec.Paused = true
			d.Labels[rollouts.LabelStableRevision] = "one"
		}},
		"restore-lost": {in: "driven", op: restore(false), edit: func(_ *testing.T, d *appsv1.Deployment, _ []object.Object) {
			d.Annotations[rollouts.AnnotationDeploymentStrategy] = "lost"
		}},
		// The owner's own Recreate, and a history limit changed meanwhile.
		"restore-owners": {in: "driven", op: restore(false), edit: func(_ *testing.T, d *appsv1.Deployment, _ []object.Object) {
			d.Annotations[rollouts.AnnotationDeploymentStrategy] = `{"rollingStyle":"Partition","partition":3,"revisionHistoryLimit":0}`
			*d.Spec.RevisionHistoryLimit = 7
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d, owned := readState(t, tc.in)
			if tc.edit != nil {
				tc.edit(t, d, owned)
			}
			before := golden.Text(t, d)
			changes := tc.op(d, owned)
			golden.Changes(t, name, changes)
			if diff := cmp.Diff(before, golden.Text(t, d)); diff != "" {
				t.Errorf("the input was changed (-before +after):\n%s", diff)
			}
			d, owned = applyChanges(d, owned, changes)
			d.Generation, d.Status.ObservedGeneration = d.Generation+1, d.Generation
			if again := tc.op(d, owned); len(again) != 0 {
				t.Errorf("not done after one pass, still wants:\n%s", golden.Diff(golden.Text(t, again[0].Base), golden.Text(t, again[0].Want)))
			}
		})
	}
}

// TestRestoreConverges restores step by step: first stale size annotations and the Deployment, then,
// once the native controller has observed this, the copies on ReplicaSets. Weir's keys count until
// the end.
func TestRestoreConverges(t *testing.T) {
	a := deployment{}
	d, owned := readState(t, "driven")
	type pass struct {
		Mine    bool
		Changes []string
	}
	var got []pass
	for range 4 {
		p := pass{Mine: a.Observe(d, owned, HoldFromRecords(d)).HasManagedFields}
		changes := a.Restore(d, owned, HoldFromRecords(d), planner.RestoreWorkload{})
		for _, c := range changes {
			p.Changes = append(p.Changes, golden.Title(c.Base))
		}
		got = append(got, p)
		d, owned = applyChanges(d, owned, changes)
		switch len(got) {
		case 1:
			d.Generation++
		case 2:
			d.Status.ObservedGeneration = d.Generation
		}
	}
	want := []pass{
		{true, []string{"ReplicaSet web-one", "Deployment web"}},
		{true, nil},
		{true, []string{"ReplicaSet web-two"}},
		{false, nil},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestOwnerSettingsAreRestored releases with all kinds of owner's settings, and restores them.
func TestOwnerSettingsAreRestored(t *testing.T) {
	a := deployment{}
	n := intstr.FromInt32(3)
	for name, edit := range map[string]func(*appsv1.DeploymentSpec){
		"rolling":       func(*appsv1.DeploymentSpec) {},
		"no history":    func(s *appsv1.DeploymentSpec) { *s.RevisionHistoryLimit = 0 },
		"history one":   func(s *appsv1.DeploymentSpec) { *s.RevisionHistoryLimit = 1 },
		"history three": func(s *appsv1.DeploymentSpec) { *s.RevisionHistoryLimit = 3 },
		"history two":   func(s *appsv1.DeploymentSpec) { *s.RevisionHistoryLimit = 2 },
		"numbers":       func(s *appsv1.DeploymentSpec) { s.Strategy.RollingUpdate.MaxUnavailable = &n },
		"recreate": func(s *appsv1.DeploymentSpec) {
			s.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
		},
	} {
		t.Run(name, func(t *testing.T) {
			original, owned := readState(t, "native")
			edit(&original.Spec)
			d := original.DeepCopy()
			a.Hold(d, "web", hasHoldMark(d))
			if back, _ := applyChanges(d.DeepCopy(), owned, a.Restore(d, owned, HoldFromRecords(d), planner.RestoreWorkload{})); !cmp.Equal(original, back) {
				t.Errorf("held and restored (-original +restored):\n%s", cmp.Diff(original, back))
			}
			if n := *d.Spec.RevisionHistoryLimit; n == 0 {
				t.Error("scaled to 0, a held Deployment loses its stable set")
			}
			for i, to := range []planner.Target{
				{Partition: intstr.FromInt32(1)}, {Partition: intstr.FromInt32(5), Abort: true}, {Partition: intstr.FromInt32(1)},
			} {
				d, owned = applyChanges(d, owned, a.SetTarget(d, owned, HoldFromRecords(d), planner.SetTarget{Target: to}, owner()))
				if i == 1 {
					d, owned = applyChanges(d, owned, a.RestoreStrategy(d, owned, HoldFromRecords(d)))
				}
			}
			d, _ = applyChanges(d, owned, a.Restore(d, owned, HoldFromRecords(d), planner.RestoreWorkload{}))
			if diff := cmp.Diff(original, d); diff != "" {
				t.Errorf("(-original +restored):\n%s", diff)
			}
		})
	}
}
