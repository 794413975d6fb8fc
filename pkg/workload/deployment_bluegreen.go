// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"math"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// blueGreen releases a Deployment by surge: new pods come beside the old ones,
// and no old one goes until the end. The native controller does it, since no
// pod counts as available for years: then a rolling update that allows nothing
// to be unavailable never takes an old pod, and its surge is what may be new.
type blueGreen struct{ deployment }

var _ Adapter = blueGreen{}

// Values that no owner sets; their spelling is wire format.
const (
	foreverReady    int32 = math.MaxInt32 - 1
	foreverDeadline int32 = math.MaxInt32
	// nativeDeadline is the one that kube-apiserver sets where there is none.
	nativeDeadline int32 = 600
)

// Observe implements Adapter.
func (blueGreen) Observe(obj object.Object, owned []object.Object, hold Hold) planner.Workload {
	d := obj.(*appsv1.Deployment)
	r := findRevisions(d, owned, hold)
	w := deployment{}.Observe(obj, owned, hold)
	w.UsesSurge = d.Spec.MinReadySeconds == foreverReady
	w.HasManagedFields = w.HasManagedFields || len(hurried(r, d.Spec.MinReadySeconds)) > 0 || len(scalers(d.Name, deploymentKind, owned, true)) > 0
	if o, ours := readOriginal(d, hold); ours {
		_, w.MaxUnavailable = limits(o.update(), replicas(d))
		both, _ := r.driven(d, hold)
		w.OwnerStrategyActive, w.TargetApplied = false, surged(d, both, owned, hold)
	} else if hold.aborting() {
		w.TargetApplied = w.TargetApplied && len(hurried(r, d.Spec.MinReadySeconds)) == 0
	}
	return w
}

// unfinished reports whether an abort has left pods of the new version.
func unfinished(d *appsv1.Deployment, r revisions, hold Hold) bool {
	return (hold.aborting() || stopped(d) && hurries(r.update)) && lingers(r.update)
}

// hurries reports whether pods of a set become available, so that the native
// controller would take old ones for them.
func hurries(rs *appsv1.ReplicaSet) bool { return rs != nil && rs.Spec.MinReadySeconds != foreverReady }

// lingers reports whether pods of a set are still there, or are still counted.
func lingers(rs *appsv1.ReplicaSet) bool {
	return rs != nil && (size(rs) > 0 || rs.Status.Replicas > 0 || rs.Status.AvailableReplicas > 0)
}

// withoutStable reports whether the native controller would give stable's pods to the
// new version: at size 0, where it has none, where there are more of all or of the
// new version than a share allows, and from then on until stable is whole.
func withoutStable(d *appsv1.Deployment, r revisions, share intstr.IntOrString) bool {
	n := replicas(d)
	if r.onlyNew() && !(planner.Target{Partition: share}).IsAllPods(n) {
		return true
	}
	most := brings(share, n)
	switch {
	case n == 0 || r.stable == nil || r.stable == r.update:
		return n == 0
	case size(r.stable) >= n:
		return r.surplus(n, most)
	default:
		return size(r.stable) == 0 || stopped(d) || exceeds(r, n, most)
	}
}

// brings is how many pods the native controller brings of a share, beside those of stable:
// rounded up. A batch may be ready with one less (planner.Limit).
func brings(share intstr.IntOrString, n int32) int32 {
	return planner.Limit(rollouts.StyleCanary, share, n)
}

// surplus reports whether there are more pods of the new version than a share allows, which
// were made for this size: the native controller takes none of them.
func (r revisions) surplus(n, most int32) bool {
	return r.update != nil && size(r.update) > most && (noted(r.update) == 0 || noted(r.update) == n)
}

// onlyNew reports whether the stable set is gone, so that all pods would be new ones.
func (r revisions) onlyNew() bool {
	return r.stable == nil && r.stableRevision != "" && r.active() == 0
}

// exceeds reports whether there are more pods of all, or of the new version, than a share
// allows.
func exceeds(r revisions, replicas, most int32) bool {
	var all int32
	for _, rs := range r.all {
		all += size(rs)
	}
	return all > replicas+most || r.update != nil && size(r.update) > most
}

