// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/internal/golden"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/sizes"
)

func day(n int) time.Time { return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC) }

func setStrategyAnnotation(value string) edit {
	return func(_ *testing.T, d *appsv1.Deployment, _ []object.Object) {
		d.Annotations[rollouts.AnnotationDeploymentStrategy] = value
	}
}

func setSizeOfWeb(n int32) edit {
	return func(_ *testing.T, d *appsv1.Deployment, _ []object.Object) { *d.Spec.Replicas = n }
}

// removeHoldMark removes the marks of a Rollout, as on a Deployment without one.
func removeHoldMark(_ *testing.T, d *appsv1.Deployment, _ []object.Object) {
	delete(d.Annotations, rollouts.AnnotationInProgress)
	d.Annotations[rollouts.AnnotationControlInfo] = "nobody"
}

// lagBehind makes the controller of a ReplicaSet lag behind by some changes of its spec.
func lagBehind(name string, changes int64) edit {
	return func(t *testing.T, _ *appsv1.Deployment, owned []object.Object) {
		rs := findSet(t, owned, name)
		rs.Generation = rs.Status.ObservedGeneration + changes
	}
}

// setTemplateOfOne sets the template of web-one again.
func setTemplateOfOne(t *testing.T, d *appsv1.Deployment, owned []object.Object) {
	d.Spec.Template = *withoutHash(&findSet(t, owned, "web-one").Spec.Template).DeepCopy()
}

