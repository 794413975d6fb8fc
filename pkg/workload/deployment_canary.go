// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// canary releases a Deployment through an extra Deployment. The Deployment itself is paused with the
// new template in its spec, so that only its stable ReplicaSet has pods. Weir sizes the extra
// Deployment, which has the new template. In the end the native controller rolls the Deployment, and
// the extra Deployment is deleted.
type canary struct{ deployment }

var _ Adapter = canary{}

// Observe implements Adapter.
func (c canary) Observe(obj object.Object, owned []object.Object, hold Hold) planner.Workload {
	d := obj.(*appsv1.Deployment)
	w := c.deployment.Observe(obj, owned, hold)
	extra := findExtra(d, owned, hold.revision())
	w.Extra.Exists = len(remainingExtras(owned)) > 0
	w.HasManagedFields = w.HasManagedFields || w.Extra.Exists
	w.DeletionBlocked = cmp.Or(blockedExtraDeletion(owned), w.DeletionBlocked)
	s := availabilityOf(d, owned, hold)
	w.Extra.Needed = s.explainNeeded()
	gathered := !needsOwnSizing(w.Target, findRevisions(d, owned, hold)) || !w.OwnerStrategyActive
	w.TargetApplied = hasTargetSize(d, owned, extra, hold) && len(removeUnneeded(s)) == 0 && gathered
	countExtra(&w)
	if extra == nil {
		return w
	}
	set := findRevisions(extra, owned, Hold{}).update
	w.Settled = w.Settled && isObserved(extra) && HasObservedZero(set)
	if set != nil && samePodSpec(&extra.Spec.Template, &d.Spec.Template) {
		// Read the status of the ReplicaSet: users without access to the workload may be able to
		// write the status of the extra Deployment.
		w.AvailableLater = minReadyReason(set)
		w.PodTemplateHash, w.UpdatedReplicas, w.UpdatedReadyReplicas = hashOf(set), set.Status.Replicas, set.Status.AvailableReplicas
	}
	return w
}

// countExtra counts only pods of the extra Deployment as updated. While the Deployment is paused,
// its own pods of the live template count as superseded.
func countExtra(w *planner.Workload) {
	if w.Paused {
		w.StableReplicas, w.SupersededReplicas = w.StableReplicas+w.UpdatedReplicas, w.SupersededReplicas+w.UpdatedReplicas
	}
	w.PodTemplateHash, w.UpdatedReplicas, w.UpdatedReadyReplicas, w.AvailableLater = "", 0, 0, ""
}

// needsOwnSizing reports whether Weir must size the Deployment's own ReplicaSets. Scenario: a
// rolling update was stopped half-way and is aborted, so that several ReplicaSets have pods.
func needsOwnSizing(target *planner.Target, r revisions) bool {
	return target != nil && target.Abort && r.stable != nil && slices.ContainsFunc(r.all, func(rs *appsv1.ReplicaSet) bool {
		return rs != r.stable && size(rs) > 0
	})
}

// removeUnneeded returns the changes that delete extra Deployments of earlier templates, and scale
// down those that are already being deleted, once no request needs their pods.
func removeUnneeded(s availability) []object.Change {
	surplus := s.unneededExtras()
	superseded := removeDeployments(s.supersededExtras(), s.owned)
	return append(superseded, drainDeleted(slices.DeleteFunc(surplus, func(e *appsv1.Deployment) bool { return !s.isLive(e) }), s.owned)...)
}

// hasTargetSize reports whether the extra Deployment has the size of the target.
func hasTargetSize(d *appsv1.Deployment, owned []object.Object, extra *appsv1.Deployment, hold Hold) bool {
	target := hold.Target()
	switch {
	case target == nil, !d.Spec.Paused:
		return false
	case extra == nil:
		return extraSize(d, 0, target) == 0
	default:
		return replicas(extra) == sizeOfExtra(d, owned, extra, hold, target)
	}
}

// extraSize returns the size of an extra Deployment that now has a number of pods. During an abort
// the size only shrinks. It is 0 if the owner scales the workload to 0.
func extraSize(d *appsv1.Deployment, now int32, target *planner.Target) int32 {
	size := max(planner.Limit(rollouts.StyleCanary, target.Partition, replicas(d)), target.MinExtraReplicas)
	switch {
	case replicas(d) == 0:
		return 0
	case target.Abort:
		return min(size, now)
	default:
		return size
	}
}

