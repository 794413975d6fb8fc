// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

var deploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment")

// deployment releases a Deployment by share: it is paused, its strategy is
// Recreate, and its ReplicaSets are sized from here.
type deployment struct{}

var _ Adapter = deployment{}

// Observe implements Adapter.
func (deployment) Observe(obj object.Object, owned []object.Object, hold Hold) planner.Workload {
	d := obj.(*appsv1.Deployment)
	r := findRevisions(d, owned, hold)
	w := r.liveFacts(d)
	w.Generation = d.Generation
	w.Settled = isObserved(d) && HasObservedZero(r.update)
	w.Labelled = d.Labels[rollouts.LabelWorkloadType] == typeLabel(deploymentKind.Kind)
	w.Held = hold.Held
	w.PendingEdit = hold.Active() && hasPendingEdit(d)
	w.HasManagedFields = hasOurKeys(d) || r.haveOurKeys()
	w.Paused = d.Spec.Paused
	w.Replicas = replicas(d)
	w.StableRevision = r.stableRevision
	w.HasStableTemplate = r.hasStableTemplate(d)
	w.NativeUpdateRunning = !hold.Held && isRolling(d, r)
	w.RolloutID = rolloutID(d)
	w.Target = hold.Target()
	w.OwnerStrategyActive = hasOwnerStrategy(d, hold)
	_, w.MaxUnavailable = ownerLimits(d, hold)
	w.RevisionKind = "ReplicaSet"
	w.StableRevisionGone = r.stable == nil && r.stableRevision != ""
	if r.stable != nil {
		w.StableTemplate = Digest(&r.stable.Spec.Template)
	}
	_, w.ExtraStatusStale = newExtraStatus(d, r, hold)
	for _, rs := range r.all {
		w.Revisions = append(w.Revisions, hashOf(rs))
	}
	w.DeletionBlocked, w.DeletedPodsRun = blockedSetDeletion(owned, false), blockedSetDeletion(owned, true)
	w.AdoptableSet = r.adoptableSet(d, hold)
	w.ProgressDeadline = progressDeadline(d, hold)
	w.PodCreationErrors = podCreationErrors(owned)
	r.countPods(w)
	w.NewestReadyRevision, w.NewestReadyTemplate = r.newestReadyRevision()
	return *w
}

// countPods is the facts about pods.
func (r revisions) countPods(w *planner.Workload) {
	if r.update != nil {
		w.AvailableLater = minReadyReason(r.update)
		w.UpdatedReplicas, w.UpdatedReadyReplicas = r.update.Status.Replicas, r.update.Status.ReadyReplicas
	}
	if r.stable != nil {
		w.StableReadyReplicas = r.stable.Status.ReadyReplicas
	}
	for _, rs := range r.all {
		if rs != r.update {
			w.StableReplicas += size(rs)
		}
		if rs != r.update && rs != r.stable {
			w.SupersededReplicas += size(rs)
		}
	}
	w.TargetApplied = w.Paused && (!w.OwnerStrategyActive || r.isAbortComplete(w.Target))
}

// isAbortComplete reports whether an abort asks for no more: what is left of the update set goes.
func (r revisions) isAbortComplete(target *planner.Target) bool {
	return target != nil && target.Abort && (r.update == nil || size(r.update) == 0)
}

// liveFacts is the facts that identify the live template.
func (r revisions) liveFacts(d *appsv1.Deployment) *planner.Workload {
	w := &planner.Workload{UpdateRevision: TemplateHash(&d.Spec.Template), UpdateTemplate: r.liveDigest(d)}
	if r.update != nil {
		w.PodTemplateHash = hashOf(r.update)
		w.LiveRevision, w.LiveReadyReplicas = w.PodTemplateHash, r.update.Status.ReadyReplicas
	}
	return w
}

// liveDigest identifies the live template. The native controller takes quantities of the same
// value in another spelling for the same template and replaces no pod, so the digest is that
// of the template's ReplicaSet, if it exists.
func (r revisions) liveDigest(d *appsv1.Deployment) string {
	if r.update != nil {
		return Digest(&r.update.Spec.Template)
	}
	return Digest(&d.Spec.Template)
}

