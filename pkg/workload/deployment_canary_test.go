// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

func canaryTarget(share string) planner.SetTarget {
	return planner.SetTarget{
		Target:   planner.Target{Partition: intstr.Parse(share), Owner: "b-1", Revision: planner.Revision{Name: hashV2}},
		Metadata: &rollouts.PodTemplateMetadata{Labels: map[string]string{"track": "canary"}, Annotations: map[string]string{"a": "b"}},
	}
}

// canaryWithTarget returns the held Deployment with a target, its owned objects, and the extra
// Deployment.
func canaryWithTarget(t *testing.T, share string) (d *appsv1.Deployment, owned []object.Object, extra *appsv1.Deployment) {
	t.Helper()
	d, owned = readState(t, "held")
	changes := canary{}.SetTarget(d, owned, HoldFromRecords(d), canaryTarget(share), owner())
	if len(changes) != 2 || changes[1].Base != nil {
		t.Fatalf("%d changes, want the Deployment and an extra one", len(changes))
	}
	extra = changes[1].Want.(*appsv1.Deployment)
	return changes[0].Want.(*appsv1.Deployment), append(owned, extra), extra
}

// TestCanarySetTarget checks that the extra Deployment has the live template with the requested
// metadata and the size of the batch, and belongs to the BatchRelease. The Deployment itself only
// gets records.
func TestCanarySetTarget(t *testing.T) {
	was, _ := readState(t, "held")
	d, _, extra := canaryWithTarget(t, "25%")

	was.Spec.RevisionHistoryLimit = new(minHistoryLimit)
	if diff := cmp.Diff(was.Spec, d.Spec); diff != "" {
		t.Errorf("the Deployment's spec (-was +is):\n%s", diff)
	}
	if drive := HoldFromRecords(d).Target(); drive == nil || *drive != canaryTarget("25%").Target {
		t.Errorf("told %+v, want %+v", drive, canaryTarget("25%").Target)
	}
	if extra.Name != "web-canary-"+hashV2 || GuessWorkloadName(extra.Name) != "web" {
		t.Errorf("the extra one is %s, of %s", extra.Name, GuessWorkloadName(extra.Name))
	}
	want := was.Spec.DeepCopy()
	want.RevisionHistoryLimit = new(int32(0))         // as its owner wrote it
	want.Paused, want.Replicas = false, new(int32(3)) // 25% of 10, rounded up
	want.Template.Labels["track"] = "canary"
	want.Template.Annotations = map[string]string{"a": "b"}
	want.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{ // or it would take the stable set that nobody owns any more
		Key: hashLabel, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"one"},
	}}
	if diff := cmp.Diff(*want, extra.Spec); diff != "" {
		t.Errorf("the extra one's spec (-want +got):\n%s", diff)
	}
	if !metav1.IsControlledBy(extra, &metav1.ObjectMeta{UID: owner().UID}) || extra.Labels[rollouts.LabelCanaryDeployment] != "web" {
		t.Errorf("the extra one has owners %v and labels %v", extra.OwnerReferences, extra.Labels)
	}
}

// TestCanarySize checks that the extra Deployment grows with the batches and the Deployment, never
// shrinks with either, and has no pods if the Deployment has size 0.
func TestCanarySize(t *testing.T) {
	for name, tc := range map[string]struct {
		share    string
		replicas int32
		abort    bool
		want     int32
	}{
		"the next batch":            {"60%", 10, false, 6},
		"somebody made it larger":   {"10%", 10, false, 1},
		"scaled up":                 {"25%", 40, false, 10},
		"scaled down":               {"25%", 4, false, 1},
		"scaled to nothing":         {"25%", 0, false, 0},
		"nearly all is not all":     {"99%", 10, false, 10},
		"aborted":                   {"0", 10, true, 0},
		"aborted, one is kept":      {"1", 10, true, 1},
		"an abort makes none":       {"100%", 10, true, 3},
		"aborted, then scaled down": {"1", 0, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d, owned, extra := canaryWithTarget(t, "25%")
			*d.Spec.Replicas = tc.replicas
			next := canaryTarget(tc.share)
			next.Abort = tc.abort
			for _, c := range (canary{}).SetTarget(d, owned, HoldFromRecords(d), next, owner()) {
				if c.Want.GetName() == extra.Name {
					*extra = *c.Want.(*appsv1.Deployment)
				} else {
					*d = *c.Want.(*appsv1.Deployment)
				}
			}
			if got := *extra.Spec.Replicas; got != tc.want {
				t.Errorf("the extra one has %d, want %d", got, tc.want)
			}
			if !(canary{}).Observe(d, owned, HoldFromRecords(d)).TargetApplied {
				t.Error("what was told is not obeyed")
			}
			if again := (canary{}).SetTarget(d, owned, HoldFromRecords(d), next, owner()); len(again) > 0 {
				t.Errorf("told again: %v", again)
			}
		})
	}
}

// TestCanaryPreserveHold checks that nobody can resume a held Deployment, or set a strategy that would
// remove all pods on resume. Other parts of the strategy stay the owner's.
func TestCanaryPreserveHold(t *testing.T) {
	was, _, _ := canaryWithTarget(t, "25%")
	d := was.DeepCopy()
	d.Spec.Paused, d.Annotations = false, nil
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	canary{}.PreserveHold(was, d)
	if diff := cmp.Diff(was, d); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	surge := intstr.FromInt32(7)
	d.Spec.Strategy.RollingUpdate.MaxSurge = &surge
	want := d.DeepCopy()
	canary{}.PreserveHold(was, d)
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("the owner's surge (-want +got):\n%s", diff)
	}
}