// sizeOfExtra returns the size of an existing extra Deployment. An abort does not shrink it while
// requests need its pods.
func sizeOfExtra(d *appsv1.Deployment, owned []object.Object, extra *appsv1.Deployment, hold Hold, target *planner.Target) int32 {
	if target.Abort {
		if needed, _ := availabilityOf(d, owned, hold).isNeeded(extra, true); needed {
			return replicas(extra)
		}
	}
	return extraSize(d, replicas(extra), target)
}

// extraDeployments returns all extra Deployments among the owned objects, of any template. The
// BatchRelease owns them. A label alone does not make a Deployment an extra one.
func extraDeployments(owned []object.Object) []*appsv1.Deployment {
	var found []*appsv1.Deployment
	for _, o := range owned {
		if e, ok := o.(*appsv1.Deployment); ok {
			found = append(found, e)
		}
	}
	return found
}

// remainingExtras returns the extra Deployments that exist or still have pods. A deleted one that
// finalizers of others keep does not count once it has no pods.
func remainingExtras(owned []object.Object) []*appsv1.Deployment {
	return slices.DeleteFunc(extraDeployments(owned), func(e *appsv1.Deployment) bool {
		return e.DeletionTimestamp != nil && !isAdopted(e) && !slices.ContainsFunc(replicaSets(owned), func(rs *appsv1.ReplicaSet) bool {
			return metav1.IsControlledBy(rs, e) && (size(rs) > 0 || rs.Status.Replicas > 0)
		})
	})
}

// drainDeleted scales the ReplicaSets of extra Deployments that are being deleted to 0. The native
// controller no longer sizes them, and finalizers of others may keep them indefinitely.
func drainDeleted(surplus []*appsv1.Deployment, owned []object.Object) []object.Change {
	var changes []object.Change
	for _, rs := range replicaSets(owned) {
		for _, e := range surplus {
			if e.DeletionTimestamp != nil && metav1.IsControlledBy(rs, e) && size(rs) > 0 {
				want := rs.DeepCopy()
				want.Spec.Replicas = new(int32)
				changes = append(changes, changesBetween(rs, want)...)
			}
		}
	}
	return changes
}

// blockedExtraDeletion returns a message about the finalizers that keep a deleted extra Deployment.
func blockedExtraDeletion(owned []object.Object) string {
	for _, e := range extraDeployments(owned) {
		if e.DeletionTimestamp != nil && len(e.Finalizers) > 0 && !isAdopted(e) {
			return rollouts.Lingers("deployment", e)
		}
	}
	return ""
}

// findExtra returns the extra Deployment of the live template; nil if there is none. The name of an
// extra Deployment identifies its template, because its own template has additional metadata. An
// extra Deployment that Weir adopted from OpenKruise is recognized by its template.
func findExtra(d *appsv1.Deployment, owned []object.Object, of planner.Revision) *appsv1.Deployment {
	name := extraName(d, of)
	for _, e := range extraDeployments(owned) {
		if e.DeletionTimestamp == nil && (e.Name == name || isAdopted(e) && extendsTemplate(&e.Spec.Template, &d.Spec.Template)) {
			return e
		}
	}
	return nil
}

// isAdopted reports whether OpenKruise created the extra Deployment: it has OpenKruise's finalizer,
// and a name that Weir does not generate. A user may add the finalizer to an extra Deployment of
// Weir. Weir still corrects the template of such a Deployment.
func isAdopted(e *appsv1.Deployment) bool {
	return slices.Contains(e.Finalizers, rollouts.FinalizerCanaryDeployment) && !isExtraName(e.Name)
}

// randomSuffix is the length of the suffix that kube-apiserver generates. OpenKruise names its
// extra Deployments that way.
const randomSuffix = 5

// isExtraName reports whether Weir generates the name for an extra Deployment.
func isExtraName(name string) bool {
	i := strings.LastIndex(name, canaryInfix)
	if i <= 0 {
		return false
	}
	hash := name[i+len(canaryInfix):]
	return len(hash) > randomSuffix && !strings.Contains(hash, "-")
}