// hasTemplateOf reports whether a template is that of a revision. It compares digests. If an
// earlier version of Weir stored the revision without a digest, it compares the short hash, or
// label, the value of the hash label of the template's ReplicaSet (empty without a ReplicaSet).
func hasTemplateOf(t *corev1.PodTemplateSpec, label string, r planner.Revision) bool {
	if r.Template != "" {
		return Digest(t) == r.Template
	}
	return r.Name != "" && (label == r.Name || TemplateHash(t) == r.Name)
}

// hasLiveRevision reports whether the current template of the Deployment is that of a revision.
func (r revisions) hasLiveRevision(d *appsv1.Deployment, revision planner.Revision) bool {
	if r.update != nil {
		return hasTemplateOf(&r.update.Spec.Template, hashOf(r.update), revision)
	}
	return hasTemplateOf(&d.Spec.Template, "", revision)
}

// withTargetSet returns the revisions with the ReplicaSet of the last target as the update set, and reports
// whether the live template is another one by now.
func (r revisions) withTargetSet(d *appsv1.Deployment, hold Hold) (driven revisions, other bool) {
	target := hold.revision()
	if target == (planner.Revision{}) || r.hasLiveRevision(d, target) {
		return r, false
	}
	for _, rs := range r.all {
		if rs != r.stable && hasTemplateOf(&rs.Spec.Template, hashOf(rs), target) {
			r.update = rs
		}
	}
	return r, true
}

// withAbortedSet are the revisions of an abort that names none, as that of a blue-green release:
// it takes back the pods that there are, whatever the live template is by now; and whether
// that is another one, as it may be known to be.
func (r revisions) withAbortedSet(hold Hold, other bool) (back revisions, another bool) {
	live := r.update != nil && r.update != r.stable && size(r.update) > 0
	if target := hold.Target(); live || target == nil || !target.Abort || target.Revision != (planner.Revision{}) {
		return r, other
	}
	for _, rs := range r.all {
		if rs != r.stable && size(rs) > 0 {
			r.update, other = rs, true
		}
	}
	return r, other
}

// progressDeadline is the owner's progress deadline in seconds; 0 if there is none.
func progressDeadline(d *appsv1.Deployment, hold Hold) int32 {
	p := d.Spec.ProgressDeadlineSeconds
	if o, ours := readOriginalDeployment(d, hold); ours {
		p = o.ProgressDeadlineSeconds
	}
	if p == nil {
		return 0
	}
	return *p
}

// ownerLimits are the surge and unavailability that the owner allows, whether
// the owner's strategy is in spec or kept while ours is.
func ownerLimits(d *appsv1.Deployment, hold Hold) (surge, unavailable int32) {
	if o, ok := readOriginalDeployment(d, hold); ok {
		return resolveLimits(&appsv1.RollingUpdateDeployment{MaxSurge: o.MaxSurge, MaxUnavailable: o.MaxUnavailable}, replicas(d))
	}
	if hold.hasStrategy {
		return resolveLimits(hold.strategy.RollingUpdate, replicas(d))
	}
	return resolveLimits(d.Spec.Strategy.RollingUpdate, replicas(d))
}

func isObserved(d *appsv1.Deployment) bool {
	return d.Status.ObservedGeneration >= d.Generation
}

// HasObservedZero reports whether the controller of a set that is to have no pods knows it.
// Until then it may bring pods that it does not count yet.
func HasObservedZero(rs *appsv1.ReplicaSet) bool {
	return rs == nil || size(rs) > 0 || rs.Status.ObservedGeneration >= rs.Generation
}

