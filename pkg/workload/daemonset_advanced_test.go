// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/internal/golden"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// advancedDaemonScene is a DaemonSet as Kruise left it, and its owned objects.
type advancedDaemonScene struct {
	set   *AdvancedDaemonSet
	owned []object.Object
}

type advancedEdit func(*AdvancedDaemonSet)

// newAdvancedDaemonScene returns a DaemonSet with pods in the notation of daemon: a letter for each node.
func newAdvancedDaemonScene(live, pods string, edits ...advancedEdit) *advancedDaemonScene {
	n := newDaemonScene(live, pods)
	d := &AdvancedDaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps.kruise.io/v1alpha1", Kind: "DaemonSet"},
		ObjectMeta: n.set.ObjectMeta,
		Spec: AdvancedDaemonSetSpec{
			RevisionHistoryLimit: new(int32(2)), Template: n.set.Spec.Template,
			UpdateStrategy: AdvancedDaemonSetUpdateStrategy{
				Type:          appsv1.RollingUpdateDaemonSetStrategyType,
				RollingUpdate: &RollingUpdateAdvancedDaemonSet{Partition: new(int32(1)), MaxUnavailable: new(intstr.FromInt32(2))},
			},
		},
		Status: AdvancedDaemonSetStatus{DaemonSetStatus: n.set.Status, DaemonSetHash: live},
	}
	for _, edit := range edits {
		edit(d)
	}
	return &advancedDaemonScene{d, n.owned}
}

// kept makes Kruise store another template for a revision.
func (n *advancedDaemonScene) kept(letter string, number int64) *advancedDaemonScene {
	n.owned = append(n.owned, &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name: "log-" + letter, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(n.set, advancedDaemonSetKind)},
			Labels: map[string]string{appsv1.DefaultDaemonSetUniqueLabelKey: letter},
		},
		Data: runtime.RawExtension{Raw: []byte(`{"spec":{"template":{}}}`)}, Revision: number,
	})
	return n
}

func holdAdvancedDaemon(d *AdvancedDaemonSet) { advancedDaemonSet.Hold(d, "log", hasHoldMark(d)) }

// setAdvancedDaemonTarget writes the records of a target.
func setAdvancedDaemonTarget(partition, share int32, abort bool, aside string) advancedEdit {
	return func(d *AdvancedDaemonSet) {
		holdAdvancedDaemon(d)
		d.setStrategy(originalStrategy{Partition: partition})
		d.Labels[rollouts.LabelStableRevision] = "a"
		d.Spec.RevisionHistoryLimit = new(minHistoryLimit)
		writeController(d, owner())
		v := strategyRecord{
			RollingStyle: rollouts.StylePartition, Partition: intstr.FromInt32(share), Abort: abort,
			Revision: "b", RevisionHistoryLimit: new(int32(2)), SetAsideRevision: aside,
		}
		setAnnotation(d, rollouts.AnnotationDeploymentStrategy, encode(v))
	}
}

func setAdvancedOnDelete(d *AdvancedDaemonSet) {
	d.Spec.UpdateStrategy = AdvancedDaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
}

func pauseAdvancedDaemon(d *AdvancedDaemonSet) {
	d.Spec.UpdateStrategy.RollingUpdate.Paused = new(true)
}

func unobservedAdvancedDaemon(d *AdvancedDaemonSet) { d.Generation++ }

