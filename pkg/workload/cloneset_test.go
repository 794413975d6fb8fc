// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/internal/golden"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// cloneSetScene is a CloneSet as Kruise left it, and its owned objects. Each letter is the revision of a
// pod; lower-case pods are not ready.
type cloneSetScene struct {
	set   *CloneSet
	owned []object.Object
}

func newCloneSetScene(live, pods string, edits ...func(*CloneSet)) *cloneSetScene {
	updated := int32(strings.Count(pods, live) + strings.Count(pods, strings.ToUpper(live))) //nolint:gosec // a few
	s := &cloneSetScene{set: &CloneSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps.kruise.io/v1alpha1", Kind: "CloneSet"},
		ObjectMeta: metav1.ObjectMeta{Name: "db", UID: "c-1", Generation: 3, Labels: map[string]string{rollouts.LabelWorkloadType: "cloneset"}},
		Spec: CloneSetSpec{
			Replicas: new(int32(len(pods))), RevisionHistoryLimit: new(int32(2)), Template: *templateOf(live), //nolint:gosec // a few
			UpdateStrategy: CloneSetUpdateStrategy{Type: "InPlaceIfPossible", Partition: new(intstr.FromString("25%")), MaxUnavailable: new(intstr.FromInt32(2))},
		},
		Status: CloneSetStatus{
			ObservedGeneration: 3, CurrentRevision: "db-a", UpdateRevision: "db-" + live, Replicas: int32(len(pods)), //nolint:gosec // a few
			UpdatedReplicas: updated, UpdatedReadyReplicas: int32(strings.Count(pods, strings.ToUpper(live))), //nolint:gosec // a few
		},
	}}
	ref := *metav1.NewControllerRef(s.set, cloneSetKind)
	for i, letter := range "abc" {
		s.owned = append(s.owned, &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{Name: "db-" + string(letter), OwnerReferences: []metav1.OwnerReference{ref}}, Revision: int64(i),
			Data: runtime.RawExtension{Raw: []byte(encode(map[string]any{"spec": map[string]any{"template": templateOf(string(letter))}}))},
		})
	}
	for i, letter := range pods {
		p := podOf(i, string(letter), ref)
		p.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = strings.ToLower(string(letter))
		s.owned = append(s.owned, p)
	}
	for _, edit := range edits {
		edit(s.set)
	}
	return s
}

func holdCloneSet(c *CloneSet) { cloneSet.Hold(c, "db", hasHoldMark(c)) }

// setCloneSetTarget writes the records of a target.
func setCloneSetTarget(partition string, share int32, abort bool, more string) func(*CloneSet) {
	return func(c *CloneSet) {
		holdCloneSet(c)
		c.Spec.UpdateStrategy.Partition = new(intstr.Parse(partition))
		c.Labels[rollouts.LabelStableRevision] = "a"
		c.Spec.RevisionHistoryLimit = new(minHistoryLimit)
		writeController(c, owner())
		setAnnotation(c, rollouts.AnnotationDeploymentStrategy,
			fmt.Sprintf(`{"rollingStyle":"Partition","partition":%d,"abort":%t,"revision":"b","revisionHistoryLimit":2%s}`, share, abort, more))
	}
}

const clonesAside = `,"aside":"b"`

func completeCloneSet(c *CloneSet) { c.Status.CurrentRevision = c.Status.UpdateRevision }

func unobservedCloneSet(c *CloneSet) {
	c.Generation++
	c.Status.UpdateRevision = "db-a"
}

func pauseCloneSet(c *CloneSet) { c.Spec.UpdateStrategy.Paused = true }

