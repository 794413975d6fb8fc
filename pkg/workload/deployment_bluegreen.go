// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"math"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// blueGreen releases a Deployment by surge: the native controller adds new pods, and all old pods
// stay until the end. Weir sets minReadySeconds to decades, so that no new pod counts as available.
// A rolling update with maxUnavailable 0 then never removes an old pod, and its surge limits the new
// pods.
type blueGreen struct{ deployment }

var _ Adapter = blueGreen{}

// Values that no owner sets; their spelling is wire format.
const (
	// No owner sets these values. They are stored in objects and must not change.
	foreverReady    int32 = math.MaxInt32 - 1
	foreverDeadline int32 = math.MaxInt32
	// nativeDeadline is the default of kube-apiserver.
	nativeDeadline int32 = 600
)

// Observe implements Adapter.
func (blueGreen) Observe(obj object.Object, owned []object.Object, hold Hold) planner.Workload {
	d := obj.(*appsv1.Deployment)
	r := findRevisions(d, owned, hold)
	w := deployment{}.Observe(obj, owned, hold)
	w.UsesSurge = d.Spec.MinReadySeconds == foreverReady
	w.HasManagedFields = w.HasManagedFields || len(restoreMinReady(r, d.Spec.MinReadySeconds)) > 0 || len(findAutoscalers(d.Name, deploymentKind, owned, true)) > 0
	if o, ours := readOriginalDeployment(d, hold); ours {
		_, w.MaxUnavailable = resolveLimits(o.rollingUpdate(), replicas(d))
		both, _ := r.withTargetSet(d, hold)
		w.OwnerStrategyActive, w.TargetApplied = false, isSurgeApplied(d, both, owned, hold)
	} else if hold.aborting() {
		w.TargetApplied = w.TargetApplied && len(restoreMinReady(r, d.Spec.MinReadySeconds)) == 0
	}
	return w
}

// hasUnfinishedAbort reports whether an abort has left pods of the new version.
func hasUnfinishedAbort(d *appsv1.Deployment, r revisions, hold Hold) bool {
	return (hold.aborting() || isStopped(d) && becomesAvailable(r.update)) && hasPods(r.update)
}

// becomesAvailable reports whether pods of a ReplicaSet can become available. The native controller
// would then remove old pods in exchange.
func becomesAvailable(rs *appsv1.ReplicaSet) bool {
	return rs != nil && rs.Spec.MinReadySeconds != foreverReady
}

// hasPods reports whether a ReplicaSet has pods, or its status still counts some.
func hasPods(rs *appsv1.ReplicaSet) bool {
	return rs != nil && (size(rs) > 0 || rs.Status.Replicas > 0 || rs.Status.AvailableReplicas > 0)
}

// wouldTakeStablePods reports whether the native controller, if it ran, would replace stable pods by
// new ones. This is so at size 0, if stable has no pods, and if there are more pods in total or of
// the new version than the share allows. It then stays so until stable has all its pods again.
func wouldTakeStablePods(d *appsv1.Deployment, r revisions, share intstr.IntOrString) bool {
	n := replicas(d)
	if r.isStableGone() && !(planner.Target{Partition: share}).IsAllPods(n) {
		return true
	}
	most := podsOfShare(share, n)
	switch {
	case n == 0 || r.stable == nil || r.stable == r.update:
		return n == 0
	case size(r.stable) >= n:
		return r.hasSurplus(n, most)
	default:
		return size(r.stable) == 0 || isStopped(d) || exceedsShare(r, n, most)
	}
}

// podsOfShare returns how many pods the native controller adds for a share, rounded up. A batch may
// be ready with one pod less (planner.Limit).
func podsOfShare(share intstr.IntOrString, n int32) int32 {
	return planner.Limit(rollouts.StyleCanary, share, n)
}

// hasSurplus reports whether the new version has more pods than the share allows at the current
// size. The native controller does not remove such pods.
func (r revisions) hasSurplus(n, most int32) bool {
	return r.update != nil && size(r.update) > most && (notedReplicas(r.update) == 0 || notedReplicas(r.update) == n)
}

// isStableGone reports whether the stable ReplicaSet is gone, so that all pods would be new ones.
func (r revisions) isStableGone() bool {
	return r.stable == nil && r.stableRevision != "" && r.countActive() == 0
}

// exceedsShare reports whether there are more pods in total, or of the new version, than a share
// allows.
func exceedsShare(r revisions, replicas, most int32) bool {
	var all int32
	for _, rs := range r.all {
		all += size(rs)
	}
	return all > replicas+most || r.update != nil && size(r.update) > most
}