func TestScalingFacts(t *testing.T) {
	zero := sizes.Set{Name: "web-zero", Revision: 1, Created: day(1)}
	one := sizes.Set{Name: "web-one", Replicas: 7, Ready: 7, Available: 7, Revision: 2, Created: day(2), HasSizeAnnotations: true, NotedReplicas: 9}
	two := sizes.Set{Name: "web-two", Replicas: 3, Ready: 2, Available: 2, Revision: 3, Created: day(3), HasSizeAnnotations: true, NotedReplicas: 10}
	full := sizes.Set{Name: "web-one", Replicas: 10, Ready: 10, Available: 10, Revision: 2, Created: day(2), HasSizeAnnotations: true, NotedReplicas: 10}
	driven := sizes.Scaling{Replicas: 10, Surge: 2, Unavailable: 1, Target: 3, Frozen: true, Update: &two, Stable: &one}
	drivenBut := func(but func(*sizes.Scaling)) *sizes.Scaling {
		s := driven
		s.Frozen = false
		but(&s)
		return &s
	}
	held := sizes.Scaling{Replicas: 10, Surge: 2, Unavailable: 1, OwnerStrategyActive: true, Stable: &full}
	for name, tc := range map[string]struct {
		in   string
		edit edit
		want *sizes.Scaling
	}{
		"another template than it was told for": {"driven", nil, &driven},
		"told by hash": {"driven", setStrategyAnnotation(`{"partition":"30%","rollingUpdate":{"maxUnavailable":"10%","maxSurge":2},"revision":"` + hashV2 + `"}`),
			drivenBut(func(*sizes.Scaling) {})},
		"told by label": {"driven", setStrategyAnnotation(`{"partition":"30%","rollingUpdate":{"maxUnavailable":"10%","maxSurge":2},"revision":"two"}`),
			drivenBut(func(*sizes.Scaling) {})},
		"told nothing, as by others": {"driven", setStrategyAnnotation(`{"partition":"30%","rollingUpdate":{"maxUnavailable":"10%","maxSurge":2}}`),
			drivenBut(func(*sizes.Scaling) {})},
		"alone": {"driven", allEdits(removeHoldMark, setStrategyAnnotation(`{"partition":"30%","rollingUpdate":{"maxUnavailable":"10%","maxSurge":2}}`)),
			drivenBut(func(s *sizes.Scaling) { s.AnnotationDriven = true })},
		"alone, and paused": {"driven", allEdits(removeHoldMark, setStrategyAnnotation(`{"paused":true,"partition":3,"rollingUpdate":{"maxUnavailable":"10%","maxSurge":2}}`)),
			drivenBut(func(s *sizes.Scaling) { s.AnnotationDriven, s.Frozen = true, true })},
		"a release without a hold is not alone": {"driven", allEdits(removeHoldMark, setStrategyAnnotation(`{"partition":"30%","rollingUpdate":{"maxUnavailable":"10%","maxSurge":2},"revision":"two"}`)),
			drivenBut(func(*sizes.Scaling) {})},
		"an abort without a hold is not alone": {"driven", allEdits(removeHoldMark, setStrategyAnnotation(`{"abort":true,"partition":1,"rollingUpdate":{"maxUnavailable":1,"maxSurge":2}}`)),
			drivenBut(func(s *sizes.Scaling) { s.Target, s.Abort = 1, true })},
		"stable set again, and told so of the release": {
			"driven", allEdits(setStrategyAnnotation(`{"abort":true,"partition":1,"rollingUpdate":{"maxUnavailable":"10%","maxSurge":2},"revision":"two"}`), setTemplateOfOne),
			drivenBut(func(s *sizes.Scaling) { s.Target, s.Abort, s.Frozen = 1, true, true }),
		},
		"stable set again, not told so yet, and a third revision has pods": {
			"driven-third", allEdits(setStrategyAnnotation(`{"partition":"30%","rollingUpdate":{"maxUnavailable":"10%","maxSurge":2},"revision":"two"}`), setTemplateOfOne),
			drivenBut(func(s *sizes.Scaling) {
				third := zero
				third.Replicas, third.Ready, third.Available = 1, 1, 1
				s.Frozen, s.Others = true, []sizes.Set{third}
			}),
		},
		"frozen by others": {"driven", setStrategyAnnotation(`{"paused":true,"partition":"30%","rollingUpdate":{"maxUnavailable":"10%","maxSurge":2}}`),
			drivenBut(func(s *sizes.Scaling) { s.Frozen = true })},
		"surge up, unavailable down": {"driven", setStrategyAnnotation(`{"partition":"25%","rollingUpdate":{"maxUnavailable":"25%","maxSurge":"25%"}}`),
			drivenBut(func(s *sizes.Scaling) { s.Surge, s.Unavailable = 3, 2 })},
		"something must move": {"driven", setStrategyAnnotation(`{"partition":3,"rollingUpdate":{"maxUnavailable":"9%","maxSurge":0}}`),
			drivenBut(func(s *sizes.Scaling) { s.Surge = 0 })},
		"no more unavailable than there are": {"driven", setStrategyAnnotation(`{"partition":3,"rollingUpdate":{"maxUnavailable":99}}`),
			drivenBut(func(s *sizes.Scaling) { s.Surge, s.Unavailable = 0, 10 })},
		"the owner's recreate": {"driven", setStrategyAnnotation(`{"partition":3}`),
			drivenBut(func(s *sizes.Scaling) { s.Surge = 0 })},
		"full by share": {"driven", setStrategyAnnotation(`{"partition":"100%","rollingUpdate":{"maxUnavailable":1,"maxSurge":2}}`),
			drivenBut(func(s *sizes.Scaling) { s.Target, s.AllPods = 10, true })},
		"99% is not full": {"driven", setStrategyAnnotation(`{"partition":"99%","rollingUpdate":{"maxUnavailable":1,"maxSurge":2}}`),
			drivenBut(func(s *sizes.Scaling) { s.Target = 9 })},
		"full by number": {"driven", setStrategyAnnotation(`{"partition":11,"rollingUpdate":{"maxUnavailable":1,"maxSurge":2}}`),
			drivenBut(func(s *sizes.Scaling) { s.Target, s.AllPods = 10, true })},
		"no number is full of nothing": {"driven", allEdits(setSizeOfWeb(0), setStrategyAnnotation(`{"partition":11,"rollingUpdate":{"maxUnavailable":1,"maxSurge":2}}`)),
			drivenBut(func(s *sizes.Scaling) { s.Replicas, s.Target, s.Unavailable = 0, 0, 0 })},
		"on the way back a share may be kept": {"driven", setStrategyAnnotation(`{"abort":true,"partition":1,"rollingUpdate":{"maxUnavailable":1,"maxSurge":2}}`),
			drivenBut(func(s *sizes.Scaling) { s.Target, s.Abort = 1, true })},
		"counters of a larger size": {"driven", allEdits(setReplicas("web-one", 4), setStrategyAnnotation(`{"partition":3,"rollingUpdate":{"maxUnavailable":1,"maxSurge":2}}`)),
			drivenBut(func(s *sizes.Scaling) {
				less := one
				less.Replicas, less.Ready, less.Available, less.IsShrinking = 4, 4, 4, true
				s.Stable = &less
			})},
		"counters from before two changes of the size": {"driven", allEdits(lagBehind("web-one", 2), setStrategyAnnotation(`{"partition":3,"rollingUpdate":{"maxUnavailable":1,"maxSurge":2}}`)),
			drivenBut(func(s *sizes.Scaling) {
				moved := one
				moved.HasStaleCounters = true
				s.Stable = &moved
			})},
		"counters from before one": {"driven", allEdits(lagBehind("web-one", 1), setStrategyAnnotation(`{"partition":3,"rollingUpdate":{"maxUnavailable":1,"maxSurge":2}}`)),
			drivenBut(func(*sizes.Scaling) {})},
		"a third template": {"driven", allEdits(setImage("web:v3"), setStrategyAnnotation(`{"partition":"30%","rollingUpdate":{"maxUnavailable":1,"maxSurge":2}}`)),
			drivenBut(func(s *sizes.Scaling) { s.Update, s.Others = nil, []sizes.Set{two} })},
		"the template went back, so everything does": {"driven", allEdits(setImage("web:v1"), setStrategyAnnotation(`{"abort":true,"partition":0,"rollingUpdate":{"maxUnavailable":1,"maxSurge":2}}`)),
			drivenBut(func(s *sizes.Scaling) { s.Target, s.Abort = 0, true })},
		"but for what is kept": {"driven", allEdits(setImage("web:v1"), setStrategyAnnotation(`{"abort":true,"partition":1,"rollingUpdate":{"maxUnavailable":1,"maxSurge":2}}`)),
			drivenBut(func(s *sizes.Scaling) { s.Target, s.Abort = 1, true })},
		"so it is with a third template": {"driven", allEdits(setImage("web:v3"), setStrategyAnnotation(`{"abort":true,"partition":1,"rollingUpdate":{"maxUnavailable":1,"maxSurge":2}}`)),
			drivenBut(func(s *sizes.Scaling) { s.Target, s.Abort = 1, true })},
		"the template went back, and is released by share": {"driven", allEdits(setImage("web:v1"), setStrategyAnnotation(`{"partition":8,"rollingUpdate":{"maxUnavailable":1,"maxSurge":2},"revision":"one"}`)),
			drivenBut(func(s *sizes.Scaling) { s.Update, s.Stable, s.Others, s.Target = &one, &two, []sizes.Set{}, 8 })},
		"pods that wait for years to be available serve": {"driven", allEdits(setStrategyAnnotation(`{"partition":3,"rollingUpdate":{"maxUnavailable":1,"maxSurge":2}}`),
			func(t *testing.T, _ *appsv1.Deployment, owned []object.Object) {
				findSet(t, owned, "web-one").Spec.MinReadySeconds = foreverReady
				findSet(t, owned, "web-one").Status.AvailableReplicas = 0
			}), drivenBut(func(*sizes.Scaling) {})},
		"nothing before it": {"driven", allEdits(setOtherOwner("web-one"), setOtherOwner("web-two"), setStrategyAnnotation(`{"partition":0,"rollingUpdate":{"maxUnavailable":1,"maxSurge":2}}`),
			func(_ *testing.T, d *appsv1.Deployment, _ []object.Object) { d.Labels = nil }),
			drivenBut(func(s *sizes.Scaling) { s.Update, s.Stable, s.Target, s.AllPods = nil, nil, 10, true })},
		"stable is gone, which is not nothing": {"driven", allEdits(setOtherOwner("web-one"), setStrategyAnnotation(`{"partition":"30%","rollingUpdate":{"maxUnavailable":1,"maxSurge":2}}`)),
			drivenBut(func(s *sizes.Scaling) { s.Stable = nil })},
		"held, not driven yet": {"held", nil, &held},
		"resting": {"aborted", func(_ *testing.T, d *appsv1.Deployment, _ []object.Object) {
			d.Spec.Strategy.Type = appsv1.RollingUpdateDeploymentStrategyType
		}, &sizes.Scaling{
			Replicas: 10, Surge: 2, Unavailable: 1, Target: 3, Abort: true, OwnerStrategyActive: true,
			Update: &sizes.Set{Name: "web-two", Revision: 3, Created: day(3)},
			Stable: &sizes.Set{Name: "web-one", Replicas: 10, Ready: 10, Available: 10, Revision: 2, Created: day(2)},
		}},
		"history counts": {"held", func(_ *testing.T, _ *appsv1.Deployment, owned []object.Object) {
			rs := owned[0].(*appsv1.ReplicaSet)
			*rs.Spec.Replicas, rs.Status, rs.Name = 0, appsv1.ReplicaSetStatus{}, "web-zero"
			rs.CreationTimestamp, rs.Annotations = metav1.NewTime(day(1)), map[string]string{annotationRevision: "1"}
		}, &sizes.Scaling{Replicas: 10, Surge: 2, Unavailable: 1, OwnerStrategyActive: true, Stable: &zero}},
		"not seen yet":        {"held", func(_ *testing.T, d *appsv1.Deployment, _ []object.Object) { d.Status.ObservedGeneration-- }, nil},
		"native":              {"native", nil, nil},
		"resumed":             {"driven", func(_ *testing.T, d *appsv1.Deployment, _ []object.Object) { d.Spec.Paused = false }, nil},
		"of the canary style": {"driven", setStrategyAnnotation(`{"rollingStyle":"Canary","partition":3}`), nil},
		"paused by its owner": {"native", func(_ *testing.T, d *appsv1.Deployment, _ []object.Object) { d.Spec.Paused = true }, nil},
		"not held and not readable": {"driven", allEdits(setStrategyAnnotation("lost"), func(_ *testing.T, d *appsv1.Deployment, _ []object.Object) {
			delete(d.Annotations, rollouts.AnnotationInProgress)
		}), nil},
	} {
		t.Run(name, func(t *testing.T) {
			d, owned := readState(t, tc.in)
			d.Status.ObservedGeneration = d.Generation
			if tc.edit != nil {
				tc.edit(t, d, owned)
			}
			got, ok := deployment{}.ScalingFacts(d, owned, HoldFromRecords(d))
			want := sizes.Scaling{}
			if tc.want != nil {
				want = *tc.want
			}
			if diff := cmp.Diff(want, got, cmp.Comparer(time.Time.Equal)); diff != "" || ok != (tc.want != nil) {
				t.Errorf("ok %t (-want +got):\n%s", ok, diff)
			}
		})
	}
}

