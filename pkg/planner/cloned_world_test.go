// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// CloneSets in the world.

type cloneSets struct{}

func (cloneSets) newWorkload(a app) object.Object {
	missing, none := intstr.Parse(a.unavail), intstr.FromInt32(0)
	return &workload.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Name: a.name, Annotations: map[string]string{"owner": "team"}},
		Spec: workload.CloneSetSpec{
			Replicas: &a.replicas, RevisionHistoryLimit: &a.history, Template: podTemplate(a),
			UpdateStrategy: workload.CloneSetUpdateStrategy{Partition: &none, MaxUnavailable: &missing},
		},
	}
}

func (cloneSets) template(o object.Object) *corev1.PodTemplateSpec {
	return &o.(*workload.CloneSet).Spec.Template
}
func (cloneSets) size(o object.Object) *int32 { return o.(*workload.CloneSet).Spec.Replicas }

func (cloneSets) sync(s *store, name string) { syncCloneSet(s, name) }

// left returns how many pods the partition keeps. A share below 100% leaves at least one pod to be
// replaced.
func (cloneSets) left(c *workload.CloneSet) int32 {
	p, n := c.Spec.UpdateStrategy.Partition, *c.Spec.Replicas
	left, _ := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(p, intstr.FromInt32(0)), int(n), true)
	if p != nil && p.Type == intstr.String && !strings.HasPrefix(p.StrVal, "100") && n > 1 {
		left = min(left, int(n)-1)
	}
	return min(int32(left), n)
}

func (s cloneSets) isStopped(o object.Object) bool {
	c := o.(*workload.CloneSet)
	return c.Spec.UpdateStrategy.Paused || s.left(c) > 0 && s.left(c) >= *c.Spec.Replicas
}

func (cloneSets) resume(o object.Object) {
	u := &o.(*workload.CloneSet).Spec.UpdateStrategy
	none := intstr.FromInt32(0)
	u.Partition, u.Paused = &none, false
}

func (cloneSets) describeStrategy(o object.Object) string {
	return "partition " + o.(*workload.CloneSet).Spec.UpdateStrategy.Partition.String()
}

func (cloneSets) limits(owner object.Object, n int32) (surge, unavailable int32) {
	m, _ := intstr.GetScaledValueFromIntOrPercent(owner.(*workload.CloneSet).Spec.UpdateStrategy.MaxUnavailable, int(n), true)
	return 0, max(int32(m), 1)
}

func (cloneSets) restoreStrategy(o, owner object.Object) {
	o.(*workload.CloneSet).Spec.UpdateStrategy = clone(owner.(*workload.CloneSet)).Spec.UpdateStrategy
}

// hasOwnerStrategy ignores the partition, which holds the pods of an aborted release.
func (s cloneSets) hasOwnerStrategy(o, owner object.Object) bool {
	a, b := clone(o), clone(owner)
	s.resume(a)
	s.resume(b)
	return equality.Semantic.DeepEqual(a.(*workload.CloneSet).Spec.UpdateStrategy, b.(*workload.CloneSet).Spec.UpdateStrategy)
}

func (s cloneSets) hasOwnerSpec(o, owner object.Object) bool {
	a, b := o.(*workload.CloneSet).Spec, owner.(*workload.CloneSet).Spec
	same := s.hasOwnerStrategy(o, owner)
	if !s.isStopped(o) {
		same = equality.Semantic.DeepEqual(a.UpdateStrategy, b.UpdateStrategy)
	}
	return same && *a.RevisionHistoryLimit == *b.RevisionHistoryLimit
}

// checkCloneSetWrite checks that a partition leaves no more pods to the update revision than the
// batch has, and none during an abort. Existing pods may stay.
func (c *invariants) checkCloneSetWrite(actor string, old, next object.Object) {
	is, _ := next.(*workload.CloneSet)
	if is == nil {
		return
	}
	if was, _ := old.(*workload.CloneSet); was != nil {
		c.checkRevisionTakeover(is, was.Status.CurrentRevision, is.Status.CurrentRevision)
	}
	c.aborted = c.aborted && cloneSets{}.isStopped(is)
	c.excusesSizeZero = c.excusesSizeZero || *is.Spec.Replicas <= 1
	b := find[*rollouts.BatchRelease](c.w.store.objects, kindBatch, is.Name)
	r := find[*rollouts.Rollout](c.w.store.objects, kindRollout, is.Name)
	if actor != "batch" || !workload.HasReleaseMark(is) || b == nil || r == nil || r.Status.Active() == nil || b.Spec.Plan.BatchPartition == nil {
		return
	}
	p, plan, live := r.Status.Active(), b.Spec.Plan, tagOf(&is.Spec.Template)
	if c.images[p.UpdateRevision] != live || p.UpdateRevision == p.StableRevision || p.UpdateRevision != plan.Revision {
		return
	}
	now, allowed := int32(0), int32(0)
	for _, pod := range podsIn(c.w.store.objects) {
		if podTag(pod) == live && !isTerminating(pod) {
			now++
		}
	}
	if !plan.Abort {
		allowed = planner.Limit(rollouts.StylePartition, plan.Batches[b.Status.CurrentBatch].CanaryReplicas, *is.Spec.Replicas)
	}
	if then := *is.Spec.Replicas - (cloneSets{}).left(is); then > max(now, allowed) {
		c.violate("step", "the partition leaves %d pods to %s where %d are allowed", then, live, allowed)
	}
}
