// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// TestExtraIsRepaired checks that Weir repairs the spec of the extra Deployment and removes foreign
// records, and adds no annotation, since there may be no space. Settings that the owner changes on
// the workload apply to the extra Deployment, too.
func TestExtraIsRepaired(t *testing.T) {
	t.Parallel()
	const unnamed = "without its owner's name"
	for name, edit := range map[string]func(d, e *appsv1.Deployment){
		"driven by annotations": func(_, e *appsv1.Deployment) {
			setAnnotation(e, rollouts.AnnotationControlInfo, "x")
			setAnnotation(e, rollouts.AnnotationDeploymentStrategy, `{"partition":"100%","rollingUpdate":{"maxSurge":"100%"}}`)
			e.Spec.Paused, e.Spec.Strategy = true, appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
		},
		"held": func(_, e *appsv1.Deployment) { writeHoldMark(e, "web") },
		"labels of ours": func(_, e *appsv1.Deployment) {
			setLabel(e, rollouts.LabelStableRevision, hashV2)
			setLabel(e, rollouts.LabelControlled, "x")
		},
		unnamed: func(_, e *appsv1.Deployment) { e.Annotations = map[string]string{"note": "x"} },
		"available after a while": func(_, e *appsv1.Deployment) {
			e.Spec.MinReadySeconds, e.Spec.ProgressDeadlineSeconds = 1e5, new(int32(2e5))
		},
		"surges": func(_, e *appsv1.Deployment) {
			e.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: new(intstr.FromString("100%"))}
		},
		"the owner's wish": func(d, _ *appsv1.Deployment) { d.Spec.MinReadySeconds = 7 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, owned, extra := canaryWithTarget(t, "25%")
			was := extra.DeepCopy()
			edit(d, extra)
			told := extra.DeepCopy()
			hold := HoldFromRecords(d)
			hold.Stored = planner.HoldState{Batch: owner().UID, Metadata: canaryTarget("25%").Metadata}
			w := canary{}.Observe(d, owned, HoldFromRecords(d))
			observeExtra(&w, d, owned, hold)
			changes := canary{}.SetTarget(d, owned, HoldFromRecords(d), canaryTarget("25%"), owner())
			if rests := name == unnamed; w.Extra.Tampered == rests || (len(changes) == 0) != rests {
				t.Fatalf("astray %t, %d changes", w.Extra.Tampered, len(changes))
			}
			for _, c := range changes {
				extra.ObjectMeta, extra.Spec = c.Want.(*appsv1.Deployment).ObjectMeta, c.Want.(*appsv1.Deployment).Spec
			}
			want := was.Spec.DeepCopy()
			want.MinReadySeconds = d.Spec.MinReadySeconds
			if diff := cmp.Diff(*want, extra.Spec); diff != "" {
				t.Errorf("the extra one's spec (-want +got):\n%s", diff)
			}
			for key, value := range extra.Annotations {
				if key != "note" && was.Annotations[key] != value || told.Annotations[key] == "" {
					t.Errorf("%s is %q", key, value)
				}
			}
			if diff := cmp.Diff(was.Labels, extra.Labels); diff != "" {
				t.Errorf("the extra one's labels (-want +got):\n%s", diff)
			}
			if w = (canary{}).Observe(d, owned, HoldFromRecords(d)); !w.TargetApplied {
				t.Error("what was told is not obeyed")
			}
			if observeExtra(&w, d, owned, hold); w.Extra.Tampered {
				t.Error("it is astray still")
			}
		})
	}
}

// TestSizeOfExtra checks that the size of the extra Deployment follows the target, and is 0 if the
// workload is scaled to 0.
func TestSizeOfExtra(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		replicas, now int32
		target        planner.Target
		want          int32
	}{
		"what was told":           {replicas: 10, now: 2, target: planner.Target{Partition: intstr.FromString("20%")}, want: 2},
		"kept on a smaller size":  {replicas: 2, now: 2, target: planner.Target{Partition: intstr.FromString("20%"), MinExtraReplicas: 2}, want: 2},
		"no pods wanted":          {now: 2, target: planner.Target{Partition: intstr.FromString("20%"), MinExtraReplicas: 2}},
		"back, and never more":    {replicas: 10, now: 1, target: planner.Target{Partition: intstr.FromInt32(2), Abort: true}, want: 1},
		"back, and no pods there": {replicas: 10, target: planner.Target{Partition: intstr.FromInt32(2), Abort: true}},
	} {
		d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: new(c.replicas)}}
		if got := extraSize(d, c.now, &c.target); got != c.want {
			t.Errorf("%s: %d pods, want %d", name, got, c.want)
		}
	}
}