// TestLargestSurge checks that size plus surge does not overflow, so that pods can be created.
func TestLargestSurge(t *testing.T) {
	for _, replicas := range []int32{1, 10, math.MaxInt32} {
		for _, v := range []intstr.IntOrString{intstr.FromInt32(math.MaxInt32), intstr.FromString("300%"), intstr.FromString("2147483647%")} {
			surge, _ := resolveLimits(&appsv1.RollingUpdateDeployment{MaxSurge: &v}, replicas)
			if surge < 0 || surge > math.MaxInt32-replicas || surge == 0 && replicas < math.MaxInt32 {
				t.Errorf("maxSurge %s of %d: %d", v.String(), replicas, surge)
			}
		}
	}
}

func TestResizeReplicaSets(t *testing.T) {
	for name, tc := range map[string]struct {
		in    string
		edit  edit
		scale []sizes.Step
		note  int32
	}{
		"sets-create": {in: "held", scale: []sizes.Step{{Replicas: 2}}},
		"sets-create-collided": {in: "held", scale: []sizes.Step{{Replicas: 2}}, edit: allEdits(setOtherOwner("web-one"), func(t *testing.T, _ *appsv1.Deployment, owned []object.Object) {
			findSet(t, owned, "web-one").Name = "web-" + hashV2
		})},
		// The set was made since the sizes were decided.
		"sets-create-there": {in: "driven", scale: []sizes.Step{{Replicas: 4}}},
		"sets-resize":       {in: "driven", scale: []sizes.Step{{Name: "web-two", Replicas: 5}, {Name: "web-one", Replicas: 7}}},
		"sets-same":         {in: "aborted", scale: []sizes.Step{{Name: "web-one", Replicas: 10}}},
		"sets-delete":       {in: "aborted", scale: []sizes.Step{{Name: "web-two", Delete: true}}},
		"sets-create-noted": {in: "held", scale: []sizes.Step{{Replicas: 2}}, note: 10},
		"sets-noted":        {in: "driven", scale: []sizes.Step{{Name: "web-one", Replicas: 7}}, note: 10},
		"sets-nothing":      {in: "driven"},
	} {
		t.Run(name, func(t *testing.T) {
			d, owned := readState(t, tc.in)
			if tc.edit != nil {
				tc.edit(t, d, owned)
			}
			changes, err := deployment{}.ResizeReplicaSets(d, owned, HoldFromRecords(d), sizes.Scale{Steps: tc.scale, DesiredAnnotation: tc.note, MaxAnnotation: tc.note + 2})
			if err != nil {
				t.Fatal(err)
			}
			golden.Changes(t, name, changes)
		})
	}
}

