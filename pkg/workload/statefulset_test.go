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

// statefulScene is a StatefulSet as its native controller left it. The letters are the revisions of the
// pods, from the lowest ordinal; lower-case pods are not ready, and a dot is a missing pod.
type statefulScene struct {
	*testing.T
	set   *appsv1.StatefulSet
	owned []object.Object
}

func newStatefulScene(t *testing.T, live, pods string, edits ...func(*appsv1.StatefulSet)) *statefulScene {
	t.Helper()
	s := &statefulScene{T: t, set: &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: metav1.ObjectMeta{Name: "db", UID: "s-1", Generation: 3, Labels: map[string]string{rollouts.LabelWorkloadType: "statefulset"}},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(len(pods))), RevisionHistoryLimit: new(int32(2)), Template: *templateOf(live), //nolint:gosec // a few
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{
				Type:          appsv1.RollingUpdateStatefulSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32(2))},
			},
		},
		Status: appsv1.StatefulSetStatus{
			ObservedGeneration: 3, CurrentRevision: "db-a", UpdateRevision: "db-" + live, Replicas: int32(len(pods)), //nolint:gosec // a few
			UpdatedReplicas: int32(strings.Count(strings.ToLower(pods), live)), //nolint:gosec // a few
		},
	}}
	ref := *metav1.NewControllerRef(s.set, statefulSetKind)
	for i, letter := range "abc" {
		s.owned = append(s.owned, &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{Name: "db-" + string(letter), OwnerReferences: []metav1.OwnerReference{ref}}, Revision: int64(i),
			Data: runtime.RawExtension{Raw: []byte(encode(map[string]any{"spec": map[string]any{"template": templateOf(string(letter))}}))},
		})
	}
	for i, letter := range pods {
		if letter != '.' {
			s.owned = append(s.owned, podOf(i, string(letter), ref))
		}
	}
	for _, edit := range edits {
		edit(s.set)
	}
	return s
}

func templateOf(revision string) *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "db", Image: "db:" + revision}}}}
}

func podOf(ordinal int, letter string, ref metav1.OwnerReference) *corev1.Pod {
	p := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("db-%d", ordinal), OwnerReferences: []metav1.OwnerReference{ref},
			Labels: map[string]string{appsv1.ControllerRevisionHashLabelKey: "db-" + strings.ToLower(letter)},
		},
	}
	if letter != strings.ToLower(letter) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	return p
}

func holdStatefulSet(s *appsv1.StatefulSet) { statefulSet.Hold(s, "db", hasHoldMark(s)) }

// setStatefulTarget writes the records of a target.
func setStatefulTarget(partition, share int32, abort bool, more string) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) {
		holdStatefulSet(s)
		nativeStatefulSet{s}.setPartition(partition)
		s.Labels[rollouts.LabelStableRevision] = "db-a"
		s.Spec.RevisionHistoryLimit = new(minHistoryLimit)
		writeController(s, owner())
		setAnnotation(s, rollouts.AnnotationDeploymentStrategy,
			fmt.Sprintf(`{"rollingStyle":"Partition","partition":%d,"abort":%t,"revision":"db-b","revisionHistoryLimit":2%s}`, share, abort, more))
	}
}

const asideB = `,"aside":"db-b"`

func completeStatefulSet(s *appsv1.StatefulSet) { s.Status.CurrentRevision = s.Status.UpdateRevision }

func unobservedStatefulSet(s *appsv1.StatefulSet) {
	s.Generation++
	s.Status.UpdateRevision = "db-a"
}