func replicas(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

// isRolling reports whether pods of another template are still to be replaced.
// Pods that are merely not ready yet, or fewer than wanted, are no release.
func isRolling(d *appsv1.Deployment, r revisions) bool {
	switch {
	case !isObserved(d), r.countActive() > 1, d.Status.UpdatedReplicas < d.Status.Replicas:
		return true
	case replicas(d) == 0:
		return false
	default:
		return r.update == nil || size(r.update) == 0
	}
}

// hasOwnerStrategy reports whether the owner's strategy is what is in spec. An owner's own
// Recreate is that as well, before anything is told and as soon as nothing is to be
// released any more.
func hasOwnerStrategy(d *appsv1.Deployment, hold Hold) bool {
	if d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		return true
	}
	v := hold.strategy
	return v.RollingUpdate == nil && (v.Abort || v.Revision == "")
}

func hasOurKeys(obj object.Object) bool {
	return hasAnyKey(obj.GetAnnotations(), ourAnnotations) || hasAnyKey(obj.GetLabels(), ourLabels)
}

// haveOurKeys reports whether the native controller copied our annotations to a set.
func (r revisions) haveOurKeys() bool {
	for _, rs := range r.all {
		if hasAnyKey(rs.Annotations, ourAnnotations) {
			return true
		}
	}
	return false
}

// Hold implements Adapter. The strategy stays: with one active ReplicaSet the
// owner's is the safer one should somebody resume the Deployment.
func (deployment) Hold(obj object.Object, by string, _ bool) {
	d := obj.(*appsv1.Deployment)
	d.Spec.Paused = true
	d.Annotations = withoutKeys(d.Annotations, rollouts.AnnotationOriginalStrategy)
	raiseZeroLimit(d)
	writeHoldMark(d, by)
}

// PreserveHold implements Adapter. While our Recreate is in force, an owner who writes
// a strategy or a history limit changes what is given back in the end.
func (deployment) PreserveHold(oldObj, newObj object.Object) {
	was, d := oldObj.(*appsv1.Deployment), newObj.(*appsv1.Deployment)
	keepHeld(was, d)
	_, controlled := readController(was)
	v, driven := readStrategy(was)
	switch {
	case was.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType:
	case driven:
		before := v.RollingUpdate
		takeStrategy(d, &v)
		if v.RollingUpdate != nil && validateRollingUpdate(v.RollingUpdate) != "" {
			v.RollingUpdate = before // it could not be given back
		}
		writeStrategy(d, v)
	case controlled:
		d.Spec.Strategy = *was.Spec.Strategy.DeepCopy()
	}
	saveZeroLimit(was, d)
}

// keepHeld keeps a Deployment held, and what says how.
func keepHeld(was, d *appsv1.Deployment) {
	d.Spec.Paused = true
	KeepRecords(was, d)
}

// UnholdableReason implements Adapter. A pause holds every Deployment, also without pods. But
// its native controller gives pods that come to the set of the live template, or else to
// the youngest.
func (deployment) UnholdableReason(old, update object.Object, _ bool) string {
	if replicas(old.(*appsv1.Deployment)) == 0 && replicas(update.(*appsv1.Deployment)) > 0 {
		return "spec.replicas is 0, and pods that come with another template may be of that one; change the template first, and set spec.replicas when the release has begun"
	}
	return ""
}

// SetStable implements Adapter. The hash label is the set's, not the owner's.
// The set is named as stable in the same write: at size 0 nothing else would
// tell it from the older ones, once its template is the live one.
func (deployment) SetStable(obj object.Object, owned []object.Object, hold Hold) []object.Change {
	d := obj.(*appsv1.Deployment)
	stable := findRevisions(d, owned, hold).stable
	if stable == nil {
		return nil
	}
	want := hold.copyOf(d).(*appsv1.Deployment)
	want.Spec.Template = *withoutHash(&stable.Spec.Template).DeepCopy()
	setLabel(want, rollouts.LabelStableRevision, hashOf(stable))
	return changesBetween(obj, want)
}

// changesBetween is the write that turns base into want, if they differ at all.
func changesBetween(base, want object.Object) []object.Change {
	if equality.Semantic.DeepEqual(base, want) {
		return nil
	}
	return []object.Change{{Base: base, Want: want}}
}
