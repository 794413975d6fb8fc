// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/sizes"
)

// SetTarget implements Adapter. It writes Recreate, so sizes must not be written
// before the native controller has observed it; and it must not be called on
// an aborted workload that has come to rest.
func (deployment) SetTarget(obj object.Object, owned []object.Object, hold Hold, to planner.SetTarget, owner metav1.OwnerReference) []object.Change {
	d := obj.(*appsv1.Deployment)
	want := d.DeepCopy()
	r := findRevisions(d, owned, hold)
	next := hold.withTarget(rollouts.StylePartition, to.Target, r.stableRevision, owner.UID)
	next.strategy.Paused = false
	takeStrategy(want, &next.strategy)
	setLabel(want, rollouts.LabelControlled, "true")
	writeController(want, owner)
	next.writeRecords(want)
	writeExtraStatus(want, r, next)
	want.Spec.Paused = true
	return changesBetween(obj, want)
}

// writeTarget writes a target of a style that keeps the owner's strategy in the spec.
func writeTarget(want *appsv1.Deployment, hold Hold, style rollouts.Style, to planner.SetTarget, stable string, owner metav1.OwnerReference) {
	restoreStrategy(want, hold)
	next := hold.withTarget(style, to.Target, stable, owner.UID)
	next.strategy.RollingUpdate, next.strategy.Paused = nil, false
	next.strategy.SetAsideRevision, next.strategy.SetAsideTemplate = "", ""
	raiseLimit(&next.strategy, &want.Spec.RevisionHistoryLimit)
	writeController(want, owner)
	next.writeRecords(want)
}

// takeStrategy replaces what only the owner can have written by what a release needs,
// and saves it. We write Recreate and minHistory and save neither, so that an
// original is never overwritten by a value of ours.
func takeStrategy(d *appsv1.Deployment, v *strategyRecord) {
	s := &d.Spec.Strategy
	if s.Type != appsv1.RecreateDeploymentStrategyType || s.RollingUpdate != nil {
		v.RollingUpdate = mergeOwnerStrategy(v.RollingUpdate, s)
		*s = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	}
	raiseLimit(v, &d.Spec.RevisionHistoryLimit)
}

// mergeOwnerStrategy is what the owner writes of the limits. Recreate in force is ours, and of a
// patch upon that the limits that it leaves out stay as recorded.
func mergeOwnerStrategy(recorded *appsv1.RollingUpdateDeployment, s *appsv1.DeploymentStrategy) *appsv1.RollingUpdateDeployment {
	u := &appsv1.RollingUpdateDeployment{}
	if s.RollingUpdate != nil {
		u = s.RollingUpdate.DeepCopy()
	}
	if recorded != nil && s.Type == appsv1.RecreateDeploymentStrategyType {
		u.MaxUnavailable = cmp.Or(u.MaxUnavailable, recorded.MaxUnavailable)
		u.MaxSurge = cmp.Or(u.MaxSurge, recorded.MaxSurge)
	}
	setDefaults(u)
	return u
}

// setDefaults fills in what the API server would.
func setDefaults(u *appsv1.RollingUpdateDeployment) {
	quarter := intstr.FromString("25%")
	if u.MaxUnavailable == nil {
		u.MaxUnavailable = &quarter
	}
	if u.MaxSurge == nil {
		u.MaxSurge = &quarter
	}
}

// RestoreStrategy implements Adapter. Paused and RollingUpdate with two active sets makes
// the native controller scale both, so it waits until only stable has pods.
func (deployment) RestoreStrategy(obj object.Object, owned []object.Object, hold Hold) []object.Change {
	d := obj.(*appsv1.Deployment)
	r := findRevisions(d, owned, hold)
	for _, rs := range r.all {
		if rs != r.stable && size(rs) > 0 {
			return nil
		}
	}
	want := hold.copyOf(d).(*appsv1.Deployment)
	restoreStrategy(want, hold)
	return changesBetween(obj, want)
}

// restoreStrategy puts the owner's strategy back where ours is.
func restoreStrategy(d *appsv1.Deployment, hold Hold) {
	if d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		return
	}
	update := hold.strategy.RollingUpdate.DeepCopy()
	if hold.Controlled && !hold.hasStrategy {
		// The original is lost. The default is no outage, Recreate may be one.
		update = &appsv1.RollingUpdateDeployment{}
		setDefaults(update)
	}
	if update != nil {
		d.Spec.Strategy = appsv1.DeploymentStrategy{
			Type:          appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: update,
		}
	}
}

// Restore implements Adapter. First the sizes that the native controller noted
// on active sets are removed where they are stale, since they would wedge it or
// break availability; then everything goes back in one write; then, when the
// native controller has seen that, its copies of our annotations go, since
// kubectl rollout undo would write them back to the Deployment.
func (deployment) Restore(obj object.Object, owned []object.Object, hold Hold, how planner.RestoreWorkload) []object.Change {
	d := obj.(*appsv1.Deployment)
	r := findRevisions(d, owned, hold)
	var changes []object.Change
	if !hasOurKeys(d) {
		if !isObserved(d) {
			return nil
		}
		return stripAnnotations(r)
	}
	for _, rs := range r.all {
		if hasStaleSizeAnnotation(rs, replicas(d)) {
			changes = append(changes, changesBetween(rs, resizeSet(rs, sizes.Scale{}, size(rs)))...)
		}
	}
	return append(changes, changesBetween(obj, restoreDeployment(d.DeepCopy(), hold, how.KeepPaused))...)
}

// stripAnnotations takes our annotations off the sets that have copies of them.
func stripAnnotations(r revisions) []object.Change {
	var changes []object.Change
	for _, rs := range r.all {
		want := rs.DeepCopy()
		want.Annotations = withoutKeys(want.Annotations, ourAnnotations...)
		changes = append(changes, changesBetween(rs, want)...)
	}
	return changes
}

// hasStaleSizeAnnotation reports whether the native controller would take an active set for one that
// is being scaled.
func hasStaleSizeAnnotation(rs *appsv1.ReplicaSet, replicas int32) bool {
	desired, ok := rs.Annotations[annotationDesired]
	return ok && size(rs) > 0 && desired != strconv.Itoa(int(replicas))
}

// restoreDeployment completes what is wanted of a Deployment that is given back.
func restoreDeployment(want *appsv1.Deployment, hold Hold, keepPaused bool) *appsv1.Deployment {
	restoreStrategy(want, hold)
	restoreLimit(hold.strategy, &want.Spec.RevisionHistoryLimit)
	if hold.Active() && hasNoHistoryEdit(want) {
		want.Spec.RevisionHistoryLimit = new(int32)
	}
	if (hold.Active() || hold.hasStrategy) && !keepPaused {
		want.Spec.Paused = false
	}
	removeRecords(want)
	return want
}
