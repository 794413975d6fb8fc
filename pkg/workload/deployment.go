// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

var deploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment")

// deployment releases a Deployment in the partition style: the Deployment is paused, its strategy is
// Recreate, and Weir sizes its ReplicaSets.
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

// countPods sets the facts about pods.
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

// isAbortComplete reports whether the target is an abort, and only the stable ReplicaSet has a size. The
// native controller may give pods to any other ReplicaSet when the workload grows from size 0.
func (r revisions) isAbortComplete(target *planner.Target) bool {
	return target != nil && target.Abort && !slices.ContainsFunc(r.all, func(rs *appsv1.ReplicaSet) bool { return rs != r.stable && size(rs) > 0 })
}

// liveFacts returns the facts that identify the live template.
func (r revisions) liveFacts(d *appsv1.Deployment) *planner.Workload {
	w := &planner.Workload{}
	w.UpdateRevision, w.UpdateTemplate = TemplateHash(&d.Spec.Template), r.liveDigest(d)
	if r.update != nil {
		w.PodTemplateHash = hashOf(r.update)
		w.LiveRevision, w.LiveReadyReplicas = w.PodTemplateHash, r.update.Status.ReadyReplicas
	}
	return w
}

// liveDigest returns the digest of the live template. The native controller treats quantities of the
// same value in another spelling as the same template and replaces no pod. So the digest is that of
// the template's ReplicaSet, if the ReplicaSet exists.
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

// hasLiveRevision reports whether the live template of the Deployment is that of a revision.
func (r revisions) hasLiveRevision(d *appsv1.Deployment, revision planner.Revision) bool {
	if r.update != nil {
		return hasTemplateOf(&r.update.Spec.Template, hashOf(r.update), revision)
	}
	return hasTemplateOf(&d.Spec.Template, "", revision)
}

// withTargetSet returns the revisions with the ReplicaSet of the last target as the update
// ReplicaSet. It also reports whether the live template is now another one.
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

// withAbortedSet returns the revisions for an abort that names no revision, such as that of a
// blue-green release. The update ReplicaSet is then the one that has pods, even if the live template
// has changed. It also reports whether the live template is another one, which the parameter other
// may already say.
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

// progressDeadline returns the owner's progress deadline in seconds; 0 if there is none.
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

// ownerLimits returns the surge and unavailability that the owner allows. They are in the spec, or
// saved while the spec has Weir's strategy.
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

// HasObservedZero reports whether the controller of a ReplicaSet with size 0 has observed the size.
// Before that, the controller may create pods that the status does not count yet. It is true for
// other sizes.
func HasObservedZero(rs *appsv1.ReplicaSet) bool {
	return rs == nil || size(rs) > 0 || rs.Status.ObservedGeneration >= rs.Generation
}

func replicas(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

// isRolling reports whether pods of another template still have to be replaced. Unready or missing
// pods alone are not a rolling update.
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

// hasOwnerStrategy reports whether the strategy in the spec is the owner's. An owner may use
// Recreate, too: it counts as the owner's before the first target and after the release.
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

// haveOurKeys reports whether the native controller copied Weir's annotations to a ReplicaSet.
func (r revisions) haveOurKeys() bool {
	for _, rs := range r.all {
		if hasAnyKey(rs.Annotations, ourAnnotations) {
			return true
		}
	}
	return false
}

// Hold implements Adapter. It does not change the strategy: if somebody resumes the Deployment while
// one ReplicaSet has pods, the owner's strategy is the safer one.
func (deployment) Hold(obj object.Object, by string, _ bool) {
	d := obj.(*appsv1.Deployment)
	d.Spec.Paused = true
	d.Annotations = withoutKeys(d.Annotations, rollouts.AnnotationOriginalStrategy)
	raiseZeroLimit(d)
	writeHoldMark(d, by)
}

// PreserveHold implements Adapter. While the spec has Weir's Recreate, a strategy or history limit
// that the owner writes is saved and restored at the end.
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
			v.RollingUpdate = before // an invalid strategy could not be restored
		}
		writeStrategy(d, v)
	case controlled:
		d.Spec.Strategy = *was.Spec.Strategy.DeepCopy()
	}
	saveZeroLimit(was, d)
}

// keepHeld keeps a Deployment paused, and keeps its records.
func keepHeld(was, d *appsv1.Deployment) {
	d.Spec.Paused = true
	KeepRecords(was, d)
}

// UnholdableReason implements Adapter. A pause holds every Deployment, even without pods. But if the
// same write scales the Deployment up from 0, the native controller gives all pods to the ReplicaSet
// of the live template, or else to the youngest.
func (deployment) UnholdableReason(old, update object.Object, _ bool) string {
	if replicas(old.(*appsv1.Deployment)) == 0 && replicas(update.(*appsv1.Deployment)) > 0 {
		return "spec.replicas grows from 0, and the new pods could run either template. Send two updates: first spec.template, and when the release has begun, spec.replicas"
	}
	return ""
}

// SetStable implements Adapter. It removes the hash label, which belongs to the ReplicaSet and not
// to the owner's template. The same write records the stable revision: at size 0, nothing else
// distinguishes the stable ReplicaSet from older ones once its template is the live one.
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

// changesBetween returns the write that turns base into want; nothing if they are equal.
func changesBetween(base, want object.Object) []object.Change {
	if equality.Semantic.DeepEqual(base, want) {
		return nil
	}
	return []object.Change{{Base: base, Want: want}}
}