// TestCloneSetChanges has one golden file for each case. A second pass must have no changes.
func TestCloneSetChanges(t *testing.T) {
	a := cloneSet
	drive := func(share string, abort bool) func(*cloneSetScene) []object.Change {
		return func(s *cloneSetScene) []object.Change {
			to := planner.Target{Partition: intstr.Parse(share), Abort: abort, Owner: "b-1", Revision: planner.Revision{Name: "b"}}
			return a.SetTarget(s.set, s.owned, HoldFromRecords(s.set), planner.SetTarget{Target: to}, owner())
		}
	}
	restore := func(paused bool) func(*cloneSetScene) []object.Change {
		return func(s *cloneSetScene) []object.Change {
			return a.Restore(s.set, s.owned, HoldFromRecords(s.set), planner.RestoreWorkload{KeepPaused: paused})
		}
	}
	rest := func(s *cloneSetScene) []object.Change {
		return a.RestoreStrategy(s.set, s.owned, HoldFromRecords(s.set))
	}
	stable := func(s *cloneSetScene) []object.Change { return a.SetStable(s.set, s.owned, HoldFromRecords(s.set)) }
	for name, tc := range map[string]struct {
		in *cloneSetScene
		op func(*cloneSetScene) []object.Change
	}{
		"drive-first":      {newCloneSetScene("b", "AAAAA", holdCloneSet), drive("20%", false)},
		"drive-paused":     {newCloneSetScene("b", "AAAAA", pauseCloneSet, holdCloneSet), drive("20%", false)},
		"drive-on":         {newCloneSetScene("b", "AAAAB", setCloneSetTarget("80%", 1, false, "")), drive("60%", false)},
		"drive-third":      {newCloneSetScene("c", "AAABB", setCloneSetTarget("100%", 1, false, "")), drive("20%", false)},
		"drive-batches":    {newCloneSetScene("a", "AAABB", setCloneSetTarget("100%", 4, false, "")), drive("4", false)},
		"drive-back":       {newCloneSetScene("b", "AAABB", setCloneSetTarget("60%", 2, false, "")), drive("0", true)},
		"drive-back-but-1": {newCloneSetScene("b", "AAABB", setCloneSetTarget("60%", 2, false, "")), drive("1", true)},
		"drive-back-all":   {newCloneSetScene("b", "BBBBB", setCloneSetTarget("0", 5, false, ""), completeCloneSet), drive("0", true)},
		"drive-back-none":  {newCloneSetScene("b", "AAAAA", setCloneSetTarget("80%", 1, false, "")), drive("0", true)},
		"drive-retry":      {newCloneSetScene("b", "AAAAA", setCloneSetTarget("100%", 0, true, "")), drive("20%", false)},
		"drive-zero":       {newCloneSetScene("b", "", setCloneSetTarget("80%", 1, false, "")), drive("1", false)},
		"drive-grown":      {newCloneSetScene("a", "AAAAA", setCloneSetTarget("0", 1, false, clonesAside)), drive("1", false)},
		"drive-growing":    {newCloneSetScene("a", "AAAAA", setCloneSetTarget("0", 1, false, clonesAside), unobservedCloneSet), drive("1", false)},
		"rest":             {newCloneSetScene("a", "AAAAA", setCloneSetTarget("0", 0, true, clonesAside)), rest},
		"rest-early":       {newCloneSetScene("a", "AAAAA", setCloneSetTarget("0", 0, true, clonesAside), func(c *CloneSet) { c.Status.CurrentRevision = "db-b" }), rest},
		"stable":           {newCloneSetScene("b", "AAAAA", setCloneSetTarget("100%", 0, true, "")), stable},
		"restore":          {newCloneSetScene("b", "BBBBB", setCloneSetTarget("0", 5, false, "")), restore(false)},
		"restore-owners":   {newCloneSetScene("b", "BBBBB", pauseCloneSet, setCloneSetTarget("0", 5, false, "")), restore(false)},
		"restore-held":     {newCloneSetScene("b", "AAAAA", holdCloneSet), restore(false)},
		"restore-paused":   {newCloneSetScene("b", "AAAAA", setCloneSetTarget("100%", 0, true, "")), restore(true)},
		"restore-zero":     {newCloneSetScene("a", "", setCloneSetTarget("0", 5, false, clonesAside)), restore(false)},
		"restore-nothing":  {newCloneSetScene("b", "BBBBB"), restore(false)},
	} {
		t.Run(name, func(t *testing.T) {
			before := golden.Text(t, tc.in.set)
			changes := tc.op(tc.in)
			golden.Changes(t, "clones-"+name, changes)
			if diff := cmp.Diff(before, golden.Text(t, tc.in.set)); diff != "" {
				t.Errorf("the input was changed (-before +after):\n%s", diff)
			}
			for _, c := range changes {
				tc.in.set = c.Want.(*CloneSet)
				tc.in.set.Generation++
			}
			if again := tc.op(tc.in); len(again) != 0 {
				t.Errorf("not done after one pass, still wants:\n%s", golden.Diff(golden.Text(t, again[0].Base), golden.Text(t, again[0].Want)))
			}
		})
	}
}