// TestStatefulSetChanges has one golden file for each case. A second pass must have no changes.
func TestStatefulSetChanges(t *testing.T) {
	a := statefulSet
	drive := func(share string, abort bool) func(*statefulScene) []object.Change {
		return func(s *statefulScene) []object.Change {
			to := planner.Target{Partition: intstr.Parse(share), Abort: abort, Owner: "b-1", Revision: planner.Revision{Name: "db-b"}}
			return a.SetTarget(s.set, s.owned, HoldFromRecords(s.set), planner.SetTarget{Target: to}, owner())
		}
	}
	restore := func(paused bool) func(*statefulScene) []object.Change {
		return func(s *statefulScene) []object.Change {
			return a.Restore(s.set, s.owned, HoldFromRecords(s.set), planner.RestoreWorkload{KeepPaused: paused})
		}
	}
	rest := func(s *statefulScene) []object.Change {
		return a.RestoreStrategy(s.set, s.owned, HoldFromRecords(s.set))
	}
	stable := func(s *statefulScene) []object.Change { return a.SetStable(s.set, s.owned, HoldFromRecords(s.set)) }
	for name, tc := range map[string]struct {
		in func(*testing.T) *statefulScene
		op func(*statefulScene) []object.Change
	}{
		"drive-first": {statefulSceneOf("b", "AAAAA", holdStatefulSet), drive("20%", false)},
		"drive-on":    {statefulSceneOf("b", "AAAAB", setStatefulTarget(4, 1, false, "")), drive("60%", false)},
		"drive-third": {statefulSceneOf("c", "AAABB", setStatefulTarget(frozen, 1, false, "")), drive("20%", false)},
		// A pod that never gets ready holds its native controller up.
		"drive-stuck": {statefulSceneOf("c", "AAABb", setStatefulTarget(4, 1, false, "")), drive("1", false)},
		// The lowest ordinals run the stable version already.
		"drive-batches":    {statefulSceneOf("a", "AAABB", setStatefulTarget(frozen, 4, false, "")), drive("4", false)},
		"drive-back":       {statefulSceneOf("b", "AAABB", setStatefulTarget(3, 2, false, "")), drive("0", true)},
		"drive-back-but-1": {statefulSceneOf("b", "AAABB", setStatefulTarget(3, 2, false, "")), drive("1", true)},
		"drive-back-all":   {statefulSceneOf("b", "BBBBB", setStatefulTarget(0, 5, false, ""), completeStatefulSet), drive("0", true)},
		"drive-back-none":  {statefulSceneOf("b", "AAAAA", setStatefulTarget(4, 1, false, "")), drive("0", true)},
		"drive-back-stuck": {statefulSceneOf("a", "AAAAb", setStatefulTarget(0, 0, true, asideB)), drive("0", true)},
		"drive-retry":      {statefulSceneOf("b", "AAAAA", setStatefulTarget(frozen, 0, true, "")), drive("20%", false)},
		"drive-zero":       {statefulSceneOf("b", "", setStatefulTarget(4, 1, false, "")), drive("1", false)},
		"drive-grown":      {statefulSceneOf("a", "AAAAA", setStatefulTarget(0, 1, false, asideB)), drive("1", false)},
		"drive-growing":    {statefulSceneOf("a", "AAAAA", setStatefulTarget(0, 1, false, asideB), unobservedStatefulSet), drive("1", false)},
		"rest":             {statefulSceneOf("a", "AAAAA", setStatefulTarget(0, 0, true, asideB)), rest},
		"rest-early":       {statefulSceneOf("a", "AAAAA", setStatefulTarget(0, 0, true, asideB), func(s *appsv1.StatefulSet) { s.Status.CurrentRevision = "db-b" }), rest},
		"stable":           {statefulSceneOf("b", "AAAAA", setStatefulTarget(frozen, 0, true, "")), stable},
		"restore":          {statefulSceneOf("b", "BBBBB", setStatefulTarget(0, 5, false, "")), restore(false)},
		"restore-held":     {statefulSceneOf("b", "AAAAA", holdStatefulSet), restore(false)},
		"restore-paused":   {statefulSceneOf("b", "AAAAA", setStatefulTarget(frozen, 0, true, "")), restore(true)},
		"restore-zero":     {statefulSceneOf("a", "", setStatefulTarget(0, 5, false, asideB)), restore(false)},
		"restore-nothing":  {statefulSceneOf("b", "BBBBB"), restore(false)},
		"restore-owners": {statefulSceneOf("b", "BBBBB", setStatefulTarget(0, 5, false, ""), func(s *appsv1.StatefulSet) {
			setAnnotation(s, rollouts.AnnotationOriginalStrategy, `{"type":"OnDelete"}`)
		}), restore(false)},
	} {
		t.Run(name, func(t *testing.T) {
			s := tc.in(t)
			before := golden.Text(t, s.set)
			changes := tc.op(s)
			golden.Changes(t, "set-"+name, changes)
			if diff := cmp.Diff(before, golden.Text(t, s.set)); diff != "" {
				t.Errorf("the input was changed (-before +after):\n%s", diff)
			}
			for _, c := range changes {
				if want, ok := c.Want.(*appsv1.StatefulSet); ok {
					s.set = want
					s.set.Generation++
				}
			}
			if again := tc.op(s); len(again) != 0 && again[0].Want != nil {
				t.Errorf("not done after one pass, still wants:\n%s", golden.Diff(golden.Text(t, again[0].Base), golden.Text(t, again[0].Want)))
			}
		})
	}
}

