// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// The hashes that the native controller of Kubernetes 1.37 gives the templates
// web:v1 and web:v2 of testdata, and web:v3.
const hashV1, hashV2, hashV3 = "59cd647957", "58597d7d56", "79ddbdf7bc"

func TestTemplateHash(t *testing.T) {
	var got []string
	for _, in := range []string{"native", "held"} {
		d, _ := readState(t, in)
		plain := TemplateHash(&d.Spec.Template)
		d.Spec.Template.Labels[hashLabel] = "any"
		got = append(got, plain, TemplateHash(&d.Spec.Template), hashWithCollisions(&d.Spec.Template, 1))
	}
	want := []string{hashV1, hashV1, "fdb8b46d4", hashV2, hashV2, "5bf8567bd9"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

type edit func(t *testing.T, d *appsv1.Deployment, owned []object.Object)

func setReplicas(name string, n int32) edit {
	return func(t *testing.T, _ *appsv1.Deployment, owned []object.Object) {
		*findSet(t, owned, name).Spec.Replicas = n
	}
}

func allEdits(all ...edit) edit {
	return func(t *testing.T, d *appsv1.Deployment, owned []object.Object) {
		for _, e := range all {
			e(t, d, owned)
		}
	}
}

func setImage(name string) edit {
	return func(_ *testing.T, d *appsv1.Deployment, _ []object.Object) {
		d.Spec.Template.Spec.Containers[0].Image = name
	}
}

// setOtherOwner gives a ReplicaSet another owner.
func setOtherOwner(name string) edit {
	return func(t *testing.T, _ *appsv1.Deployment, owned []object.Object) {
		findSet(t, owned, name).OwnerReferences[0].UID = "d-other"
	}
}

func TestObserve(t *testing.T) {
	type base struct {
		in   string
		want planner.Workload
	}
	native := base{"native", planner.Workload{
		Generation: 4, Settled: true, Labelled: true, Replicas: 10, MaxUnavailable: 1,
		HoldFacts:     planner.HoldFacts{OwnerStrategyActive: true},
		RevisionFacts: planner.RevisionFacts{HasStableTemplate: true, StableRevision: "one", UpdateRevision: hashV1, PodTemplateHash: "one"},
		PodFacts:      planner.PodFacts{UpdatedReplicas: 10, UpdatedReadyReplicas: 10, StableReadyReplicas: 10},
	}}
	held := base{"held", planner.Workload{
		Generation: 5, Labelled: true, Paused: true, Replicas: 10, MaxUnavailable: 1,
		HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true, OwnerStrategyActive: true},
		RevisionFacts: planner.RevisionFacts{StableRevision: "one", UpdateRevision: hashV2},
		PodFacts:      planner.PodFacts{StableReplicas: 10, StableReadyReplicas: 10},
	}}
	driven := base{"driven", planner.Workload{
		Generation: 4, Settled: true, Labelled: true, Paused: true, Replicas: 10, MaxUnavailable: 1,
		HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true, Target: &planner.Target{Partition: intstr.FromString("30%"), Owner: "b-1", Revision: planner.Revision{Name: "any"}}, TargetApplied: true, ExtraStatusStale: true},
		RevisionFacts: planner.RevisionFacts{StableRevision: "one", UpdateRevision: hashV2, PodTemplateHash: "two"},
		PodFacts:      planner.PodFacts{UpdatedReplicas: 3, UpdatedReadyReplicas: 2, StableReplicas: 7, StableReadyReplicas: 7},
	}}
	for name, tc := range map[string]struct {
		base
		edit edit
		// but says what differs from the base's facts.
		but func(*planner.Workload)
	}{
		"native": {base: native},
		"held":   {base: held},
		"driven": {base: driven},
		"ids: the label wins": {native, func(_ *testing.T, d *appsv1.Deployment, _ []object.Object) {
			d.Labels[rollouts.LabelRolloutID] = "l"
			d.Annotations = map[string]string{rollouts.LabelRolloutID: "a"}
		}, func(w *planner.Workload) { w.RolloutID = "l" }},
		"ids: the annotation counts": {native, func(_ *testing.T, d *appsv1.Deployment, _ []object.Object) {
			d.Annotations = map[string]string{rollouts.LabelRolloutID: "a"}
		}, func(w *planner.Workload) { w.RolloutID = "a" }},
		"another label hides it from admission": {native, func(_ *testing.T, d *appsv1.Deployment, _ []object.Object) {
			d.Labels[rollouts.LabelWorkloadType] = "other"
		}, func(w *planner.Workload) { w.Labelled = false }},
		"names and hashes decide nothing": {native, func(t *testing.T, _ *appsv1.Deployment, owned []object.Object) {
			rs := findSet(t, owned, "web-one")
			rs.Name, rs.Labels[hashLabel], rs.Spec.Template.Labels[hashLabel] = "x", "y", "z"
		}, func(*planner.Workload) {}},
		"a stranger's set does not count": {driven, setOtherOwner("web-two"), func(w *planner.Workload) {
			w.PodTemplateHash, w.UpdatedReplicas, w.UpdatedReadyReplicas = "", 0, 0
		}},
		"a set whose controller has not seen yet that it is to be empty may bring pods": {driven, allEdits(setReplicas("web-two", 0), func(t *testing.T, _ *appsv1.Deployment, owned []object.Object) {
			rs := findSet(t, owned, "web-two")
			rs.Generation, rs.Status.ObservedGeneration = 2, 1
			rs.Status.Replicas, rs.Status.ReadyReplicas = 0, 0
		}), func(w *planner.Workload) {
			w.Settled, w.UpdatedReplicas, w.UpdatedReadyReplicas = false, 0, 0
		}},
		"a set that is going does not count": {driven, func(t *testing.T, _ *appsv1.Deployment, owned []object.Object) {
			findSet(t, owned, "web-two").DeletionTimestamp = &metav1.Time{}
		}, func(w *planner.Workload) {
			w.PodTemplateHash, w.UpdatedReplicas, w.UpdatedReadyReplicas = "", 0, 0
			w.AdoptableSet = "replicaset web-two is being deleted; its pods run on until it is gone"
		}},
		"of three versions the lowest is stable": {native, allEdits(setImage("web:v3"), setReplicas("web-zero", 1), func(t *testing.T, _ *appsv1.Deployment, owned []object.Object) {
			// It came back by a rollback, so it is the oldest set but not the lowest.
			findSet(t, owned, "web-zero").Annotations[annotationRevision] = "3"
		}), func(w *planner.Workload) {
			w.HasStableTemplate, w.NativeUpdateRunning, w.UpdateRevision, w.PodTemplateHash = false, true, hashV3, ""
			w.UpdatedReplicas, w.UpdatedReadyReplicas, w.StableReplicas, w.SupersededReplicas = 0, 0, 11, 1
			w.NewestReadyRevision = "one"
		}},
		"of equal sets the oldest counts": {native, func(t *testing.T, d *appsv1.Deployment, owned []object.Object) {
			findSet(t, owned, "web-zero").Spec.Template = d.Spec.Template
		}, func(w *planner.Workload) {
			w.PodTemplateHash, w.UpdatedReplicas, w.UpdatedReadyReplicas = "zero", 0, 0
			w.StableReplicas, w.NativeUpdateRunning = 10, true
		}},
		"native update without its set": {native, setImage("web:v2"), func(w *planner.Workload) {
			w.HasStableTemplate, w.NativeUpdateRunning, w.UpdateRevision, w.PodTemplateHash = false, true, hashV2, ""
			w.UpdatedReplicas, w.UpdatedReadyReplicas, w.StableReplicas = 0, 0, 10
		}},
		"native update half way": {native, setReplicas("web-zero", 1), func(w *planner.Workload) {
			w.HasStableTemplate, w.NativeUpdateRunning, w.StableRevision, w.StableReplicas, w.StableReadyReplicas = false, true, "zero", 1, 0
		}},
		"native update not seen yet": {native, func(_ *testing.T, d *appsv1.Deployment, _ []object.Object) { d.Generation++ },
			func(w *planner.Workload) { w.Generation, w.Settled, w.NativeUpdateRunning = 5, false, true }},
		"old pods are going": {native, func(_ *testing.T, d *appsv1.Deployment, _ []object.Object) { d.Status.Replicas = 11 },
			func(w *planner.Workload) { w.NativeUpdateRunning = true }},
		"scaling is no release": {native, func(_ *testing.T, d *appsv1.Deployment, _ []object.Object) { *d.Spec.Replicas = 20 },
			func(w *planner.Workload) { w.Replicas, w.MaxUnavailable = 20, 2 }},
		"size zero": {native, allEdits(setReplicas("web-one", 0), func(t *testing.T, d *appsv1.Deployment, owned []object.Object) {
			*d.Spec.Replicas = 0
			d.Status.Replicas, d.Status.UpdatedReplicas = 0, 0
			findSet(t, owned, "web-one").Status = appsv1.ReplicaSetStatus{}
		}), func(w *planner.Workload) {
			w.Replicas, w.UpdatedReplicas, w.UpdatedReadyReplicas, w.StableReadyReplicas, w.MaxUnavailable = 0, 0, 0, 0, 0
		}},
		"held without a change": {held, setImage("web:v1"), func(w *planner.Workload) {
			w.HasStableTemplate, w.UpdateRevision, w.PodTemplateHash = true, hashV1, "one"
			w.UpdatedReplicas, w.UpdatedReadyReplicas, w.StableReplicas = 10, 10, 0
		}},
		"held, then sized to zero": {held, setReplicas("web-one", 0), func(w *planner.Workload) { w.StableReplicas = 0 }},
		"a label that nothing of ours explains": {native, func(_ *testing.T, d *appsv1.Deployment, _ []object.Object) {
			d.Labels[rollouts.LabelStableRevision] = "zero"
		}, func(w *planner.Workload) { w.HasManagedFields = true }},
		"the stable set is gone": {driven, setOtherOwner("web-one"), func(w *planner.Workload) {
			w.StableReplicas, w.StableReadyReplicas, w.StableRevisionGone = 0, 0, true
		}},
		"the template went back": {driven, setImage("web:v1"), func(w *planner.Workload) {
			w.HasStableTemplate, w.UpdateRevision, w.PodTemplateHash = true, hashV1, "one"
			w.UpdatedReplicas, w.UpdatedReadyReplicas, w.StableReplicas, w.SupersededReplicas = 7, 7, 3, 3
		}},
		"at all pods, stable is known by its label": {driven, allEdits(setReplicas("web-one", 0), setReplicas("web-two", 10)),
			func(w *planner.Workload) { w.StableReplicas = 0 }},
		"driven by a name that leads nowhere": {driven, func(_ *testing.T, d *appsv1.Deployment, _ []object.Object) {
			d.Annotations[rollouts.AnnotationControlInfo] = "someone"
		}, func(w *planner.Workload) { w.Target.Owner = "" }},
		"aborted": {base{"aborted", driven.want}, nil, func(w *planner.Workload) {
			w.UpdatedReplicas, w.UpdatedReadyReplicas, w.StableReplicas, w.StableReadyReplicas = 0, 0, 10, 10
			w.Target.Abort, w.Target.Revision, w.ExtraStatusStale = true, planner.Revision{}, false
		}},
		"pods that go after all has come to rest ask for nothing": {base{"aborted", driven.want}, func(t *testing.T, d *appsv1.Deployment, owned []object.Object) {
			d.Spec.Strategy.Type = appsv1.RollingUpdateDeploymentStrategyType
			findSet(t, owned, "web-two").Status.Replicas = 2
		}, func(w *planner.Workload) {
			w.UpdatedReplicas, w.UpdatedReadyReplicas, w.StableReplicas, w.StableReadyReplicas = 2, 0, 10, 10
			w.Target.Abort, w.Target.Revision, w.ExtraStatusStale, w.OwnerStrategyActive = true, planner.Revision{}, false, true
		}},
		"copies are still ours": {base{"copied", native.want}, nil, func(w *planner.Workload) {
			w.HasManagedFields, w.StableRevision, w.UpdateRevision, w.PodTemplateHash = true, "two", hashV2, "two"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d, owned := readState(t, tc.in)
			if tc.edit != nil {
				tc.edit(t, d, owned)
			}
			want := tc.want
			if want.Target != nil {
				drive := *want.Target
				want.Target = &drive
			}
			if tc.but != nil {
				tc.but(&want)
			}
			// It has no pods but its own.
			want.LiveRevision, want.LiveReadyReplicas, want.RevisionKind = want.PodTemplateHash, want.UpdatedReadyReplicas, "ReplicaSet"
			want.UpdateTemplate = Digest(&d.Spec.Template)
			for _, rs := range findRevisions(d, owned, HoldFromRecords(d)).all {
				want.Revisions = append(want.Revisions, hashOf(rs))
			}
			if rolled := findRevisions(d, owned, HoldFromRecords(d)).byHash(want.NewestReadyRevision); rolled != nil {
				want.NewestReadyTemplate = Digest(&rolled.Spec.Template)
			}
			if stable := findRevisions(d, owned, HoldFromRecords(d)).byHash(want.StableRevision); stable != nil {
				want.StableTemplate = Digest(&stable.Spec.Template)
			}
			if diff := cmp.Diff(want, deployment{}.Observe(d, owned, HoldFromRecords(d))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestHold(t *testing.T) {
	a := deployment{}
	d, _ := readState(t, "native")
	want := d.DeepCopy()
	want.Spec.Paused = true
	want.Annotations = map[string]string{rollouts.AnnotationInProgress: `{"rolloutName":"shop"}`}
	before := hasHoldMark(d)
	a.Hold(d, "shop", hasHoldMark(d))
	if diff := cmp.Diff(want, d); diff != "" || before || !hasHoldMark(d) {
		t.Errorf("held %t, then %t (-want +got):\n%s", before, hasHoldMark(d), diff)
	}
}

// TestPreserveHold edits a workload as others do and compares the outcome with the
// workload before and what of the edit may stay.
func TestPreserveHold(t *testing.T) {
	three := intstr.FromInt32(3)
	rollingUpdate := func(d *appsv1.Deployment) {
		d.Spec.Strategy = appsv1.DeploymentStrategy{
			Type:          appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: &three, MaxSurge: &three},
		}
	}
	save := func(value string) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) { d.Annotations[rollouts.AnnotationDeploymentStrategy] = value }
	}
	for name, tc := range map[string]struct {
		in string
		// prepare changes what is there before.
		prepare, edit, stays func(*appsv1.Deployment)
	}{
		"resume":             {in: "driven", edit: func(d *appsv1.Deployment) { d.Spec.Paused = false }},
		"strip":              {in: "driven", edit: func(d *appsv1.Deployment) { d.Annotations, d.Labels = nil, map[string]string{"app": "web"} }},
		"forge":              {in: "held", edit: save("{}")},
		"strip a fresh hold": {in: "held", edit: func(d *appsv1.Deployment) { d.Annotations, d.Spec.Paused = nil, false }},
		"template and foreign keys pass": {
			in: "driven",
			edit: func(d *appsv1.Deployment) {
				d.Spec.Template.Spec.Containers[0].Image = "web:v3"
				d.Annotations["team"], d.Labels["team"] = "a", "b"
			},
			stays: func(d *appsv1.Deployment) {
				d.Spec.Template.Spec.Containers[0].Image = "web:v3"
				d.Annotations["team"], d.Labels["team"] = "a", "b"
			},
		},
		"a strategy is for later": {
			in: "driven", edit: rollingUpdate,
			stays: save(`{"rollingStyle":"Partition","rollingUpdate":{"maxUnavailable":3,"maxSurge":3},"partition":"30%","revision":"any","revisionHistoryLimit":0}`),
		},
		"a history limit is for later": {
			in: "aborted", edit: func(d *appsv1.Deployment) { *d.Spec.RevisionHistoryLimit = 1 },
			stays: func(d *appsv1.Deployment) {
				save(`{"rollingStyle":"Partition","rollingUpdate":{"maxUnavailable":"10%","maxSurge":2},"partition":"30%","abort":true,"revisionHistoryLimit":1}`)(d)
				*d.Spec.RevisionHistoryLimit = 10
			},
		},
		"a strategy passes while the owner's is in force": {in: "held", edit: rollingUpdate, stays: rollingUpdate},
		"unreadable, so nothing can be saved":             {in: "driven", prepare: save("lost"), edit: rollingUpdate},
	} {
		t.Run(name, func(t *testing.T) {
			old, _ := readState(t, tc.in)
			if tc.prepare != nil {
				tc.prepare(old)
			}
			got, want := old.DeepCopy(), old.DeepCopy()
			tc.edit(got)
			if tc.stays != nil {
				tc.stays(want)
			}
			before := old.DeepCopy()
			deployment{}.PreserveHold(old, got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, old); diff != "" {
				t.Errorf("the old object was changed (-before +after):\n%s", diff)
			}
		})
	}
}