// isStopped reports whether a blue-green release has stopped the native controller.
func isStopped(d *appsv1.Deployment) bool {
	return d.Spec.Paused && d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType
}

// surgeFor returns the surge for a share: the share, but not less than the pods that exist. If the
// surge were smaller, the native controller would remove old and new pods alike as soon as a new
// template stops it. New pods that were created for another size do not count: the native controller
// resizes them in proportion.
func surgeFor(r revisions, share intstr.IntOrString, n int32) intstr.IntOrString {
	if r.update == nil {
		return share
	}
	sized := notedReplicas(r.update)
	if size(r.update) > podsOfShare(share, n) && (sized == 0 || sized == n) {
		return intstr.FromInt32(size(r.update))
	}
	return share
}

// isSurgeApplied reports whether everything that SetTarget writes is written.
func isSurgeApplied(d *appsv1.Deployment, r revisions, owned []object.Object, hold Hold) bool {
	target := hold.Target()
	if target == nil || target.Abort {
		return false
	}
	if wouldTakeStablePods(d, r, target.Partition) {
		return isStopped(d) && (replicas(d) == 0 || r.countActive() == 0)
	}
	return hasSurge(d, surgeFor(r, target.Partition, replicas(d))) &&
		(r.stable == nil || r.stable.Spec.MinReadySeconds == foreverReady) && len(findAutoscalers(d.Name, deploymentKind, owned, false)) == 0
}

func hasSurge(d *appsv1.Deployment, surge intstr.IntOrString) bool {
	u := d.Spec.Strategy.RollingUpdate
	return u != nil && u.MaxSurge != nil && *u.MaxSurge == surge
}

// PreserveHold implements Adapter. It saves settings that the owner writes, for the end of the
// release. It pauses the Deployment if the template changes: otherwise the native controller would
// release it.
func (b blueGreen) PreserveHold(oldObj, newObj object.Object) {
	was, d := oldObj.(*appsv1.Deployment), newObj.(*appsv1.Deployment)
	o, ours := readOriginalDeployment(was, HoldFromRecords(was))
	if !ours {
		b.deployment.PreserveHold(oldObj, newObj) // before the first batch and after an abort
		return
	}
	changed := changesRolloutID(was, d) || !sameTemplate(&was.Spec.Template, &d.Spec.Template)
	keepHeld(was, d)
	keepLimit(was, d, &d.Spec.RevisionHistoryLimit, was.Spec.RevisionHistoryLimit)
	saveZeroLimit(was, d)
	d.Spec.Paused = was.Spec.Paused || changed
	if wrote := o.withUpdate(was, d); wrote.validate() == "" {
		o = wrote
	}
	setAnnotation(d, rollouts.AnnotationOriginalStrategy, encode(o))
	d.Spec.Strategy = *was.Spec.Strategy.DeepCopy()
	d.Spec.MinReadySeconds, d.Spec.ProgressDeadlineSeconds = was.Spec.MinReadySeconds, was.Spec.ProgressDeadlineSeconds
}

// SetTarget implements Adapter.
func (b blueGreen) SetTarget(obj object.Object, owned []object.Object, hold Hold, to planner.SetTarget, owner metav1.OwnerReference) []object.Change {
	d := obj.(*appsv1.Deployment)
	r := findRevisions(d, owned, hold)
	if to.Abort {
		return b.abortToStable(d, r, owned, hold, to, owner)
	}
	r, other := r.withTargetSet(d, hold)
	if hasUnfinishedAbort(d, r, hold) {
		// Scenario: a release is retried before its abort is complete. The remaining new pods are
		// available, so the native controller would remove old pods in exchange. The new pods are
		// removed as soon as stable pods count as available again.
		if !isObserved(d) {
			return nil
		}
		return restoreMinReady(r, d.Spec.MinReadySeconds)
	}
	want := d.DeepCopy()
	writeTarget(want, hold, rollouts.StyleBlueGreen, to, r.stableRevision, owner)
	o, ours := readOriginalDeployment(d, hold)
	if !ours {
		o = originalOf(want)
	}
	setAnnotation(want, rollouts.AnnotationOriginalStrategy, encode(o))
	surge, none := surgeFor(r, to.Partition, replicas(d)), intstr.FromInt32(0)
	want.Spec.Strategy = appsv1.DeploymentStrategy{
		Type:          appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &none},
	}
	deadline := foreverDeadline
	want.Spec.MinReadySeconds, want.Spec.ProgressDeadlineSeconds = foreverReady, &deadline
	want.Spec.Paused = other // otherwise the native controller would release another template
	if wouldTakeStablePods(d, r, to.Partition) {
		want.Spec.Strategy, want.Spec.Paused = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}, true
	}
	// Before the native controller continues, disable autoscalers and make stable pods unavailable,
	// too. Otherwise a rollback would remove the new pods at once.
	changes := retargetAutoscalers(findAutoscalers(d.Name, deploymentKind, owned, false), d.Name+disabledSuffix)
	if r.stable != nil {
		stable := r.stable.DeepCopy()
		stable.Spec.MinReadySeconds = foreverReady
		if !isStopped(want) {
			noteSurge(stable, surge)
		}
		changes = append(changes, changesBetween(r.stable, stable)...)
	}
	return append(changes, changesBetween(obj, want)...)
}