func statefulSceneOf(live, pods string, edits ...func(*appsv1.StatefulSet)) func(*testing.T) *statefulScene {
	return func(t *testing.T) *statefulScene { t.Helper(); return newStatefulScene(t, live, pods, edits...) }
}

// TestObserveStatefulSet names the facts that matter in each case.
func TestObserveStatefulSet(t *testing.T) {
	type facts = planner.Workload
	for name, tc := range map[string]struct {
		in   func(*testing.T) *statefulScene
		want facts
	}{
		"at rest": {statefulSceneOf("a", "AAAAA"), facts{
			Settled:       true,
			HoldFacts:     planner.HoldFacts{OwnerStrategyActive: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "db-a", UpdateRevision: "db-a", HasStableTemplate: true},
			PodFacts:      planner.PodFacts{UpdatedReplicas: 5, UpdatedReadyReplicas: 5, StableReadyReplicas: 5, LiveReadyReplicas: 5},
		}},
		"rolling natively": {statefulSceneOf("b", "AAABB"), facts{
			Settled: true, NativeUpdateRunning: true,
			HoldFacts:     planner.HoldFacts{OwnerStrategyActive: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "db-a", UpdateRevision: "db-b"},
			PodFacts:      planner.PodFacts{UpdatedReplicas: 2, UpdatedReadyReplicas: 2, StableReplicas: 3, StableReadyReplicas: 3, LiveReadyReplicas: 2},
		}},
		"held, not named yet": {statefulSceneOf("d", "AAAAA", holdStatefulSet, unobservedStatefulSet), facts{
			Paused:        true,
			HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true, OwnerStrategyActive: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "db-a"},
			PodFacts:      planner.PodFacts{StableReplicas: 5, StableReadyReplicas: 5},
		}},
		"driven": {statefulSceneOf("b", "AAAAb", setStatefulTarget(4, 1, false, "")), facts{
			Settled:       true,
			HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true, TargetApplied: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "db-a", UpdateRevision: "db-b"},
			PodFacts:      planner.PodFacts{UpdatedReplicas: 1, StableReplicas: 4, StableReadyReplicas: 4},
		}},
		"a third": {statefulSceneOf("c", "AAABC", setStatefulTarget(4, 1, false, "")), facts{
			Settled:       true,
			HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true, TargetApplied: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "db-a", UpdateRevision: "db-c"},
			PodFacts:      planner.PodFacts{UpdatedReplicas: 1, UpdatedReadyReplicas: 1, StableReplicas: 4, StableReadyReplicas: 3, SupersededReplicas: 1, SupersededKept: 1, LiveReadyReplicas: 1},
		}},
		"complete, and its controller has forgotten": {statefulSceneOf("b", "BBBBB", setStatefulTarget(frozen, 5, false, ""), completeStatefulSet), facts{
			Settled: true, Paused: true,
			HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true, TargetApplied: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "db-a", UpdateRevision: "db-b"},
			PodFacts:      planner.PodFacts{UpdatedReplicas: 5, UpdatedReadyReplicas: 5, LiveReadyReplicas: 5},
		}},
		"going back": {statefulSceneOf("a", "AAAAB", setStatefulTarget(0, 0, true, asideB)), facts{
			Settled:       true,
			HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true, TargetApplied: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "db-a", UpdateRevision: "db-b"},
			PodFacts:      planner.PodFacts{UpdatedReplicas: 1, UpdatedReadyReplicas: 1, StableReplicas: 4, StableReadyReplicas: 4, LiveReadyReplicas: 4},
		}},
		"back, and at rest": {statefulSceneOf("b", "AAAAA", setStatefulTarget(frozen, 0, true, "")), facts{
			Settled: true, Paused: true,
			HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true, TargetApplied: true, OwnerStrategyActive: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "db-a", UpdateRevision: "db-b"},
			PodFacts:      planner.PodFacts{StableReplicas: 5, StableReadyReplicas: 5},
		}},
		"told to go back, and not on the way": {statefulSceneOf("b", "AAAAB", setStatefulTarget(4, 0, true, "")), facts{
			Settled:       true,
			HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "db-a", UpdateRevision: "db-b"},
			PodFacts:      planner.PodFacts{UpdatedReplicas: 1, UpdatedReadyReplicas: 1, StableReplicas: 4, StableReadyReplicas: 4, LiveReadyReplicas: 1},
		}},
		"another came on the way back": {statefulSceneOf("c", "AAAAB", setStatefulTarget(frozen, 0, true, asideB)), facts{
			Settled: true, Paused: true,
			HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "db-a", UpdateRevision: "db-c"},
			PodFacts:      planner.PodFacts{StableReplicas: 5, StableReadyReplicas: 4, SupersededReplicas: 1},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := tc.in(t)
			got := statefulSet.Observe(s.set, s.owned, HoldFromRecords(s.set))
			tc.want.Generation, tc.want.Replicas, tc.want.Labelled, tc.want.MaxUnavailable = s.set.Generation, 5, true, 1
			tc.want.PodTemplateHash, tc.want.LiveRevision, tc.want.RevisionKind = got.UpdateRevision, got.LiveRevision, "ControllerRevision"
			tc.want.KeepsLastStablePod = tc.want.UpdateRevision != tc.want.StableRevision
			if tc.want.AbortSetsTemplate = true; !tc.want.StableRevisionGone {
				tc.want.StableTemplate = digestWithLabels(templateOf(hashSuffix(tc.want.StableRevision)))
			}
			if got.LiveRevision == got.UpdateRevision { // else the stable template was set in its place
				tc.want.UpdateTemplate = digestWithLabels(&s.set.Spec.Template)
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(facts{}, "Target", "Revisions")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestOnDeleteUnsupported checks the reason for a StatefulSet whose controller replaces no pods.
func TestOnDeleteUnsupported(t *testing.T) {
	s := newStatefulScene(t, "a", "AAA", func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType })
	if why := statefulSet.Observe(s.set, s.owned, HoldFromRecords(s.set)).UnsupportedReason; !strings.HasPrefix(why, "the StatefulSet has spec.updateStrategy.type OnDelete, which replaces a pod only") {
		t.Errorf("says %q", why)
	}
}

// TestStatefulSetLikeMissingField checks that a StatefulSet of another group without a release reports the field that it
// lacks.
func TestStatefulSetLikeMissingField(t *testing.T) {
	for want, edit := range map[string]func(*appsv1.StatefulSet){
		"":                               func(*appsv1.StatefulSet) {},
		"no pods in spec.template":       func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers = nil },
		"no status.observedGeneration":   func(s *appsv1.StatefulSet) { s.Status.ObservedGeneration = 0 },
		"no status.updateRevision":       func(s *appsv1.StatefulSet) { s.Status.UpdateRevision = "" },
		"no ControllerRevision":          func(s *appsv1.StatefulSet) { s.Status.CurrentRevision = "" },
		"spec.updateStrategy.type OnDel": func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType },
	} {
		s := newStatefulScene(t, "a", "AAA", edit)
		got := statefulSetLike.Observe(likeOf(s), s.owned, HoldFromRecords(likeOf(s))).UnsupportedReason
		if !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("want %q, says %q", want, got)
		}
		holdStatefulSet(s.set)
		if got := statefulSetLike.Observe(likeOf(s), s.owned, HoldFromRecords(likeOf(s))).UnsupportedReason; got != "" {
			t.Errorf("held, and says %q", got)
		}
	}
}

