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

func pods(n int32) *intstr.IntOrString { return new(intstr.FromInt32(n)) }

func percent(s string) *intstr.IntOrString { return new(intstr.FromString(s)) }

// TestValidateLimits checks the rules of kube-apiserver for Deployments and DaemonSets.
func TestValidateLimits(t *testing.T) {
	for name, tt := range map[string]struct {
		unavailable, surge *intstr.IntOrString
		deployment, nodes  bool // whether they are refused
	}{
		"the defaults":      {nil, nil, false, false},
		"only unavailable":  {percent("100%"), pods(0), false, false},
		"only a surge":      {pods(0), percent("100%"), false, false},
		"both":              {pods(1), pods(1), false, true},
		"none":              {pods(0), percent("0%"), true, true},
		"above all":         {percent("101%"), pods(0), true, true},
		"a surge above all": {pods(0), percent("101%"), false, true},
		"negative":          {pods(-1), pods(1), true, true},
		"a negative share":  {percent("-1%"), pods(1), true, true},
		"a word":            {percent("x"), pods(0), true, true},
		"digits in quotes":  {percent("1"), pods(0), true, true},
		"no end of it":      {pods(0), percent("99999999999999999999%"), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			if why := validateRollingUpdate(&appsv1.RollingUpdateDeployment{MaxUnavailable: tt.unavailable, MaxSurge: tt.surge}); (why != "") != tt.deployment {
				t.Errorf("a Deployment: %q", why)
			}
			if why := validateDaemonSetUpdate(&appsv1.RollingUpdateDaemonSet{MaxUnavailable: tt.unavailable, MaxSurge: tt.surge}); (why != "") != tt.nodes {
				t.Errorf("a DaemonSet: %q", why)
			}
		})
	}
}

// TestRestoresValidSettings checks that invalid saved values are restored as the defaults of
// kube-apiserver, so that the restore succeeds.
func TestRestoresValidSettings(t *testing.T) {
	d, owned := readState(t, "driven")
	d.Annotations[rollouts.AnnotationDeploymentStrategy] = `{"rollingStyle":"Partition","rollingUpdate":{"maxUnavailable":0,"maxSurge":0},"partition":"30%"}`
	d, _ = applyChanges(d, owned, deployment{}.Restore(d, owned, HoldFromRecords(d), planner.RestoreWorkload{}))
	want := &appsv1.RollingUpdateDeployment{MaxUnavailable: percent("25%"), MaxSurge: percent("25%")}
	if diff := cmp.Diff(want, d.Spec.Strategy.RollingUpdate); diff != "" {
		t.Errorf("a Deployment (-want +got):\n%s", diff)
	}

	n := newDaemonScene("b", "AAAb", holdDaemon)
	n.set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = percent("200%")
	for _, c := range daemonSet.Restore(n.set, n.owned, HoldFromRecords(n.set), planner.RestoreWorkload{Wait: true}) {
		if u := c.Want.(*appsv1.DaemonSet).Spec.UpdateStrategy; onDelete(c.Want.(*appsv1.DaemonSet)) || u.RollingUpdate != nil {
			t.Errorf("a DaemonSet has %+v", u)
		}
	}
}

// TestRestoresValidBlueGreenSettings checks the same for each field that a blue-green release
// saves.
func TestRestoresValidBlueGreenSettings(t *testing.T) {
	for name, tt := range map[string]struct {
		kept            string
		ready, deadline int32
	}{
		"a wait above the default": {`{"minReadySeconds":100000,"progressDeadlineSeconds":600}`, 0, 600},
		"a wait above its own":     {`{"minReadySeconds":60,"progressDeadlineSeconds":60}`, 60, 600},
		"a negative wait":          {`{"minReadySeconds":-1,"progressDeadlineSeconds":60}`, 0, 600},
		"no deadline":              {`{"minReadySeconds":5,"progressDeadlineSeconds":0}`, 5, 600},
		"no limits":                {`{"maxUnavailable":0,"maxSurge":0,"minReadySeconds":5,"progressDeadlineSeconds":60}`, 5, 60},
	} {
		t.Run(name, func(t *testing.T) {
			d, owned := readState(t, "held")
			b := blueGreen{}
			d, owned = applyChanges(d, owned, b.SetTarget(d, owned, HoldFromRecords(d), halfTarget(false), owner()))
			d.Annotations[rollouts.AnnotationOriginalStrategy] = tt.kept
			d.Status.ObservedGeneration = d.Generation
			d, _ = applyChanges(d, owned, b.Restore(d, owned, HoldFromRecords(d), planner.RestoreWorkload{}))
			if got := *d.Spec.ProgressDeadlineSeconds; d.Spec.MinReadySeconds != tt.ready || got != tt.deadline {
				t.Errorf("%d s to be ready, %d s in all", d.Spec.MinReadySeconds, got)
			}
			if u := d.Spec.Strategy.RollingUpdate; validateRollingUpdate(u) != "" {
				t.Errorf("the limits are %+v", u)
			}
		})
	}
}
