// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/internal/golden"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

func cloneSetSize(n int32) func(*CloneSet) {
	return func(c *CloneSet) { c.Spec.Replicas = &n }
}

// setOwnerSettings sets an owner's settings that are not the defaults.
func setOwnerSettings(c *CloneSet) {
	c.Spec.MinReadySeconds, c.Spec.UpdateStrategy.MaxSurge = 7, new(intstr.FromString("20%"))
}

// removeSavedPartition removes the saved partition of the owner.
func removeSavedPartition(c *CloneSet) { saveOriginalCloneSet(c, originalCloneSet{}) }

// countOnlyLivePods sets the status that Kruise writes when the other pods are gone.
func countOnlyLivePods(c *CloneSet) {
	c.Status.Replicas, c.Status.UpdatedReplicas = 5, 5
	completeCloneSet(c)
}

func setSurgeTarget(share string, abort bool) func(*cloneSetScene) []object.Change {
	return func(s *cloneSetScene) []object.Change {
		to := planner.Target{Partition: intstr.Parse(share), Abort: abort, Owner: "b-1", Revision: planner.Revision{Name: "b"}}
		return cloneSetBlueGreen{cloneSet}.SetTarget(s.set, s.owned, HoldFromRecords(s.set), planner.SetTarget{Target: to}, owner())
	}
}

// surgingCloneSet returns a CloneSet of five pods with an autoscaler, during a release.
func surgingCloneSet(live, pods, share string, edits ...func(*CloneSet)) *cloneSetScene {
	return newCloneSetScene(live, pods, append([]func(*CloneSet){cloneSetSize(5), setOwnerSettings, holdCloneSet}, edits...)...).scaled().then(setSurgeTarget(share, false))
}

func (s *cloneSetScene) scaled() *cloneSetScene {
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "auto"}}
	h.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: cloneSetKind.GroupVersion().String(), Kind: "CloneSet", Name: s.set.Name}
	s.owned = append(s.owned, h)
	return s
}

// then applies the changes of an operation, and lets Kruise observe them.
func (s *cloneSetScene) then(op func(*cloneSetScene) []object.Change) *cloneSetScene {
	for _, c := range op(s) {
		switch want := c.Want.(type) {
		case *CloneSet:
			s.set = want
			s.set.Generation++
			s.set.Status.ObservedGeneration = s.set.Generation
			image := want.Spec.Template.Spec.Containers[0].Image
			s.set.Status.UpdateRevision = "db-" + image[strings.LastIndex(image, ":")+1:]
		case *autoscalingv2.HorizontalPodAutoscaler:
			s.owned[len(s.owned)-1] = want
		}
	}
	return s
}

func (s *cloneSetScene) with(edits ...func(*CloneSet)) *cloneSetScene {
	for _, edit := range edits {
		edit(s.set)
	}
	return s
}

// lose removes pods of a revision.
func (s *cloneSetScene) lose(letter string, n int) *cloneSetScene {
	s.owned = slices.DeleteFunc(s.owned, func(o object.Object) bool {
		p, ok := o.(*corev1.Pod)
		gone := ok && n > 0 && cloneSetRevisionOf(p) == letter
		if gone {
			n--
		}
		return gone
	})
	return s
}

// live sets another template, as admission lets it pass.
func (s *cloneSetScene) live(letter string) *cloneSetScene {
	was := s.set.DeepCopyObject().(*CloneSet)
	s.set.Spec.Template, s.set.Status.UpdateRevision = *templateOf(letter), "db-"+letter
	cloneSetBlueGreen{cloneSet}.PreserveHold(was, s.set)
	return s
}