func TestUpdateExtraStatus(t *testing.T) {
	const said = `{"updatedReadyReplicas":2,"expectedUpdatedReplicas":3}`
	says3 := setStrategyAnnotation(`{"partition":3,"rollingUpdate":{"maxUnavailable":1,"maxSurge":2}}`)
	told := func(value string) edit {
		return func(_ *testing.T, d *appsv1.Deployment, _ []object.Object) {
			d.Annotations[rollouts.AnnotationDeploymentExtraStatus] = value
		}
	}
	nothing := allEdits(setOtherOwner("web-two"), setStrategyAnnotation(`{"partition":0}`))
	for name, tc := range map[string]struct {
		edit edit
		want string
	}{
		"at first":              {allEdits(removeHoldMark, says3), said},
		"nothing new":           {allEdits(removeHoldMark, says3, told(said)), ""},
		"something new":         {allEdits(removeHoldMark, says3, told(`{"updatedReadyReplicas":1}`)), said},
		"nothing to say":        {allEdits(removeHoldMark, nothing), ""},
		"nothing left to say":   {allEdits(removeHoldMark, nothing, told(said)), "{}"},
		"the share of pods":     {allEdits(removeHoldMark, setStrategyAnnotation(`{"partition":"25%"}`)), said},
		"to a release":          {setStrategyAnnotation(`{"partition":3,"revision":"two"}`), said},
		"to what is held":       {says3, said},
		"not to an abort":       {setStrategyAnnotation(`{"partition":3,"abort":true}`), ""},
		"an abort ends it":      {allEdits(setStrategyAnnotation(`{"partition":3,"abort":true}`), told(said)), "nothing"},
		"not to other styles":   {setStrategyAnnotation(`{"partition":3,"rollingStyle":"BlueGreen"}`), ""},
		"not to what is not so": {allEdits(removeHoldMark, setStrategyAnnotation("lost")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			d, owned := readState(t, "driven")
			tc.edit(t, d, owned)
			var got, want []string
			for _, c := range updateExtraStatus(d, owned, HoldFromRecords(d)) {
				value, there := c.Want.GetAnnotations()[rollouts.AnnotationDeploymentExtraStatus]
				if !there {
					value = "nothing"
				}
				got = append(got, value)
			}
			if tc.want != "" {
				want = []string{tc.want}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSetsOfOtherOwners(t *testing.T) {
	d, owned := readState(t, "driven")
	setOtherOwner("web-two")(t, d, owned)
	for _, name := range []string{"web-two", "web-none"} {
		changes, err := deployment{}.ResizeReplicaSets(d, owned, HoldFromRecords(d), sizes.Scale{Steps: []sizes.Step{{Name: name, Replicas: 1}}})
		if err == nil || len(changes) != 0 {
			t.Errorf("%s: %d changes, error %v; want an error and nothing else", name, len(changes), err)
		}
	}
}

// TestCreatedIsRecognised checks that a created ReplicaSet is recognized as that of the live
// template.
func TestCreatedIsRecognised(t *testing.T) {
	d, owned := readState(t, "held")
	d.Name = strings.Repeat("x", 253)
	for range 2 {
		changes, err := deployment{}.ResizeReplicaSets(d, owned, HoldFromRecords(d), sizes.Scale{Steps: []sizes.Step{{Replicas: 1}}})
		if err != nil {
			t.Fatal(err)
		}
		d, owned = applyChanges(d, owned, changes)
	}
	w := deployment{}.Observe(d, owned, HoldFromRecords(d))
	if len(owned) != 2 || w.PodTemplateHash != hashV2 || len(owned[1].GetName()) != 253 {
		t.Errorf("%d sets, update revision %q, name of %d characters", len(owned), w.PodTemplateHash, len(owned[1].GetName()))
	}
}
