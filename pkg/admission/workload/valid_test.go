// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
)

// limitedTo sets limits of a DaemonSet, which kube-apiserver does not validate while the type is OnDelete.
func limitedTo(unavailable, surge intstr.IntOrString) daemonEdit {
	return func(d *appsv1.DaemonSet) {
		d.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &unavailable, MaxSurge: &surge}
	}
}

// An update is refused at once if kube-apiserver would refuse the object when the workload is returned. The
// message contains the field.
func TestAdmitWhatCanBeGivenBack(t *testing.T) {
	t.Parallel()
	const update = "spec.strategy.rollingUpdate."
	none, half, percent := intstr.FromInt32(0), intstr.FromString("50%"), intstr.FromString
	onNodes := named{liveRollout(func(r *rollouts.Rollout) { r.Spec.WorkloadRef.Kind = "DaemonSet" })}
	switching := named{liveRollout(func(r *rollouts.Rollout) { r.Spec.Strategy = rollouts.Strategy{BlueGreen: &rollouts.Release{}} })}
	cloneSets := named{liveRollout(func(r *rollouts.Rollout) {
		r.Spec.WorkloadRef.APIVersion, r.Spec.WorkloadRef.Kind = "apps.kruise.io/v1alpha1", "CloneSet"
	})}
	const rolls = appsv1.RollingUpdateDaemonSetStrategyType
	for name, tt := range map[string]struct {
		rollouts    named
		old, update object.Object
		refused     string
	}{
		"nothing":              {named{liveRollout()}, deployment(driven), deployment(driven, surging(0, "0%")), update + "maxUnavailable"},
		"more than all":        {named{liveRollout()}, deployment(driven), deployment(driven, surging(1, "200%")), update + "maxUnavailable"},
		"no number":            {named{liveRollout()}, deployment(driven), deployment(driven, surging(1, "x")), update + "maxUnavailable"},
		"a negative share":     {named{liveRollout()}, deployment(driven), deployment(driven, surging(1, "-5%")), update + "maxUnavailable"},
		"a negative surge":     {named{liveRollout()}, deployment(driven), deployment(driven, surgingBy(-1)), update + "maxSurge"},
		"a surge above all":    {named{liveRollout()}, deployment(driven), deployment(driven, surging(1000, "0%")), ""},
		"stored before":        {named{liveRollout()}, deployment(driven, given(0, "0%")), deployment(driven, given(0, "0%"), scaled), ""},
		"blue-green, a wait":   {switching, deployment(switched), deployment(switched, readyFor(100000)), "spec.progressDeadlineSeconds"},
		"blue-green, -1":       {switching, deployment(switched), deployment(switched, readyFor(-1)), "spec.minReadySeconds"},
		"blue-green, in time":  {switching, deployment(switched), deployment(switched, readyFor(100000), due(200000)), ""},
		"nodes, more than all": {onNodes, daemonSet(daemonDriven), daemonSet(daemonDriven, limitedTo(percent("200%"), none)), "spec.updateStrategy.rollingUpdate.maxUnavailable"},
		"nodes, a word":        {onNodes, daemonSet(daemonDriven), daemonSet(daemonDriven, limitedTo(percent("x"), none)), "spec.updateStrategy.rollingUpdate.maxUnavailable"},
		"nodes, nothing":       {onNodes, daemonSet(daemonDriven), daemonSet(daemonDriven, limitedTo(none, none)), "spec.updateStrategy.rollingUpdate.maxUnavailable"},
		"nodes, both":          {onNodes, daemonSet(daemonDriven), daemonSet(daemonDriven, limitedTo(half, half)), "spec.updateStrategy.rollingUpdate.maxSurge"},
		"nodes, a surge":       {onNodes, daemonSet(daemonDriven), daemonSet(daemonDriven, limitedTo(none, half)), ""},
		"nodes, OnDelete":      {onNodes, daemonSet(daemonDriven, hisOnDelete), daemonSet(daemonDriven, hisOnDelete, limitedTo(none, none)), ""},
		"nodes, not any more":  {onNodes, daemonSet(daemonDriven, hisOnDelete, limitedTo(none, none)), daemonSet(daemonDriven, hisOnDelete, limitedTo(none, none), ofType(rolls)), "spec.updateStrategy.rollingUpdate.maxUnavailable"},
		"nodes, stored before": {onNodes, daemonSet(daemonDriven, limitedTo(none, none)), daemonSet(daemonDriven, limitedTo(none, none), remembersLess), ""},
		"clones, a word":       {cloneSets, cloneSet(cloneDriven), cloneSet(cloneDriven, cloneUpTo("abc")), "spec.updateStrategy.partition"},
		"clones, -1":           {cloneSets, cloneSet(cloneDriven), cloneSet(cloneDriven, cloneUpTo("-1")), "spec.updateStrategy.partition"},
		"clones, a share":      {cloneSets, cloneSet(cloneDriven), cloneSet(cloneDriven, cloneUpTo("30%")), ""},
		"clones, more at once": {cloneSets, cloneSet(cloneBeside), cloneSet(cloneBeside, cloneMoves("x", "0", cloneYears)), "spec.updateStrategy.maxSurge"},
		"clones, fewer":        {cloneSets, cloneSet(cloneBeside), cloneSet(cloneBeside, cloneMoves("50%", "y", cloneYears)), "spec.updateStrategy.maxUnavailable"},
	} {
		for name2, admit := range admissionPaths(t) {
			if name2 == "policies" { // these keep what was recorded instead, see the tables of each kind
				continue
			}
			t.Run(name2+"/"+name, func(t *testing.T) {
				t.Parallel()
				_, refused := admit(t, tt.rollouts, sent{as: "alice", old: tt.old, update: tt.update})
				if (refused == "") != (tt.refused == "") || !strings.HasPrefix(refused, tt.refused) {
					t.Errorf("refused with %q, want %q", refused, tt.refused)
				}
			})
		}
	}
}