// TestSurgingClonesChanges has one golden file for each case. A second pass must have no changes.
func TestSurgingClonesChanges(t *testing.T) {
	a := cloneSetBlueGreen{cloneSet}
	restore := func(how planner.RestoreWorkload) func(*cloneSetScene) []object.Change {
		return func(s *cloneSetScene) []object.Change { return a.Restore(s.set, s.owned, HoldFromRecords(s.set), how) }
	}
	rest := func(s *cloneSetScene) []object.Change {
		return a.RestoreStrategy(s.set, s.owned, HoldFromRecords(s.set))
	}
	back, done := setSurgeTarget("0", true), planner.RestoreWorkload{Wait: true}
	for name, tc := range map[string]struct {
		in *cloneSetScene
		op func(*cloneSetScene) []object.Change
	}{
		"first":        {newCloneSetScene("b", "AAAAA", setOwnerSettings, pauseCloneSet, holdCloneSet).scaled(), setSurgeTarget("50%", false)},
		"default":      {newCloneSetScene("b", "AAAAA", holdCloneSet), setSurgeTarget("100%", false)},
		"none":         {newCloneSetScene("b", "AAAAA", holdCloneSet), setSurgeTarget("0", false)},
		"on":           {surgingCloneSet("b", "AAAAABBB", "50%"), setSurgeTarget("100%", false)},
		"lost":         {surgingCloneSet("b", "AAAAABBBBB", "100%").lose("b", 1), setSurgeTarget("100%", false)},
		"grown":        {surgingCloneSet("b", "AAAAABBB", "50%").with(cloneSetSize(7)), setSurgeTarget("50%", false)},
		"short":        {surgingCloneSet("b", "AAAAABBB", "50%").lose("a", 1), setSurgeTarget("50%", false)},
		"too-short":    {surgingCloneSet("b", "AAAAABBB", "50%").lose("a", 3), setSurgeTarget("50%", false)},
		"third-early":  {surgingCloneSet("b", "AAAAABBB", "50%").then(setSurgeTarget("100%", false)).live("c").live("b"), setSurgeTarget("100%", false)},
		"third":        {surgingCloneSet("b", "AAAAABBB", "50%").live("c").live("b"), setSurgeTarget("50%", false)},
		"back":         {surgingCloneSet("b", "AAAAABBB", "50%"), back},
		"back-third":   {surgingCloneSet("b", "AAAAABBB", "50%").live("c"), back},
		"rest-early":   {surgingCloneSet("b", "AAAAABBB", "50%").then(back).with(unobservedCloneSet), rest},
		"rest":         {surgingCloneSet("b", "AAAAA", "50%").then(back), rest},
		"retry-early":  {surgingCloneSet("b", "AAAAB", "50%").then(back), setSurgeTarget("50%", false)},
		"retry":        {surgingCloneSet("b", "AAAAA", "50%").then(back).then(rest), setSurgeTarget("50%", false)},
		"zero":         {surgingCloneSet("b", "AAAAABBB", "50%").with(cloneSetSize(0)), setSurgeTarget("50%", false)},
		"restore":      {surgingCloneSet("b", "AAAAABBBBB", "100%", removeSavedPartition), restore(done)},
		"restore-own":  {surgingCloneSet("b", "AAAAABBBBB", "100%"), restore(done)},
		"restore-then": {surgingCloneSet("b", "AAAAABBBBB", "100%").then(restore(done)).with(countOnlyLivePods).lose("a", 5), restore(planner.RestoreWorkload{})},
		"restore-last": {surgingCloneSet("b", "AAAAABBBBB", "100%", removeSavedPartition).then(restore(done)).with(countOnlyLivePods).lose("a", 5), restore(done)},
		"restore-back": {surgingCloneSet("b", "AAAAABBB", "50%").live("a"), restore(planner.RestoreWorkload{})},
		"restore-left": {surgingCloneSet("b", "AAAAABBB", "50%"), restore(planner.RestoreWorkload{})},
		"restore-held": {surgingCloneSet("b", "AAAAABBB", "50%").then(back), restore(planner.RestoreWorkload{KeepPaused: true})},
	} {
		t.Run(name, func(t *testing.T) {
			before := golden.Text(t, tc.in.set)
			changes := tc.op(tc.in)
			golden.Changes(t, "surging-"+name, changes)
			if diff := cmp.Diff(before, golden.Text(t, tc.in.set)); diff != "" {
				t.Errorf("the input was changed (-before +after):\n%s", diff)
			}
			tc.in.then(func(*cloneSetScene) []object.Change { return changes })
			if again := tc.op(tc.in); len(again) != 0 {
				t.Errorf("not done after one pass, still wants:\n%s", golden.Diff(golden.Text(t, again[0].Base), golden.Text(t, again[0].Want)))
			}
		})
	}
}

