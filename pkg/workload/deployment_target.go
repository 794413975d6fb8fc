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

// SetTarget implements Adapter. It writes Recreate, so sizes must not be written before the native
// controller has observed it. Do not call it on a workload whose abort is complete.
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

// takeStrategy saves the owner's strategy and history limit, and replaces them by those that a
// release needs. It never saves Recreate and minHistoryLimit, because Weir writes these values. So
// an original is never overwritten by a value of Weir.
func takeStrategy(d *appsv1.Deployment, v *strategyRecord) {
	s := &d.Spec.Strategy
	if s.Type != appsv1.RecreateDeploymentStrategyType || s.RollingUpdate != nil {
		v.RollingUpdate = mergeOwnerStrategy(v.RollingUpdate, s)
		*s = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	}
	raiseLimit(v, &d.Spec.RevisionHistoryLimit)
}

// mergeOwnerStrategy returns the limits that the owner has written. A patch of a strategy that is
// Weir's Recreate may omit a limit; the saved value of this limit stays.
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

// setDefaults fills in the defaults of kube-apiserver.
func setDefaults(u *appsv1.RollingUpdateDeployment) {
	quarter := intstr.FromString("25%")
	if u.MaxUnavailable == nil {
		u.MaxUnavailable = &quarter
	}
	if u.MaxSurge == nil {
		u.MaxSurge = &quarter
	}
}

// RestoreStrategy implements Adapter. It waits until only stable has pods: with RollingUpdate and
// two active ReplicaSets the native controller scales both, even while the Deployment is paused.
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

// restoreStrategy restores the owner's strategy if the spec has Weir's.
func restoreStrategy(d *appsv1.Deployment, hold Hold) {
	if d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		return
	}
	update := hold.strategy.RollingUpdate.DeepCopy()
	if hold.Controlled && !hold.hasStrategy {
		// The saved strategy is lost. The default causes no outage; Recreate might.
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

// Restore implements Adapter. Stale size annotations of active ReplicaSets are removed first,
// because they would block the native controller or reduce availability. Then one write restores all
// settings of the Deployment. When the native controller has observed this write, its copies of
// Weir's annotations on ReplicaSets are removed: kubectl rollout undo would copy them back to the
// Deployment.
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

// stripAnnotations removes Weir's annotations from ReplicaSets.
func stripAnnotations(r revisions) []object.Change {
	var changes []object.Change
	for _, rs := range r.all {
		want := rs.DeepCopy()
		want.Annotations = withoutKeys(want.Annotations, ourAnnotations...)
		changes = append(changes, changesBetween(rs, want)...)
	}
	return changes
}

// hasStaleSizeAnnotation reports whether the native controller would believe that the Deployment of
// an active ReplicaSet is being scaled.
func hasStaleSizeAnnotation(rs *appsv1.ReplicaSet, replicas int32) bool {
	desired, ok := rs.Annotations[annotationDesired]
	return ok && size(rs) > 0 && desired != strconv.Itoa(int(replicas))
}

// restoreDeployment restores the owner's settings in want.
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