// TestAdvancedDaemonSetChanges has one golden file for each case. A second pass must have no
// changes.
func TestAdvancedDaemonSetChanges(t *testing.T) {
	a := advancedDaemonSet
	drive := func(share string, abort bool) func(*advancedDaemonScene) []object.Change {
		return func(n *advancedDaemonScene) []object.Change {
			to := planner.Target{Partition: intstr.Parse(share), Abort: abort, Owner: "b-1", Revision: planner.Revision{Name: "b"}}
			return a.SetTarget(n.set, n.owned, HoldFromRecords(n.set), planner.SetTarget{Target: to}, owner())
		}
	}
	restore := func(paused bool) func(*advancedDaemonScene) []object.Change {
		return func(n *advancedDaemonScene) []object.Change {
			return a.Restore(n.set, n.owned, HoldFromRecords(n.set), planner.RestoreWorkload{KeepPaused: paused})
		}
	}
	stable := func(n *advancedDaemonScene) []object.Change {
		return a.SetStable(n.set, n.owned, HoldFromRecords(n.set))
	}
	for name, tc := range map[string]struct {
		in *advancedDaemonScene
		op func(*advancedDaemonScene) []object.Change
	}{
		"drive-first":           {newAdvancedDaemonScene("b", "AAAAA", holdAdvancedDaemon), drive("20%", false)},
		"drive-first-by-hand":   {newAdvancedDaemonScene("b", "AAAAA", setAdvancedOnDelete, holdAdvancedDaemon), drive("20%", false)},
		"drive-on":              {newAdvancedDaemonScene("b", "AAAAB", setAdvancedDaemonTarget(4, 1, false, "")), drive("60%", false)},
		"drive-joined":          {newAdvancedDaemonScene("b", "AAAABB", setAdvancedDaemonTarget(4, 1, false, "")), drive("1", false)},
		"drive-all":             {newAdvancedDaemonScene("b", "AAABB", setAdvancedDaemonTarget(3, 2, false, "")), drive("100%", false)},
		"drive-batches":         {newAdvancedDaemonScene("a", "AAABB", setAdvancedDaemonTarget(frozen, 3, false, "")), drive("4", false)},
		"drive-back":            {newAdvancedDaemonScene("b", "AAABB", setAdvancedDaemonTarget(3, 2, false, "")), drive("0", true)},
		"drive-back-but-1":      {newAdvancedDaemonScene("b", "AAABB", setAdvancedDaemonTarget(3, 2, false, "")), drive("1", true)},
		"drive-back-on":         {newAdvancedDaemonScene("a", "AAABB", setAdvancedDaemonTarget(1, 1, true, "b")), drive("0", true)},
		"drive-back-none":       {newAdvancedDaemonScene("b", "AAAAA", setAdvancedDaemonTarget(frozen, 0, false, "")), drive("0", true)},
		"drive-back-done":       {newAdvancedDaemonScene("a", "AAAAA", setAdvancedDaemonTarget(0, 0, true, "b")), drive("0", true)},
		"drive-back-overtaken":  {newAdvancedDaemonScene("c", "AAABB", setAdvancedDaemonTarget(frozen, 0, true, "")), drive("0", true)},
		"drive-back-forgotten":  {newAdvancedDaemonScene("b", "AAABB", setAdvancedDaemonTarget(3, 0, true, ""), func(d *AdvancedDaemonSet) { d.Labels[rollouts.LabelStableRevision] = "z" }), drive("0", true)},
		"drive-retry":           {newAdvancedDaemonScene("a", "AAAAA", setAdvancedDaemonTarget(0, 0, true, "b")), drive("20%", false)},
		"stable":                {newAdvancedDaemonScene("a", "AAAAA", setAdvancedDaemonTarget(0, 0, true, "b")), stable},
		"restore":               {newAdvancedDaemonScene("b", "BBBBB", setAdvancedDaemonTarget(0, 5, false, "")), restore(false)},
		"restore-rest-natively": {newAdvancedDaemonScene("b", "AAABB", setAdvancedDaemonTarget(3, 2, false, "")), restore(false)},
		"restore-owners":        {newAdvancedDaemonScene("b", "BBBBB", pauseAdvancedDaemon, setAdvancedDaemonTarget(0, 5, false, "")), restore(false)},
		"restore-by-hand":       {newAdvancedDaemonScene("b", "BBBBB", setAdvancedOnDelete, setAdvancedDaemonTarget(0, 5, false, "")), restore(false)},
		"restore-held":          {newAdvancedDaemonScene("b", "AAAAA", holdAdvancedDaemon), restore(false)},
		"restore-paused":        {newAdvancedDaemonScene("a", "AAAAA", pauseAdvancedDaemon, setAdvancedDaemonTarget(0, 0, true, "b")), restore(true)},
		"restore-paused-mixed":  {newAdvancedDaemonScene("a", "AAAAB", pauseAdvancedDaemon, setAdvancedDaemonTarget(0, 0, true, "b")), restore(true)},
		"restore-nothing":       {newAdvancedDaemonScene("b", "BBBBB", setAdvancedOnDelete), restore(false)},
	} {
		t.Run(name, func(t *testing.T) {
			before := golden.Text(t, tc.in.set)
			changes := tc.op(tc.in)
			golden.Changes(t, "advanced-daemon-"+name, changes)
			if diff := cmp.Diff(before, golden.Text(t, tc.in.set)); diff != "" {
				t.Errorf("the input was changed (-before +after):\n%s", diff)
			}
			for _, c := range changes {
				tc.in.set = c.Want.(*AdvancedDaemonSet)
				tc.in.set.Generation++
			}
			if again := tc.op(tc.in); len(again) != 0 {
				t.Errorf("not done after one pass, still wants:\n%s", golden.Diff(golden.Text(t, again[0].Base), golden.Text(t, again[0].Want)))
			}
		})
	}
}