// TestBlockedExtraDeletion checks that a deleted extra Deployment with finalizers of others loses its pods,
// whatever the target is, and then counts as gone. Until then no other can have its name.
func TestBlockedExtraDeletion(t *testing.T) {
	d, owned, extra := canaryWithTarget(t, "25%")
	extra.UID, extra.Finalizers, extra.DeletionTimestamp = "extra", []string{"example.com/keep"}, new(metav1.Now())
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Name: extra.Name + "-x", Labels: map[string]string{hashLabel: "x"}, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(extra, deploymentKind)},
	}}
	set.Spec.Replicas, set.Status.Replicas = new(int32(3)), 3
	owned = append(owned, set)
	back := canaryTarget("0")
	back.Abort = true
	for name, changes := range map[string][]object.Change{
		"driven":   canary{}.SetTarget(d, owned, HoldFromRecords(d), canaryTarget("25%"), owner()),
		"aborted":  canary{}.SetTarget(d, owned, HoldFromRecords(d), back, owner()),
		"discard":  removeAllExtras(owned),
		"restored": canary{}.Restore(d, owned, HoldFromRecords(d), planner.RestoreWorkload{}),
	} {
		taken := slices.ContainsFunc(changes, func(c object.Change) bool {
			rs, ok := c.Want.(*appsv1.ReplicaSet)
			return ok && c.Base == set && *rs.Spec.Replicas == 0
		})
		made := slices.ContainsFunc(changes, func(c object.Change) bool { return c.Base == nil })
		if !taken || made {
			t.Errorf("%s: pods are taken %t, another is made %t", name, taken, made)
		}
	}
	w := canary{}.Observe(d, owned, HoldFromRecords(d))
	if !w.Extra.Exists || w.TargetApplied || !strings.HasSuffix(w.DeletionBlocked, "removes these finalizers: example.com/keep") {
		t.Errorf("with pods: extra %t, obeyed %t, %q", w.Extra.Exists, w.TargetApplied, w.DeletionBlocked)
	}
	set.Spec.Replicas, set.Status.Replicas = new(int32), 0
	if w = (canary{}).Observe(d, owned, HoldFromRecords(d)); w.Extra.Exists {
		t.Error("without pods it counts still")
	}
}

// TestCanaryRestore checks that the extra Deployment stays until the native controller is done, if
// how.Wait is true.
func TestCanaryRestore(t *testing.T) {
	names := func(changes []object.Change) string {
		var out []string
		for _, c := range changes {
			if c.Want == nil {
				out = append(out, "without "+c.Base.GetName())
			} else {
				out = append(out, c.Want.GetName())
			}
		}
		return strings.Join(out, ", ")
	}
	d, owned, extra := canaryWithTarget(t, "25%")
	both := "web, without " + extra.Name
	if got := names(canary{}.Restore(d, owned, HoldFromRecords(d), planner.RestoreWorkload{})); got != both {
		t.Errorf("at once: %s, want %s", got, both)
	}
	changes := canary{}.Restore(d, owned, HoldFromRecords(d), planner.RestoreWorkload{Wait: true})
	if got := names(changes); got != "web" {
		t.Fatalf("waiting: %s, want web", got)
	}
	d = changes[0].Want.(*appsv1.Deployment)
	if d.Spec.Paused || hasOurKeys(d) {
		t.Errorf("restored paused %t, with %v and %v", d.Spec.Paused, d.Annotations, d.Labels)
	}
	d.Status.ObservedGeneration = d.Generation
	if got := names(canary{}.Restore(d, owned, HoldFromRecords(d), planner.RestoreWorkload{Wait: true})); got != "" {
		t.Errorf("while it rolls: %s, want nothing", got)
	}
	if got := names(removeAllExtras(owned)); got != "without "+extra.Name {
		t.Errorf("discarded: %s", got)
	}
}

// TestCanaryAdopted checks that an extra Deployment that OpenKruise created is adopted if its
// template is the live one with more metadata. Its finalizer is removed before it is deleted.
func TestCanaryAdopted(t *testing.T) {
	d, owned, extra := canaryWithTarget(t, "25%")
	extra.Name, extra.Finalizers = "web-x7k2p", []string{"example.com/other", rollouts.FinalizerCanaryDeployment}
	changes := canary{}.SetTarget(d, owned, HoldFromRecords(d), canaryTarget("60%"), owner())
	if len(changes) != 2 || changes[1].Base != extra || *changes[1].Want.(*appsv1.Deployment).Spec.Replicas != 6 {
		t.Errorf("driven on: %v", changes)
	}
	left := removeAllExtras(owned)
	if len(left) != 1 || left[0].Want == nil || len(left[0].Want.GetFinalizers()) != 1 {
		t.Errorf("discarded: %v", left)
	}
	for name, change := range map[string]func(){
		"of another image":      func() { extra.Spec.Template.Spec.Containers[0].Image = "web:other" },
		"of other metadata":     func() { d.Spec.Template.Annotations = map[string]string{"restarted": "now"} },
		"made by somebody else": func() { extra.Finalizers = nil },
		"already being deleted": func() { extra.DeletionTimestamp = new(metav1.Now()) },
	} {
		t.Run(name, func(t *testing.T) {
			was, wasExtra := d.DeepCopy(), extra.DeepCopy()
			change()
			if got := findExtra(d, owned, HoldFromRecords(d).revision()); got != nil {
				t.Errorf("%s is taken over", got.Name)
			}
			*d, *extra = *was, *wasExtra
		})
	}
	if findExtra(d, owned, HoldFromRecords(d).revision()) != extra {
		t.Error("it is not taken over")
	}
}