// TestObserveSurgingClones checks that a target is applied when it is written and no autoscaler is
// active, that an abort is complete when the autoscaler is enabled, and that no key of Weir remains
// in the end.
func TestObserveSurgingClones(t *testing.T) {
	a := cloneSetBlueGreen{cloneSet}
	type facts struct {
		obeyed, native, mine, paused bool
		unavailable                  int32
	}
	rest := func(s *cloneSetScene) []object.Change {
		return a.RestoreStrategy(s.set, s.owned, HoldFromRecords(s.set))
	}
	held := func(s *cloneSetScene) []object.Change {
		return a.partitioned.RestoreStrategy(s.set, s.owned, HoldFromRecords(s.set))
	}
	restore := func(s *cloneSetScene) []object.Change {
		return a.Restore(s.set, s.owned, HoldFromRecords(s.set), planner.RestoreWorkload{})
	}
	for name, tc := range map[string]struct {
		in   *cloneSetScene
		want facts
	}{
		"held":             {newCloneSetScene("b", "AAAAA", holdCloneSet).scaled(), facts{native: true, mine: true, paused: true, unavailable: 2}},
		"driven":           {surgingCloneSet("b", "AAAAABBB", "50%"), facts{obeyed: true, mine: true, unavailable: 2}},
		"with another":     {surgingCloneSet("b", "AAAAABBB", "50%").scaled(), facts{mine: true, unavailable: 2}},
		"a third":          {surgingCloneSet("b", "AAAAABBB", "50%").live("c"), facts{mine: true, paused: true, unavailable: 2}},
		"going back":       {surgingCloneSet("b", "AAAAABBB", "50%").then(setSurgeTarget("0", true)), facts{obeyed: true, mine: true, unavailable: 2}},
		"back, at rest":    {surgingCloneSet("b", "AAAAA", "50%").then(setSurgeTarget("0", true)).then(rest), facts{obeyed: true, native: true, mine: true, paused: true, unavailable: 2}},
		"back, one scaler": {surgingCloneSet("b", "AAAAA", "50%").then(setSurgeTarget("0", true)).then(held), facts{obeyed: true, mine: true, paused: true, unavailable: 2}},
		"restored":         {surgingCloneSet("b", "AAAAABBBBB", "100%").then(restore), facts{native: true, unavailable: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			w := a.Observe(tc.in.set, tc.in.owned, HoldFromRecords(tc.in.set))
			if got := (facts{w.TargetApplied, w.OwnerStrategyActive, w.HasManagedFields, w.Paused, w.MaxUnavailable}); got != tc.want {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
		})
	}
	only := newCloneSetScene("b", "AAAAA", func(c *CloneSet) { c.Spec.UpdateStrategy.Type = "InPlaceOnly" })
	if a.Observe(only.set, only.owned, HoldFromRecords(only.set)).UnsupportedReason == "" {
		t.Error("one that is updated in place only is fit")
	}
}

// TestSurgingClonesLostRecord checks that the defaults are restored if the saved strategy is lost or
// has Weir's own values.
func TestSurgingClonesLostRecord(t *testing.T) {
	for _, record := range []string{"", `{"maxUnavailable":0,"maxSurge":"40%","minReadySeconds":2147483646}`} {
		s := surgingCloneSet("b", "aaaaa", "40%").with(func(c *CloneSet) {
			c.Annotations = withoutKeys(c.Annotations, rollouts.AnnotationOriginalStrategy)
			if record != "" {
				setAnnotation(c, rollouts.AnnotationOriginalStrategy, record)
			}
		})
		for range 2 {
			s.then(func(s *cloneSetScene) []object.Change {
				return cloneSetBlueGreen{cloneSet}.Restore(s.set, s.owned, HoldFromRecords(s.set), planner.RestoreWorkload{})
			})
		}
		if got, u := s.set.Spec.MinReadySeconds, s.set.Spec.UpdateStrategy; got != 0 || u.MaxSurge != nil || u.MaxUnavailable != nil {
			t.Errorf("record %q: minReadySeconds %d, maxSurge %v, maxUnavailable %v are restored; want the defaults", record, got, u.MaxSurge, u.MaxUnavailable)
		}
	}
}

// TestEnableAutoscalers checks that disabled autoscalers are enabled even without their workload, and
// that others do not change.
func TestEnableAutoscalers(t *testing.T) {
	for _, style := range []rollouts.Style{rollouts.StyleBlueGreen, rollouts.StylePartition} {
		row, ok := Find("apps.kruise.io/v1alpha1", "CloneSet", style)
		if !ok {
			t.Fatal("no row")
		}
		aimed := func(kind, target string) *autoscalingv2.HorizontalPodAutoscaler {
			h := &autoscalingv2.HorizontalPodAutoscaler{}
			h.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps.kruise.io/v1alpha1", Kind: kind, Name: target}
			return h
		}
		changes := row.EnableAutoscalers("web", []object.Object{
			aimed("CloneSet", "web-DisableByRollout"), aimed("CloneSet", "web"), aimed("CloneSet", "db-DisableByRollout"), aimed("StatefulSet", "web-DisableByRollout"),
		})
		want := map[rollouts.Style]int{rollouts.StyleBlueGreen: 1}[style]
		if len(changes) != want || want == 1 && changes[0].Want.(*autoscalingv2.HorizontalPodAutoscaler).Spec.ScaleTargetRef.Name != "web" {
			t.Errorf("%s: %d changes, want %d: %v", style, len(changes), want, changes)
		}
	}
}