// stopped reports whether a blue-green release has taken the sets from the native controller.
func stopped(d *appsv1.Deployment) bool {
	return d.Spec.Paused && d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType
}

// beside is how many pods may be there beside stable's: those of a share, and no
// fewer than there are. Of too many the native controller takes old and new ones
// alike, as soon as a new template stops it. Those that are there for another size
// it takes in proportion.
func beside(r revisions, share intstr.IntOrString, n int32) intstr.IntOrString {
	if r.update == nil {
		return share
	}
	sized := noted(r.update)
	if size(r.update) > brings(share, n) && (sized == 0 || sized == n) {
		return intstr.FromInt32(size(r.update))
	}
	return share
}

// surged reports whether all that SetTarget writes is written.
func surged(d *appsv1.Deployment, r revisions, owned []object.Object, hold Hold) bool {
	target := hold.Target()
	if target == nil || target.Abort {
		return false
	}
	if withoutStable(d, r, target.Partition) {
		return stopped(d) && (replicas(d) == 0 || r.active() == 0)
	}
	return surgesTo(d, beside(r, target.Partition, replicas(d))) &&
		(r.stable == nil || r.stable.Spec.MinReadySeconds == foreverReady) && len(scalers(d.Name, deploymentKind, owned, false)) == 0
}

func surgesTo(d *appsv1.Deployment, surge intstr.IntOrString) bool {
	u := d.Spec.Strategy.RollingUpdate
	return u != nil && u.MaxSurge != nil && *u.MaxSurge == surge
}

// Keep implements Adapter. What the owner writes meanwhile is given back in the
// end. A new template stops the native controller, which would release it.
func (b blueGreen) Keep(oldObj, newObj object.Object) {
	was, d := oldObj.(*appsv1.Deployment), newObj.(*appsv1.Deployment)
	o, ours := readOriginal(was, HoldFromRecords(was))
	if !ours {
		b.deployment.Keep(oldObj, newObj) // before its first batch, and since an abort
		return
	}
	changed := renamed(was, d) || !sameTemplate(&was.Spec.Template, &d.Spec.Template)
	keepMarks(was, d)
	keepLimit(was, d, &d.Spec.RevisionHistoryLimit, was.Spec.RevisionHistoryLimit)
	saveHistory(was, d)
	d.Spec.Paused = was.Spec.Paused || changed
	if wrote := o.rewritten(was, d); wrote.wrong() == "" {
		o = wrote
	}
	annotate(d, rollouts.AnnotationOriginalStrategy, encode(o))
	d.Spec.Strategy = *was.Spec.Strategy.DeepCopy()
	d.Spec.MinReadySeconds, d.Spec.ProgressDeadlineSeconds = was.Spec.MinReadySeconds, was.Spec.ProgressDeadlineSeconds
}

// SetTarget implements Adapter.
func (b blueGreen) SetTarget(obj object.Object, owned []object.Object, hold Hold, to planner.SetTarget, owner metav1.OwnerReference) []object.Change {
	d := obj.(*appsv1.Deployment)
	r := findRevisions(d, owned, hold)
	if to.Abort {
		return b.back(d, r, owned, hold, to, owner)
	}
	r, other := r.driven(d, hold)
	if unfinished(d, r, hold) {
		// A release that is tried again before its abort is over. New pods that
		// are still there are available, so the native controller would take old
		// ones for them. They go as soon as stable's count again.
		if !settled(d) {
			return nil
		}
		return hurried(r, d.Spec.MinReadySeconds)
	}
	want := d.DeepCopy()
	writeTarget(want, hold, rollouts.StyleBlueGreen, to, r.stableRevision, owner)
	o, ours := readOriginal(d, hold)
	if !ours {
		o = writtenBy(want)
	}
	annotate(want, rollouts.AnnotationOriginalStrategy, encode(o))
	surge, none := beside(r, to.Partition, replicas(d)), intstr.FromInt32(0)
	want.Spec.Strategy = appsv1.DeploymentStrategy{
		Type:          appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &none},
	}
	deadline := foreverDeadline
	want.Spec.MinReadySeconds, want.Spec.ProgressDeadlineSeconds = foreverReady, &deadline
	want.Spec.Paused = other // or the native controller would bring another template out
	if withoutStable(d, r, to.Partition) {
		want.Spec.Strategy, want.Spec.Paused = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}, true
	}
	// Before the native controller goes on, nobody else scales, and stable's pods
	// do not count as available either: or the new ones would go on a rollback.
	changes := aim(scalers(d.Name, deploymentKind, owned, false), d.Name+disabledSuffix)
	if r.stable != nil {
		stable := r.stable.DeepCopy()
		stable.Spec.MinReadySeconds = foreverReady
		changes = append(changes, change(r.stable, stable)...)
	}
	return append(changes, change(obj, want)...)
}

