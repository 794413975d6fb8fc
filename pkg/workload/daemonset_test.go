// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"slices"
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

// daemonScene is a DaemonSet as its native controller left it. The letter of each node is the revision of
// its pod; lower-case pods are not ready, and a dot is a node without a pod.
type daemonScene struct {
	set   *appsv1.DaemonSet
	owned []object.Object
}

type setEdit func(*daemonScene)

func newDaemonScene(live, pods string, edits ...setEdit) *daemonScene {
	n := &daemonScene{set: &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: metav1.ObjectMeta{Name: "log", UID: "d-1", Generation: 3, Labels: map[string]string{rollouts.LabelWorkloadType: "daemonset"}},
		Spec: appsv1.DaemonSetSpec{
			RevisionHistoryLimit: new(int32(2)), Template: *templateOf(live),
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
				Type:          appsv1.RollingUpdateDaemonSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: new(intstr.FromInt32(2)), MaxSurge: new(intstr.FromInt32(0))},
			},
		},
		Status: appsv1.DaemonSetStatus{
			ObservedGeneration: 3, DesiredNumberScheduled: int32(len(pods)), //nolint:gosec // a few
			UpdatedNumberScheduled: int32(strings.Count(strings.ToLower(pods), live)), //nolint:gosec // a few
		},
	}}
	ref := *metav1.NewControllerRef(n.set, daemonSetKind)
	for i, letter := range "abc" {
		n.owned = append(n.owned, &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{
				Name: "log-" + string(letter), OwnerReferences: []metav1.OwnerReference{ref},
				Labels: map[string]string{appsv1.DefaultDaemonSetUniqueLabelKey: string(letter)},
			},
			Revision: int64(i),
			Data:     runtime.RawExtension{Raw: []byte(encode(map[string]any{"spec": map[string]any{"template": templateOf(string(letter))}}))},
		})
	}
	for i, letter := range pods {
		if letter != '.' {
			p := podOf(i, string(letter), ref)
			p.Name, p.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] = fmt.Sprintf("log-%d", i), strings.ToLower(string(letter))
			n.owned = append(n.owned, p)
		}
	}
	for _, edit := range edits {
		edit(n)
	}
	return n
}

func (n *daemonScene) pod(i int) *corev1.Pod {
	at := slices.IndexFunc(n.owned, func(o object.Object) bool { return o.GetName() == fmt.Sprintf("log-%d", i) })
	return n.owned[at].(*corev1.Pod)
}

func holdDaemon(n *daemonScene) { daemonSet.Hold(n.set, "log", hasHoldMark(n.set)) }

// setDaemonTarget writes the records of a target.
func setDaemonTarget(share int32, abort bool, aside string) setEdit {
	return func(n *daemonScene) {
		holdDaemon(n)
		n.set.Labels[rollouts.LabelStableRevision] = "a"
		n.set.Spec.RevisionHistoryLimit = new(minHistoryLimit)
		writeController(n.set, owner())
		v := strategyRecord{
			RollingStyle: rollouts.StylePartition, Partition: intstr.FromInt32(share), Abort: abort,
			Revision: "b", RevisionHistoryLimit: new(int32(2)), SetAsideRevision: aside,
		}
		setAnnotation(n.set, rollouts.AnnotationDeploymentStrategy, encode(v))
	}
}

func setOwnersOnDelete(n *daemonScene) {
	n.set.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
}

func unobservedDaemon(n *daemonScene) { n.set.Generation++ }

func setMaxUnavailable(n intstr.IntOrString) setEdit {
	return func(s *daemonScene) { s.set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = &n }
}

// deletePod marks a pod as being deleted.
func deletePod(i int) setEdit {
	return func(n *daemonScene) { n.pod(i).DeletionTimestamp = new(metav1.Unix(1000, 0)) }
}

// loseNode makes the node of a pod unreachable.
func loseNode(i int) setEdit {
	return func(n *daemonScene) {
		n.pod(i).Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionFalse}, {Type: corev1.ContainersReady, Status: corev1.ConditionTrue},
		}
	}
}