// TestObserveAdvancedDaemonSet names the facts that matter in each case.
func TestObserveAdvancedDaemonSet(t *testing.T) {
	type facts = planner.Workload
	for name, tc := range map[string]struct {
		in   *advancedDaemonScene
		want facts
	}{
		"at rest": {newAdvancedDaemonScene("a", "AAAAA"), facts{
			Settled:       true,
			HoldFacts:     planner.HoldFacts{OwnerStrategyActive: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "a", UpdateRevision: "a", HasStableTemplate: true},
			PodFacts:      planner.PodFacts{UpdatedReplicas: 5, UpdatedReadyReplicas: 5, StableReadyReplicas: 5, LiveReadyReplicas: 5},
		}},
		"its owner keeps one": {newAdvancedDaemonScene("b", "ABBBB"), facts{
			Settled: true, NativeUpdateRunning: true,
			HoldFacts:     planner.HoldFacts{OwnerStrategyActive: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "a", UpdateRevision: "b"},
			PodFacts:      planner.PodFacts{UpdatedReplicas: 4, UpdatedReadyReplicas: 4, StableReplicas: 1, StableReadyReplicas: 1, LiveReadyReplicas: 4},
		}},
		"left to its owner half-way": {newAdvancedDaemonScene("b", "AAABB", setAdvancedOnDelete), facts{
			Settled: true, Paused: true, NativeUpdateRunning: true, MaxUnavailable: 1,
			HoldFacts:     planner.HoldFacts{OwnerStrategyActive: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "a", UpdateRevision: "b"},
			PodFacts:      planner.PodFacts{UpdatedReplicas: 2, UpdatedReadyReplicas: 2, StableReplicas: 3, StableReadyReplicas: 3, LiveReadyReplicas: 2},
		}},
		// What is new in a template may be unknown to Kruise, and not be kept by it.
		"Kruise names it": {newAdvancedDaemonScene("d", "AAAAA", holdAdvancedDaemon).kept("d", 4), facts{
			Settled: true, Paused: true,
			HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true, OwnerStrategyActive: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "a", UpdateRevision: "d"},
			PodFacts:      planner.PodFacts{StableReplicas: 5, StableReadyReplicas: 5},
		}},
		// A status that names an earlier one was written by somebody else.
		"somebody names another": {newAdvancedDaemonScene("d", "AAAAA", holdAdvancedDaemon, func(d *AdvancedDaemonSet) { d.Status.DaemonSetHash = "a" }).kept("d", 4), facts{
			Settled: true, Paused: true,
			HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true, OwnerStrategyActive: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "a"},
			PodFacts:      planner.PodFacts{StableReplicas: 5, StableReadyReplicas: 5},
		}},
		"not named yet": {newAdvancedDaemonScene("d", "AAAAA", holdAdvancedDaemon, unobservedAdvancedDaemon), facts{
			Paused:        true,
			HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true, OwnerStrategyActive: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "a"},
			PodFacts:      planner.PodFacts{StableReplicas: 5, StableReadyReplicas: 5},
		}},
		"driven": {newAdvancedDaemonScene("b", "AAAAb", setAdvancedDaemonTarget(4, 1, false, "")), facts{
			Settled:       true,
			HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true, TargetApplied: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "a", UpdateRevision: "b"},
			PodFacts:      planner.PodFacts{UpdatedReplicas: 1, StableReplicas: 4, StableReadyReplicas: 4},
		}},
		"a node joined": {newAdvancedDaemonScene("b", "AAABB", setAdvancedDaemonTarget(3, 1, false, "")), facts{
			Settled:       true,
			HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "a", UpdateRevision: "b"},
			PodFacts:      planner.PodFacts{UpdatedReplicas: 2, UpdatedReadyReplicas: 2, StableReplicas: 3, StableReadyReplicas: 3, LiveReadyReplicas: 2},
		}},
		"going back": {newAdvancedDaemonScene("a", "AAAAb", setAdvancedDaemonTarget(0, 0, true, "b")), facts{
			Settled:       true,
			HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true, TargetApplied: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "a", UpdateRevision: "b"},
			PodFacts:      planner.PodFacts{UpdatedReplicas: 1, StableReplicas: 4, StableReadyReplicas: 4, LiveReadyReplicas: 4},
		}},
		"back": {newAdvancedDaemonScene("a", "AAAAA", setAdvancedDaemonTarget(0, 0, true, "b")), facts{
			Settled:       true,
			HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true, TargetApplied: true, OwnerStrategyActive: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "a", UpdateRevision: "b"},
			PodFacts:      planner.PodFacts{StableReplicas: 5, StableReadyReplicas: 5, LiveReadyReplicas: 5},
		}},
		"paused meanwhile": {newAdvancedDaemonScene("b", "AAAAB", setAdvancedDaemonTarget(4, 1, false, ""), pauseAdvancedDaemon), facts{
			Settled: true, Paused: true,
			HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "a", UpdateRevision: "b"},
			PodFacts:      planner.PodFacts{UpdatedReplicas: 1, UpdatedReadyReplicas: 1, StableReplicas: 4, StableReadyReplicas: 4, LiveReadyReplicas: 1},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got := advancedDaemonSet.Observe(tc.in.set, tc.in.owned, HoldFromRecords(tc.in.set))
			tc.want.Generation, tc.want.Replicas, tc.want.Labelled = tc.in.set.Generation, 5, true
			tc.want.NewPodsUseTemplate, tc.want.RevisionKind = true, "ControllerRevision"
			if tc.want.MaxUnavailable == 0 {
				tc.want.MaxUnavailable = 2
			}
			tc.want.PodTemplateHash, tc.want.LiveRevision = got.UpdateRevision, got.LiveRevision
			if tc.want.AbortSetsTemplate = true; !tc.want.StableRevisionGone {
				tc.want.StableTemplate = digestWithLabels(templateOf(hashSuffix(tc.want.StableRevision)))
			}
			if got.LiveRevision == got.UpdateRevision { // else the stable template was set in its place
				tc.want.UpdateTemplate = digestWithLabels(&tc.in.set.Spec.Template)
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(facts{}, "Target", "Revisions")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestSelectorUnsupported checks that a DaemonSet whose selector excludes nodes is not supported and not
// held.
func TestSelectorUnsupported(t *testing.T) {
	choose := func(d *AdvancedDaemonSet) { d.Spec.UpdateStrategy.RollingUpdate.Selector = &metav1.LabelSelector{} }
	n, next := newAdvancedDaemonScene("a", "AAA", choose), newAdvancedDaemonScene("b", "AAA", choose)
	if why := advancedDaemonSet.Observe(n.set, n.owned, HoldFromRecords(n.set)).UnsupportedReason; why == "" {
		t.Error("does not say why")
	}
	if rowOf(t, advancedDaemonSetKind).StartsRelease(n.set, next.set) {
		t.Error("it is held")
	}
}

// TestAdvancedDaemonSetHeldTwice calls Hold twice, as two admission webhooks do. The first saves the
// owner's partition, and the second must keep it.
func TestAdvancedDaemonSetHeldTwice(t *testing.T) {
	n := newAdvancedDaemonScene("b", "AAA", holdAdvancedDaemon)
	was := golden.Text(t, n.set)
	holdAdvancedDaemon(n.set)
	if diff := cmp.Diff(was, golden.Text(t, n.set)); diff != "" {
		t.Errorf("(-once +twice):\n%s", diff)
	}
	n.set.setStrategy(originalStrategy{Partition: 2}) // a step
	holdAdvancedDaemon(n.set)
	if own := readOriginalStrategy(n.set); own != (originalStrategy{Partition: 1}) {
		t.Errorf("its owner's is %+v after a step", own)
	}
}