// back takes the new pods as an abort of the partition style does: paused, the
// native controller would spread what goes over both versions, so their sizes
// are decided here. What made pods wait for years ends when the native
// controller has seen the pause: before, it would take old pods for new ones. It
// would so also while it is paused, where it finds the new set full.
func (b blueGreen) back(d *appsv1.Deployment, r revisions, owned []object.Object, hold Hold, to planner.SetTarget, owner metav1.OwnerReference) []object.Change {
	native := d.DeepCopy()
	o, ours := readOriginal(d, hold)
	if ours {
		o.giveTo(native)
	}
	want := native
	for _, c := range b.deployment.SetTarget(native, owned, hold, to, owner) {
		want = c.Want.(*appsv1.Deployment)
	}
	if ours && r.update != nil && noted(r.update) > 0 && noted(r.update) == size(r.update) {
		annotate(want, rollouts.AnnotationOriginalStrategy, encode(o))
		want.Spec.MinReadySeconds, want.Spec.ProgressDeadlineSeconds = d.Spec.MinReadySeconds, d.Spec.ProgressDeadlineSeconds
		return change(d, want)
	}
	if changes := change(d, want); len(changes) > 0 || !settled(d) {
		return changes
	}
	return hurried(r, native.Spec.MinReadySeconds)
}

// RestoreStrategy implements Adapter. The abort is over: everything is the owner's again
// but the pause, so that it can be left over a weekend.
func (b blueGreen) RestoreStrategy(obj object.Object, owned []object.Object, hold Hold) []object.Change {
	d := obj.(*appsv1.Deployment)
	return append(b.deployment.RestoreStrategy(obj, owned, hold), aim(scalers(d.Name, deploymentKind, owned, true), d.Name)...)
}

// hurried lets pods become available again when their owner says.
func hurried(r revisions, seconds int32) []object.Change {
	var changes []object.Change
	for _, rs := range r.all {
		if rs.Spec.MinReadySeconds == foreverReady {
			want := rs.DeepCopy()
			want.Spec.MinReadySeconds = seconds
			changes = append(changes, change(rs, want)...)
		}
	}
	return changes
}

// Restore implements Adapter. Autoscalers come back last: until the native
// controller is done, there are more pods than they should judge by.
func (b blueGreen) Restore(obj object.Object, owned []object.Object, hold Hold, how planner.RestoreWorkload) []object.Change {
	d := obj.(*appsv1.Deployment)
	r := findRevisions(d, owned, hold)
	if !hasKeys(d) && !settled(d) {
		return nil
	}
	want := d.DeepCopy()
	seconds := d.Spec.MinReadySeconds
	if o, ours := readOriginal(d, hold); ours {
		o.giveTo(want)
		seconds = o.MinReadySeconds
	}
	changes := hurried(r, seconds)
	if hasKeys(d) {
		changes = append(changes, change(obj, restored(want, hold, how.KeepPaused))...)
	} else {
		changes = append(changes, stripped(r)...)
	}
	if how.Wait && (len(changes) > 0 || rolling(d, r)) {
		return changes
	}
	return append(changes, aim(scalers(d.Name, deploymentKind, owned, true), d.Name)...)
}