// TestDaemonSetChanges has one golden file for each case. A second pass must have no changes.
func TestDaemonSetChanges(t *testing.T) {
	a := daemonSet
	drive := func(share string, abort bool) func(*daemonScene) []object.Change {
		return func(n *daemonScene) []object.Change {
			to := planner.Target{Partition: intstr.Parse(share), Abort: abort, Owner: "b-1", Revision: planner.Revision{Name: "b"}}
			return a.SetTarget(n.set, n.owned, HoldFromRecords(n.set), planner.SetTarget{Target: to}, owner())
		}
	}
	restore := func(how planner.RestoreWorkload) func(*daemonScene) []object.Change {
		return func(n *daemonScene) []object.Change { return a.Restore(n.set, n.owned, HoldFromRecords(n.set), how) }
	}
	wait, paused := planner.RestoreWorkload{Wait: true}, planner.RestoreWorkload{KeepPaused: true}
	stable := func(n *daemonScene) []object.Change { return a.SetStable(n.set, n.owned, HoldFromRecords(n.set)) }
	for name, tc := range map[string]struct {
		in *daemonScene
		op func(*daemonScene) []object.Change
	}{
		"drive-first":           {newDaemonScene("b", "AAAAA", holdDaemon), drive("20%", false)},
		"drive-on":              {newDaemonScene("b", "AAAAA", setDaemonTarget(2, false, "")), drive("2", false)},
		"drive-resumed":         {newDaemonScene("b", "AAAAB", setDaemonTarget(2, false, ""), func(n *daemonScene) { n.set.Spec.UpdateStrategy.Type = "" }), drive("2", false)},
		"drive-back":            {newDaemonScene("b", "AAABB", setDaemonTarget(2, false, "")), drive("0", true)},
		"drive-back-on":         {newDaemonScene("a", "AAABB", setDaemonTarget(0, true, "b")), drive("0", true)},
		"drive-back-overtaken":  {newDaemonScene("c", "AAABB", setDaemonTarget(0, true, "b")), drive("0", true)},
		"drive-back-forgotten":  {newDaemonScene("b", "AAABB", setDaemonTarget(0, true, ""), func(n *daemonScene) { n.owned = n.owned[1:] }), drive("0", true)},
		"drive-retry":           {newDaemonScene("a", "AAAAA", setDaemonTarget(0, true, "b")), drive("20%", false)},
		"stable":                {newDaemonScene("a", "AAAAA", setDaemonTarget(0, true, "b")), stable},
		"restore":               {newDaemonScene("b", "BBBBB", setDaemonTarget(5, false, "")), restore(wait)},
		"restore-rest-natively": {newDaemonScene("b", "AAABB", setDaemonTarget(2, false, "")), restore(wait)},
		"restore-half-way":      {newDaemonScene("b", "AAABB", setDaemonTarget(2, false, "")), restore(planner.RestoreWorkload{})},
		"restore-complete":      {newDaemonScene("b", "BBBBB", setDaemonTarget(5, false, "")), restore(planner.RestoreWorkload{})},
		"restore-cancelled":     {newDaemonScene("a", "AAAAA", setDaemonTarget(2, false, "")), restore(planner.RestoreWorkload{})},
		"restore-held":          {newDaemonScene("b", "AAAAA", holdDaemon), restore(planner.RestoreWorkload{})},
		"restore-paused":        {newDaemonScene("a", "AAAAA", setDaemonTarget(0, true, "b")), restore(paused)},
		"restore-paused-mixed":  {newDaemonScene("a", "AAAAB", setDaemonTarget(0, true, "b")), restore(paused)},
		"restore-owners":        {newDaemonScene("b", "BBBBB", setOwnersOnDelete, setDaemonTarget(5, false, "")), restore(wait)},
		"restore-taken-over": {newDaemonScene("b", "BBBBB", setDaemonTarget(5, false, ""), func(n *daemonScene) {
			setAnnotation(n.set, kruiseTypeAnnotation, "OnDelete")
			setAnnotation(n.set, "rollouts.kruise.io/daemonset-advanced-control", `{"partition":"0","batch-revision":"b"}`)
		}), restore(wait)},
		"restore-nothing":  {newDaemonScene("b", "BBBBB"), restore(wait)},
		"restore-not-ours": {newDaemonScene("b", "BBBBB", setOwnersOnDelete), restore(wait)},
	} {
		t.Run(name, func(t *testing.T) {
			n := tc.in
			before := golden.Text(t, n.set)
			changes := tc.op(n)
			golden.Changes(t, "daemon-"+name, changes)
			if diff := cmp.Diff(before, golden.Text(t, n.set)); diff != "" {
				t.Errorf("the input was changed (-before +after):\n%s", diff)
			}
			for _, c := range changes {
				if want, ok := c.Want.(*appsv1.DaemonSet); ok {
					n.set = want
					n.set.Generation++
				}
			}
			if again := tc.op(n); len(again) != 0 && again[0].Want != nil {
				t.Errorf("not done after one pass, still wants:\n%s", golden.Diff(golden.Text(t, again[0].Base), golden.Text(t, again[0].Want)))
			}
		})
	}
}

