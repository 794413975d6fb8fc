// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// TestExtraPodsServeAlone checks that extra pods of any template stay while the Deployment itself
// has too few available pods, and are removed when others can serve. During an abort this includes
// extra pods of the live template.
func TestExtraPodsServeAlone(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		own, extra int32
		// other reports whether the extra pods run another template than the Deployment.
		other, abort bool
		// never reports whether spec.minReadySeconds was raised so far that no pod is available.
		never bool
		stays bool
	}{
		"alone":                                {own: 0, extra: 2, stays: true},
		"alone, of another template":           {own: 0, extra: 2, other: true, stays: true},
		"alone, in an abort":                   {own: 0, extra: 2, abort: true, stays: true},
		"not ready either":                     {own: 0, extra: 0},
		"not ready either, another template":   {own: 0, extra: 0, other: true},
		"below the floor":                      {own: 8, extra: 2, stays: true},
		"at the floor":                         {own: 9, extra: 2},
		"fewer than those of another template": {own: 1, extra: 2, other: true, stays: true},
		"as many as those of another template": {own: 2, extra: 2, other: true},
		"as many, in an abort":                 {own: 2, extra: 2, abort: true},
		"stable pods that are never available": {own: 10, extra: 2, other: true, never: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, owned, extra := canaryWithTarget(t, "25%")
			target := canaryTarget("25%")
			target.Abort = tc.abort
			v, _ := readStrategy(d)
			v.setTarget(target.Target)
			writeStrategy(d, v)
			extra.UID = "extra"
			if tc.other {
				extra.Name, extra.Spec.Template.Spec.Containers[0].Image = "web-canary-other", "web:other"
			}
			pods := &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: extra.Spec.Replicas, Template: extra.Spec.Template}}
			pods.Name, pods.OwnerReferences = "extra", []metav1.OwnerReference{*metav1.NewControllerRef(extra, deploymentKind)}
			pods.Status = appsv1.ReplicaSetStatus{Replicas: *extra.Spec.Replicas, ReadyReplicas: tc.extra, AvailableReplicas: tc.extra}
			owned = append(owned, pods)
			left := tc.own
			for _, rs := range replicaSets(owned) {
				if metav1.IsControlledBy(rs, d) {
					rs.Status.ReadyReplicas = min(left, size(rs))
					rs.Status.AvailableReplicas = rs.Status.ReadyReplicas
					if tc.never {
						rs.Status.AvailableReplicas = 0
					}
					left -= rs.Status.ReadyReplicas
				}
			}
			if left > 0 || replicas(d) != 10 {
				t.Fatalf("%d of %d pods have no set", left, replicas(d))
			}
			if needed := (canary{}).Observe(d, owned, HoldFromRecords(d)).Extra.Needed; (needed != "") != tc.stays {
				t.Errorf("it says %q, want the pods to stay: %t", needed, tc.stays)
			}
			for _, c := range append(canary{}.SetTarget(d, owned, HoldFromRecords(d), target, owner()), restoreAtOnce(d, owned)...) {
				shrinks := c.Base != nil && c.Base.GetName() == extra.Name && (c.Want == nil || *c.Want.(*appsv1.Deployment).Spec.Replicas < *extra.Spec.Replicas)
				if shrinks && tc.stays {
					t.Error("the pods go")
				}
			}
		})
	}
}

// restoreAtOnce returns the changes of a restore without waiting, after the records have been removed.
func restoreAtOnce(d *appsv1.Deployment, owned []object.Object) []object.Change {
	back := restoreDeployment(d.DeepCopy(), HoldFromRecords(d), false)
	back.Generation, back.Status.ObservedGeneration = 1, 1
	return canary{}.Restore(back, owned, HoldFromRecords(back), planner.RestoreWorkload{})
}