// TestStatefulSetLikeWithoutType checks that Weir does not write a field that the kind lacks: the field would
// be missing again after every write.
func TestStatefulSetLikeWithoutType(t *testing.T) {
	s := newStatefulScene(t, "b", "AAA", func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.Type = "" }, holdStatefulSet)
	if got := s.set.Spec.UpdateStrategy.Type; got != "" || *s.set.Spec.UpdateStrategy.RollingUpdate.Partition != frozen {
		t.Errorf("type %q, partition %d", got, *s.set.Spec.UpdateStrategy.RollingUpdate.Partition)
	}
}

// TestHoldAgain holds a StatefulSet again during a step. The owner's saved settings stay.
func TestHoldAgain(t *testing.T) {
	t.Parallel()
	row, _ := Find("apps/v1", "StatefulSet", rollouts.StylePartition)
	s := &appsv1.StatefulSet{}
	s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{
		Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32(2))},
	}
	row.Hold(s, "web", hasHoldMark(s))
	noted := s.Annotations[rollouts.AnnotationOriginalStrategy]
	s.Spec.UpdateStrategy.RollingUpdate.Partition = new(int32(3))
	row.Hold(s, "web", hasHoldMark(s))
	if again := s.Annotations[rollouts.AnnotationOriginalStrategy]; again != noted || noted == "" {
		t.Errorf("the owner's strategy is %q, and %q when held again", noted, again)
	}
}