// TestObserveCloneSet names the facts that matter in each case.
func TestObserveCloneSet(t *testing.T) {
	type facts = planner.Workload
	for name, tc := range map[string]struct {
		in   *cloneSetScene
		want facts
	}{
		"at rest": {newCloneSetScene("a", "AAAAA"), facts{
			Settled:       true,
			HoldFacts:     planner.HoldFacts{OwnerStrategyActive: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "a", UpdateRevision: "a", HasStableTemplate: true},
			PodFacts:      planner.PodFacts{UpdatedReplicas: 5, UpdatedReadyReplicas: 5, StableReadyReplicas: 5, LiveReadyReplicas: 5},
		}},
		"rolling natively": {newCloneSetScene("b", "AAABB"), facts{
			Settled: true, NativeUpdateRunning: true,
			HoldFacts:     planner.HoldFacts{OwnerStrategyActive: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "a", UpdateRevision: "b"},
			PodFacts:      planner.PodFacts{UpdatedReplicas: 2, UpdatedReadyReplicas: 2, StableReplicas: 3, StableReadyReplicas: 3, LiveReadyReplicas: 2},
		}},
		"held, not named yet": {newCloneSetScene("d", "AAAAA", holdCloneSet, unobservedCloneSet), facts{
			Paused:        true,
			HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true, OwnerStrategyActive: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "a"},
			PodFacts:      planner.PodFacts{StableReplicas: 5, StableReadyReplicas: 5},
		}},
		"driven": {newCloneSetScene("b", "AAAAb", setCloneSetTarget("80%", 1, false, "")), facts{
			Settled:       true,
			HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true, TargetApplied: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "a", UpdateRevision: "b"},
			PodFacts:      planner.PodFacts{UpdatedReplicas: 1, StableReplicas: 4, StableReadyReplicas: 4},
		}},
		// Its pods are ready, but Kruise knows that one is not updated yet.
		"in place": {newCloneSetScene("b", "AAAAB", setCloneSetTarget("80%", 1, false, ""), func(c *CloneSet) { c.Status.UpdatedReadyReplicas = 0 }), facts{
			Settled:       true,
			HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true, TargetApplied: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "a", UpdateRevision: "b"},
			PodFacts:      planner.PodFacts{UpdatedReplicas: 1, StableReplicas: 4, StableReadyReplicas: 4},
		}},
		"a third": {newCloneSetScene("c", "AAABC", setCloneSetTarget("80%", 1, false, "")), facts{
			Settled:       true,
			HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true, TargetApplied: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "a", UpdateRevision: "c"},
			PodFacts:      planner.PodFacts{UpdatedReplicas: 1, UpdatedReadyReplicas: 1, StableReplicas: 4, StableReadyReplicas: 3, SupersededReplicas: 1, LiveReadyReplicas: 1},
		}},
		"complete, and Kruise has forgotten": {newCloneSetScene("b", "BBBBB", setCloneSetTarget("20%", 5, false, ""), completeCloneSet), facts{
			Settled:       true,
			HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true, TargetApplied: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "a", UpdateRevision: "b"},
			PodFacts:      planner.PodFacts{UpdatedReplicas: 5, UpdatedReadyReplicas: 5, LiveReadyReplicas: 5},
		}},
		"going back": {newCloneSetScene("a", "AAAAB", setCloneSetTarget("0", 0, true, clonesAside)), facts{
			Settled:       true,
			HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true, TargetApplied: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "a", UpdateRevision: "b"},
			PodFacts:      planner.PodFacts{UpdatedReplicas: 1, UpdatedReadyReplicas: 1, StableReplicas: 4, StableReadyReplicas: 4, LiveReadyReplicas: 4},
		}},
		"back, and at rest": {newCloneSetScene("b", "AAAAA", setCloneSetTarget("100%", 0, true, "")), facts{
			Settled: true, Paused: true,
			HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true, TargetApplied: true, OwnerStrategyActive: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "a", UpdateRevision: "b"},
			PodFacts:      planner.PodFacts{StableReplicas: 5, StableReadyReplicas: 5},
		}},
		"paused meanwhile": {newCloneSetScene("b", "AAAAB", setCloneSetTarget("80%", 1, false, ""), pauseCloneSet), facts{
			Settled: true, Paused: true,
			HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "a", UpdateRevision: "b"},
			PodFacts:      planner.PodFacts{UpdatedReplicas: 1, UpdatedReadyReplicas: 1, StableReplicas: 4, StableReadyReplicas: 4, LiveReadyReplicas: 1},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got := cloneSet.Observe(tc.in.set, tc.in.owned, HoldFromRecords(tc.in.set))
			tc.want.Generation, tc.want.Replicas, tc.want.Labelled, tc.want.MaxUnavailable = tc.in.set.Generation, 5, true, 2
			tc.want.PodTemplateHash, tc.want.LiveRevision = got.UpdateRevision, got.LiveRevision
			tc.want.KeepsLastStablePod = tc.want.UpdateRevision != tc.want.StableRevision
			if tc.want.AbortSetsTemplate, tc.want.RevisionKind = true, controllerRevision; !tc.want.StableRevisionGone {
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

// TestPartitionToKeep checks that at every size a partition keeps exactly the desired number of pods, and that
// after a small change of the size it never allows more new pods than the step.
func TestPartitionToKeep(t *testing.T) {
	for replicas := int32(1); replicas <= 250; replicas++ {
		for n := int32(0); n <= replicas; n++ {
			p := partitionToKeep(n, replicas)
			if got := podsKept(&p, replicas); got != n {
				t.Errorf("%s leaves %d of %d, want %d", p.String(), got, replicas, n)
			}
		}
	}
	if p := partitionToKeep(4, 5); p.String() != "80%" {
		t.Errorf("4 of 5 is %s, which would not be a share when the size changes", p.String())
	}
}

// TestDeletedClonesDoNotCount checks that a pod that is being deleted does not count, as in Kruise.
func TestDeletedClonesDoNotCount(t *testing.T) {
	s := newCloneSetScene("b", "AAAAB")
	s.owned[len(s.owned)-1].(*corev1.Pod).DeletionTimestamp = new(metav1.Time)
	if w := cloneSet.Observe(s.set, s.owned, HoldFromRecords(s.set)); w.UpdatedReplicas != 0 {
		t.Errorf("counts %d new pods", w.UpdatedReplicas)
	}
}

// TestClonesNeverMissing checks the limit if no pod may be missing: Kruise first creates a surge
// pod, so an abort need not wait.
func TestClonesNeverMissing(t *testing.T) {
	s := newCloneSetScene("b", "AAABB", func(c *CloneSet) {
		c.Spec.UpdateStrategy.MaxUnavailable, c.Spec.UpdateStrategy.MaxSurge = new(intstr.FromInt32(0)), new(intstr.FromInt32(1))
	})
	if w := cloneSet.Observe(s.set, s.owned, HoldFromRecords(s.set)); w.MaxUnavailable != 1 {
		t.Errorf("%d are replaced at once, want 1", w.MaxUnavailable)
	}
}