// TestPodsToReplace names the nodes whose pods are deleted now.
func TestPodsToReplace(t *testing.T) {
	all := intstr.FromString("100%")
	for name, tc := range map[string]struct {
		in    *daemonScene
		share intstr.IntOrString
		abort bool
		want  string
	}{
		"one":                              {newDaemonScene("b", "AAAAA"), intstr.FromInt32(1), false, "log-0"},
		"none":                             {newDaemonScene("b", "AAAAA"), intstr.FromInt32(0), false, ""},
		"as many as the owner allows":      {newDaemonScene("b", "AAAAA"), all, false, "log-0 log-1"},
		"half of them, rounded up":         {newDaemonScene("b", "AAAAA", setMaxUnavailable(intstr.FromString("50%"))), all, false, "log-0 log-1 log-2"},
		"never fewer than one":             {newDaemonScene("b", "AAAAA", setMaxUnavailable(intstr.FromString("0%"))), all, false, "log-0"},
		"the rest waits for those to come": {newDaemonScene("b", "b.AAA"), all, false, ""},
		"and continues with each":          {newDaemonScene("b", "bBAAA"), all, false, "log-2"},
		"one on its way is one of them":    {newDaemonScene("b", "AAAAA", deletePod(4)), intstr.FromInt32(1), false, ""},
		"a node that joins is one, too":    {newDaemonScene("b", "AAAAA."), intstr.FromInt32(1), false, ""},
		"one of a step that has enough":    {newDaemonScene("b", "AAABB"), intstr.FromInt32(1), false, ""},
		"one that is not ready goes first": {newDaemonScene("b", "AAAaA"), intstr.FromInt32(1), false, "log-3"},
		"and costs nothing":                {newDaemonScene("b", "aaaAA"), all, false, "log-0 log-1 log-2"},
		"a silent node goes last":          {newDaemonScene("b", "AAAAA", loseNode(0)), intstr.FromInt32(1), false, "log-1"},
		"but it goes":                      {newDaemonScene("b", "ABBBB", loseNode(0)), all, false, "log-0"},
		"nothing comes on a silent node":   {newDaemonScene("b", "AAAAA", loseNode(0), deletePod(0)), intstr.FromInt32(1), false, "log-1"},
		"too many are silent":              {newDaemonScene("b", "AAAAA", loseNode(0), loseNode(1)), intstr.FromInt32(1), false, "log-0"},
		"a superseded one before stable":   {newDaemonScene("c", "ABABA", setDaemonTarget(1, false, "")), intstr.FromInt32(1), false, "log-1"},
		"as its user wants it": {newDaemonScene("b", "AAAAA", func(n *daemonScene) {
			n.pod(3).Annotations = map[string]string{corev1.PodDeletionCost: "-1"}
		}), intstr.FromInt32(1), false, "log-3"},
		"the youngest": {newDaemonScene("b", "AAAAA", func(n *daemonScene) { n.pod(2).CreationTimestamp = metav1.Unix(1000, 0) }), intstr.FromInt32(1), false, "log-2"},
		"not served for long enough": {newDaemonScene("b", "BBAAA", func(n *daemonScene) {
			n.set.Spec.MinReadySeconds, n.set.Status.NumberAvailable = 60, 3
		}), all, false, ""},
		"back":                                 {newDaemonScene("a", "AABBB", setDaemonTarget(0, true, "b")), intstr.FromInt32(0), true, "log-2 log-3"},
		"back but for one":                     {newDaemonScene("a", "AABBB", setDaemonTarget(1, true, "b"), setMaxUnavailable(all)), intstr.FromInt32(1), true, "log-2 log-3"},
		"not back before stable is live":       {newDaemonScene("b", "AABBB", setDaemonTarget(0, true, "")), intstr.FromInt32(0), true, ""},
		"nor before its controller knows":      {newDaemonScene("a", "AABBB", setDaemonTarget(0, true, "b"), unobservedDaemon), intstr.FromInt32(0), true, ""},
		"not before the template is known":     {newDaemonScene("d", "AAAAA"), all, false, ""},
		"a status that counts fewer than pods": {newDaemonScene("b", "BAAA", func(n *daemonScene) { n.set.Status.DesiredNumberScheduled = 3 }), all, false, ""},
		"no node":                              {newDaemonScene("b", ""), all, false, ""},
		"the stable template again, half":      {newDaemonScene("a", "AAABB", setDaemonTarget(3, false, "")), intstr.FromInt32(4), false, "log-3"},
		"a step that was reached and scaled":   {newDaemonScene("b", "BAAA..", setDaemonTarget(1, false, "")), intstr.FromInt32(2), false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, pod := range daemonSet.view(tc.in.set, tc.in.owned, HoldFromRecords(tc.in.set)).podsToDelete(planner.Target{Partition: tc.share, Abort: tc.abort}) {
				got = append(got, pod.Name)
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestObserveDaemonSet names the facts that matter in each case.
func TestObserveDaemonSet(t *testing.T) {
	type facts = planner.Workload
	for name, tc := range map[string]struct {
		in   *daemonScene
		want facts
	}{
		"at rest": {newDaemonScene("a", "AAAAA"), facts{
			Settled:       true,
			HoldFacts:     planner.HoldFacts{OwnerStrategyActive: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "a", UpdateRevision: "a", HasStableTemplate: true},
			PodFacts:      planner.PodFacts{UpdatedReplicas: 5, UpdatedReadyReplicas: 5, StableReadyReplicas: 5, LiveReadyReplicas: 5},
		}},
		"rolling natively": {newDaemonScene("b", "AAABB"), facts{
			Settled: true, NativeUpdateRunning: true,
			HoldFacts:     planner.HoldFacts{OwnerStrategyActive: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "a", UpdateRevision: "b"},
			PodFacts:      planner.PodFacts{UpdatedReplicas: 2, UpdatedReadyReplicas: 2, StableReplicas: 3, StableReadyReplicas: 3, LiveReadyReplicas: 2},
		}},
		"left to its owner half-way": {newDaemonScene("b", "AAABB", setOwnersOnDelete), facts{
			Settled: true, Paused: true, NativeUpdateRunning: true,
			HoldFacts:     planner.HoldFacts{OwnerStrategyActive: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "a", UpdateRevision: "b"},
			PodFacts:      planner.PodFacts{UpdatedReplicas: 2, UpdatedReadyReplicas: 2, StableReplicas: 3, StableReadyReplicas: 3, LiveReadyReplicas: 2},
		}},
		"held, not named yet": {newDaemonScene("d", "AAAAA", holdDaemon, unobservedDaemon), facts{
			Paused:        true,
			HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true, OwnerStrategyActive: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "a"},
			PodFacts:      planner.PodFacts{StableReplicas: 5, StableReadyReplicas: 5},
		}},
		"held, and most nodes joined since": {newDaemonScene("b", "ABBBB", holdDaemon), facts{
			Settled: true, Paused: true,
			HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true, OwnerStrategyActive: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "a", UpdateRevision: "b"},
			PodFacts:      planner.PodFacts{UpdatedReplicas: 4, UpdatedReadyReplicas: 4, StableReplicas: 1, StableReadyReplicas: 1, LiveReadyReplicas: 4},
		}},
		"driven": {newDaemonScene("b", "AAAAb", setDaemonTarget(1, false, "")), facts{
			Settled: true, Paused: true,
			HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true, TargetApplied: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "a", UpdateRevision: "b"},
			PodFacts:      planner.PodFacts{UpdatedReplicas: 1, StableReplicas: 4, StableReadyReplicas: 4},
		}},
		"a pod is due": {newDaemonScene("b", "AAAAA", setDaemonTarget(1, false, "")), facts{
			Settled: true, Paused: true,
			HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "a", UpdateRevision: "b"},
			PodFacts:      planner.PodFacts{StableReplicas: 5, StableReadyReplicas: 5},
		}},
		"not counted yet": {newDaemonScene("b", "AAABB", setDaemonTarget(2, false, ""), func(n *daemonScene) { n.set.Status.UpdatedNumberScheduled = 1 }), facts{
			Settled: true, Paused: true,
			HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true, TargetApplied: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "a", UpdateRevision: "b"},
			PodFacts:      planner.PodFacts{UpdatedReplicas: 1, UpdatedReadyReplicas: 1, StableReplicas: 3, StableReadyReplicas: 3, LiveReadyReplicas: 2},
		}},
		"a third": {newDaemonScene("c", "AAABC", setDaemonTarget(1, false, "")), facts{
			Settled: true, Paused: true,
			HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true, TargetApplied: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "a", UpdateRevision: "c"},
			PodFacts:      planner.PodFacts{UpdatedReplicas: 1, UpdatedReadyReplicas: 1, StableReplicas: 4, StableReadyReplicas: 3, SupersededReplicas: 1, LiveReadyReplicas: 1},
		}},
		"going back": {newDaemonScene("a", "AAAAb", setDaemonTarget(0, true, "b")), facts{
			Settled: true, Paused: true,
			HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "a", UpdateRevision: "b"},
			PodFacts:      planner.PodFacts{UpdatedReplicas: 1, StableReplicas: 4, StableReadyReplicas: 4, LiveReadyReplicas: 4},
		}},
		"back": {newDaemonScene("a", "AAAAA", setDaemonTarget(0, true, "b")), facts{
			Settled: true, Paused: true,
			HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true, TargetApplied: true, OwnerStrategyActive: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "a", UpdateRevision: "b"},
			PodFacts:      planner.PodFacts{StableReplicas: 5, StableReadyReplicas: 5, LiveReadyReplicas: 5},
		}},
		"its owner writes it again": {newDaemonScene("b", "AAAAA", setDaemonTarget(0, true, "")), facts{
			Settled: true, Paused: true,
			HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "a", UpdateRevision: "b"},
			PodFacts:      planner.PodFacts{StableReplicas: 5, StableReadyReplicas: 5},
		}},
		"stable is forgotten": {newDaemonScene("b", "BBBBB", setDaemonTarget(5, false, ""), func(n *daemonScene) { n.owned = n.owned[1:] }), facts{
			Settled: true, Paused: true,
			HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true, TargetApplied: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "a", UpdateRevision: "b", StableRevisionGone: true},
			PodFacts:      planner.PodFacts{UpdatedReplicas: 5, UpdatedReadyReplicas: 5, LiveReadyReplicas: 5},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got := daemonSet.Observe(tc.in.set, tc.in.owned, HoldFromRecords(tc.in.set))
			tc.want.Generation, tc.want.Replicas, tc.want.Labelled, tc.want.MaxUnavailable = tc.in.set.Generation, 5, true, 2
			tc.want.NewPodsUseTemplate, tc.want.RevisionKind = true, "ControllerRevision"
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

// TestDaemonSetWithoutNodes checks that a DaemonSet without nodes never rolls, even before the native
// controller has observed its template.
func TestDaemonSetWithoutNodes(t *testing.T) {
	n := newDaemonScene("b", "", unobservedDaemon)
	if w := daemonSet.Observe(n.set, n.owned, HoldFromRecords(n.set)); w.NativeUpdateRunning || w.Settled {
		t.Errorf("rolling %t, settled %t", w.NativeUpdateRunning, w.Settled)
	}
}

// TestSurgeUnsupported checks that a DaemonSet with a surge is not supported.
func TestSurgeUnsupported(t *testing.T) {
	for surge, unfit := range map[intstr.IntOrString]bool{
		intstr.FromInt32(1): true, intstr.FromString("10%"): true, intstr.FromInt32(0): false, intstr.FromString("0%"): false,
	} {
		n := newDaemonScene("a", "AAA", func(n *daemonScene) { n.set.Spec.UpdateStrategy.RollingUpdate.MaxSurge = &surge })
		if why := daemonSet.Observe(n.set, n.owned, HoldFromRecords(n.set)).UnsupportedReason; strings.Contains(why, "maxSurge") != unfit {
			t.Errorf("maxSurge %s: says %q", surge.String(), why)
		}
	}
}