// samePodSpec reports whether two templates have equal pod specs. Metadata may differ: the plan can
// add labels to the pods of an extra Deployment.
func samePodSpec(t, base *corev1.PodTemplateSpec) bool {
	return equality.Semantic.DeepEqual(t.Spec, base.Spec)
}

// extendsTemplate reports whether template t equals base except for additional labels and
// annotations.
func extendsTemplate(t, base *corev1.PodTemplateSpec) bool {
	return equality.Semantic.DeepEqual(t.Spec, base.Spec) && includesAll(t.Labels, base.Labels) && includesAll(t.Annotations, base.Annotations)
}

func includesAll(m, part map[string]string) bool {
	for k, v := range part {
		if got, ok := m[k]; k != hashLabel && (!ok || got != v) {
			return false
		}
	}
	return true
}

const canaryInfix = rollouts.CanarySuffix + "-"

// extraName returns the name of the extra Deployment of the live template. The parameter of is
// the revision that the workload was last driven to. If the live template is of that revision,
// extraName uses the revision's name. If it only has the same short hash, it gets another name.
func extraName(d *appsv1.Deployment, of planner.Revision) string {
	name := TemplateHash(&d.Spec.Template)
	switch {
	case of.Template == "":
	case of.Template == Digest(&d.Spec.Template):
		name = of.Name
	case of.Name == name:
		name = hashWithCollisions(&d.Spec.Template, 1)
	}
	return canaryName(d.Name, name)
}

func canaryName(deployment, revision string) string {
	return nameWithHash(deployment+rollouts.CanarySuffix, revision)
}

// GuessWorkloadName returns the name of the Deployment to which an extra Deployment of this name
// probably belongs. A wrong guess only causes an unnecessary reconcile. For other names it returns
// the name itself.
func GuessWorkloadName(name string) string {
	if i := strings.LastIndex(name, canaryInfix); i > 0 && !strings.Contains(name[i+len(canaryInfix):], "-") {
		return name[:i]
	}
	if i := strings.LastIndexByte(name, '-'); i > 0 && len(name)-i-1 == randomSuffix {
		return name[:i]
	}
	return name
}

// PreserveHold implements Adapter. It reverts Recreate: a Deployment that is resumed with Recreate
// would remove all pods at once.
func (c canary) PreserveHold(oldObj, newObj object.Object) {
	was, d := oldObj.(*appsv1.Deployment), newObj.(*appsv1.Deployment)
	if v, _ := readStrategy(was); !isSizedNatively(v.RollingStyle) {
		c.deployment.PreserveHold(oldObj, newObj) // before the first batch, and while Weir sizes its own ReplicaSets
		return
	}
	keepHeld(was, d)
	keepLimit(was, d, &d.Spec.RevisionHistoryLimit, was.Spec.RevisionHistoryLimit)
	saveZeroLimit(was, d)
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		d.Spec.Strategy = *was.Spec.Strategy.DeepCopy()
	}
}

// SetTarget implements Adapter. It records the target on the Deployment itself, so that an abort is
// recorded even if no extra Deployment exists yet.
func (c canary) SetTarget(obj object.Object, owned []object.Object, hold Hold, to planner.SetTarget, owner metav1.OwnerReference) []object.Change {
	d := obj.(*appsv1.Deployment)
	changes := append(c.setOwnTarget(d, owned, hold, to, owner), removeUnneeded(availabilityOf(d, owned, hold))...)
	extra := findExtra(d, owned, to.Revision)
	if extra == nil {
		taken := slices.ContainsFunc(extraDeployments(owned), func(e *appsv1.Deployment) bool {
			return e.Name == extraName(d, to.Revision)
		})
		if size := extraSize(d, 0, &to.Target); size > 0 && !taken {
			made := newExtra(d, hold, to, owner, size)
			findRevisions(d, owned, hold).excludeOtherSets(made)
			changes = append(changes, object.Change{Want: made})
		}
		return changes
	}
	return append(changes, changesBetween(extra, repairedExtra(extra, d, hold, to, owner, sizeOfExtra(d, owned, extra, hold, &to.Target)))...)
}