// noteSurge writes the surge of the step to the native controller's note on the stable ReplicaSet. The native
// controller writes the note only when it changes the size, so the note may have the surge of an earlier release. If
// the owner then scales down, the native controller would remove stable pods by the ratio of the two surges.
func noteSurge(stable *appsv1.ReplicaSet, surge intstr.IntOrString) {
	if n := notedReplicas(stable); n > 0 {
		setAnnotation(stable, annotationMax, strconv.Itoa(int(n+podsOfShare(surge, n))))
	}
}

// abortToStable removes the new pods as an abort of the partition style does. The Deployment is
// paused, and Weir decides the sizes: the native controller would scale down both versions in
// proportion. minReadySeconds is restored only after the native controller has observed the pause.
// Before that, it would remove old pods in exchange for the new ones. It would do the same while
// paused if the new ReplicaSet has all pods that its size annotation says.
func (b blueGreen) abortToStable(d *appsv1.Deployment, r revisions, owned []object.Object, hold Hold, to planner.SetTarget, owner metav1.OwnerReference) []object.Change {
	native := d.DeepCopy()
	o, ours := readOriginalDeployment(d, hold)
	if ours {
		o.restoreTo(native)
	}
	want := native
	for _, c := range b.deployment.SetTarget(native, owned, hold, to, owner) {
		want = c.Want.(*appsv1.Deployment)
	}
	if ours && r.update != nil && notedReplicas(r.update) > 0 && notedReplicas(r.update) == size(r.update) {
		setAnnotation(want, rollouts.AnnotationOriginalStrategy, encode(o))
		want.Spec.MinReadySeconds, want.Spec.ProgressDeadlineSeconds = d.Spec.MinReadySeconds, d.Spec.ProgressDeadlineSeconds
		return changesBetween(d, want)
	}
	if changes := changesBetween(d, want); len(changes) > 0 || !isObserved(d) {
		return changes
	}
	return restoreMinReady(r, native.Spec.MinReadySeconds)
}

// RestoreStrategy implements Adapter. After an abort, everything but the pause is restored, so that
// the workload may stay in this state for days.
func (b blueGreen) RestoreStrategy(obj object.Object, owned []object.Object, hold Hold) []object.Change {
	d := obj.(*appsv1.Deployment)
	return append(b.deployment.RestoreStrategy(obj, owned, hold), retargetAutoscalers(findAutoscalers(d.Name, deploymentKind, owned, true), d.Name)...)
}

// restoreMinReady restores the owner's minReadySeconds on ReplicaSets.
func restoreMinReady(r revisions, seconds int32) []object.Change {
	var changes []object.Change
	for _, rs := range r.all {
		if rs.Spec.MinReadySeconds == foreverReady {
			want := rs.DeepCopy()
			want.Spec.MinReadySeconds = seconds
			changes = append(changes, changesBetween(rs, want)...)
		}
	}
	return changes
}

// Restore implements Adapter. It enables autoscalers last: until the native controller has finished,
// the surge distorts what they measure.
func (b blueGreen) Restore(obj object.Object, owned []object.Object, hold Hold, how planner.RestoreWorkload) []object.Change {
	d := obj.(*appsv1.Deployment)
	r := findRevisions(d, owned, hold)
	if !hasOurKeys(d) && !isObserved(d) {
		return nil
	}
	want := d.DeepCopy()
	seconds := d.Spec.MinReadySeconds
	if o, ours := readOriginalDeployment(d, hold); ours {
		o.restoreTo(want)
		seconds = o.MinReadySeconds
	}
	changes := restoreMinReady(r, seconds)
	if hasOurKeys(d) {
		changes = append(changes, changesBetween(obj, restoreDeployment(want, hold, how.KeepPaused))...)
	} else {
		changes = append(changes, stripAnnotations(r)...)
	}
	if how.Wait && (len(changes) > 0 || isRolling(d, r)) {
		return changes
	}
	return append(changes, retargetAutoscalers(findAutoscalers(d.Name, deploymentKind, owned, true), d.Name)...)
}