// setOwnTarget writes the target to the Deployment itself. If Weir has to size the Deployment's own
// ReplicaSets, it does so as in the partition style.
func (c canary) setOwnTarget(d *appsv1.Deployment, owned []object.Object, hold Hold, to planner.SetTarget, owner metav1.OwnerReference) []object.Change {
	r := findRevisions(d, owned, hold)
	if needsOwnSizing(&to.Target, r) {
		return c.deployment.SetTarget(d, owned, hold, to, owner)
	}
	want := d.DeepCopy()
	writeTarget(want, hold, rollouts.StyleCanary, to, r.stableRevision, owner)
	want.Spec.Paused = true
	return changesBetween(d, want)
}

// newExtra returns the extra Deployment of the live template. The BatchRelease owns it, so that
// garbage collection deletes it with the release.
func newExtra(d *appsv1.Deployment, hold Hold, to planner.SetTarget, owner metav1.OwnerReference, size int32) *appsv1.Deployment {
	own := d.DeepCopy()
	restoreStrategy(own, hold)
	extra := &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       d.Namespace,
			Name:            extraName(d, to.Revision),
			Labels:          map[string]string{rollouts.LabelCanaryDeployment: d.Name, rollouts.LabelOwnedByRelease: "true"},
			OwnerReferences: []metav1.OwnerReference{owner},
		},
		Spec: own.Spec,
	}
	writeController(extra, owner)
	extra.Spec.Replicas, extra.Spec.Paused = &size, false
	if r := to.Revision; r.Template != "" && r.Name == planner.DistinctName(TemplateHash(&d.Spec.Template), r.Template) {
		// Pods of another template have the same short hash in their label. This annotation changes
		// the hash that the native controller computes, so that no Service selects both.
		t := &extra.Spec.Template
		t.Annotations = mergeMaps(t.Annotations, map[string]string{rollouts.AnnotationDistinctRevision: r.Name})
	}
	if metadata := to.Metadata; metadata != nil {
		t := &extra.Spec.Template
		t.Labels = mergeMaps(t.Labels, metadata.Labels)
		t.Annotations = mergeMaps(t.Annotations, metadata.Annotations)
	}
	return extra
}

func mergeMaps(m, over map[string]string) map[string]string {
	if len(over) == 0 {
		return m
	}
	out := maps.Clone(m)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, over)
	return out
}

// Restore implements Adapter. The extra Deployment serves while the native controller rolls the
// Deployment, and is deleted afterwards. If how.Wait is false, it is deleted as soon as requests do
// not need its pods.
func (canary) Restore(obj object.Object, owned []object.Object, hold Hold, how planner.RestoreWorkload) []object.Change {
	d := obj.(*appsv1.Deployment)
	r := findRevisions(d, owned, hold)
	if !hasOurKeys(d) && !isObserved(d) {
		return nil
	}
	var changes []object.Change
	if hasOurKeys(d) {
		changes = changesBetween(obj, restoreDeployment(d.DeepCopy(), hold, how.KeepPaused))
	} else {
		changes = stripAnnotations(r)
	}
	surplus := availabilityOf(d, owned, hold).unneededExtras()
	if how.Wait && (len(changes) > 0 || isRolling(d, r)) {
		// Keep only extra Deployments of the live template: pods of other templates must not
		// serve until the native rollout is over.
		surplus = slices.DeleteFunc(surplus, func(e *appsv1.Deployment) bool {
			return samePodSpec(&e.Spec.Template, &d.Spec.Template)
		})
	}
	return append(changes, removeDeployments(surplus, owned)...)
}

// removeAllExtras deletes all extra Deployments.
func removeAllExtras(owned []object.Object) []object.Change {
	return removeDeployments(extraDeployments(owned), owned)
}

// removeDeployments deletes extra Deployments. It first removes OpenKruise's finalizer from adopted
// ones, because no other controller does.
func removeDeployments(surplus []*appsv1.Deployment, owned []object.Object) []object.Change {
	changes := drainDeleted(surplus, owned)
	for _, e := range surplus {
		switch {
		case isAdopted(e):
			want := e.DeepCopy()
			want.Finalizers = slices.DeleteFunc(want.Finalizers, func(f string) bool { return f == rollouts.FinalizerCanaryDeployment })
			changes = append(changes, changesBetween(e, want)...)
		case e.DeletionTimestamp == nil:
			changes = append(changes, object.Change{Base: e})
		}
	}
	return changes
}
