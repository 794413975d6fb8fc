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

// canary releases a Deployment through a second one: the Deployment itself is
// paused with the new template in its spec, so that only its stable set has
// pods, and an extra Deployment of that template is sized from here. In the end
// the native controller rolls the Deployment, and the extra one goes.
type canary struct{ deployment }

var _ Adapter = canary{}

// Observe implements Adapter.
func (c canary) Observe(obj object.Object, owned []object.Object, hold Hold) planner.Workload {
	d := obj.(*appsv1.Deployment)
	w := c.deployment.Observe(obj, owned, hold)
	extra := extraOf(d, owned, hold.revision())
	w.HasExtraWorkload = len(remaining(owned)) > 0
	w.HasManagedFields = w.HasManagedFields || w.HasExtraWorkload
	w.DeletionBlocked = cmp.Or(keptExtra(owned), w.DeletionBlocked)
	s := availabilityOf(d, owned, hold)
	w.ExtraNeeded = s.explain()
	gathered := !gathers(w.Target, findRevisions(d, owned, hold)) || !w.OwnerStrategyActive
	w.TargetApplied = obeyed(d, owned, extra, hold) && len(unneeded(s)) == 0 && gathered
	countExtra(&w)
	if extra == nil {
		return w
	}
	set := findRevisions(extra, owned, Hold{}).update
	w.Settled = w.Settled && settled(extra) && Emptied(set)
	if set != nil && runsSame(&extra.Spec.Template, &d.Spec.Template) {
		// Its own status may be written by who may not write this one.
		w.AvailableLater = availableLater(set)
		w.PodTemplateHash, w.UpdatedReplicas, w.UpdatedReadyReplicas = hashOf(set), set.Status.Replicas, set.Status.AvailableReplicas
	}
	return w
}

// countExtra has the pods of the extra Deployment alone count as updated. While the
// Deployment is stopped, its own ones of the live template are among those to go.
func countExtra(w *planner.Workload) {
	if w.Paused {
		w.StableReplicas, w.SupersededReplicas = w.StableReplicas+w.UpdatedReplicas, w.SupersededReplicas+w.UpdatedReplicas
	}
	w.PodTemplateHash, w.UpdatedReplicas, w.UpdatedReadyReplicas, w.AvailableLater = "", 0, 0, ""
}

// gathers reports whether the Deployment's own sets are to be sized: an abort finds
// them as the native controller left them when it was stopped on its way.
func gathers(target *planner.Target, r revisions) bool {
	return target != nil && target.Abort && r.stable != nil && slices.ContainsFunc(r.all, func(rs *appsv1.ReplicaSet) bool {
		return rs != r.stable && size(rs) > 0
	})
}

// unneeded returns the changes that delete extra Deployments of earlier templates, and scale down
// those that are already being deleted, once no request needs their pods.
func unneeded(s availability) []object.Change {
	surplus := s.surplus()
	superseded := discarded(s.superseded(), s.owned)
	return append(superseded, drained(slices.DeleteFunc(surplus, func(e *appsv1.Deployment) bool { return !s.isLive(e) }), s.owned)...)
}

// obeyed reports whether the extra Deployment is as large as was told.
func obeyed(d *appsv1.Deployment, owned []object.Object, extra *appsv1.Deployment, hold Hold) bool {
	target := hold.Target()
	switch {
	case target == nil, !d.Spec.Paused:
		return false
	case extra == nil:
		return wanted(d, 0, target) == 0
	default:
		return replicas(extra) == sized(d, owned, extra, hold, target)
	}
}

// wanted is the size of an extra Deployment that has one now: what was told, whatever
// somebody has made of it; on the way back it only shrinks. None serve where the owner
// wants no pods at all.
func wanted(d *appsv1.Deployment, now int32, target *planner.Target) int32 {
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

// sized returns the replicas that an existing extra Deployment should have. An abort does not
// shrink it while requests need its pods.
func sized(d *appsv1.Deployment, owned []object.Object, extra *appsv1.Deployment, hold Hold, target *planner.Target) int32 {
	if target.Abort {
		if needed, _ := availabilityOf(d, owned, hold).needs(extra, true); needed {
			return replicas(extra)
		}
	}
	return wanted(d, replicas(extra), target)
}

// extras are the extra Deployments, of whatever template: all that the BatchRelease
// owns. A label makes no Deployment one of them.
func extras(owned []object.Object) []*appsv1.Deployment {
	var found []*appsv1.Deployment
	for _, o := range owned {
		if e, ok := o.(*appsv1.Deployment); ok {
			found = append(found, e)
		}
	}
	return found
}

// remaining are those that are there, or have pods still. One that is deleted and that
// finalizers of others keep, without pods, counts as gone.
func remaining(owned []object.Object) []*appsv1.Deployment {
	return slices.DeleteFunc(extras(owned), func(e *appsv1.Deployment) bool {
		return e.DeletionTimestamp != nil && !adopted(e) && !slices.ContainsFunc(replicaSets(owned), func(rs *appsv1.ReplicaSet) bool {
			return metav1.IsControlledBy(rs, e) && (size(rs) > 0 || rs.Status.Replicas > 0)
		})
	})
}

// drained takes the pods of extra Deployments that are being deleted. Their own
// controller sizes nothing any more, and finalizers of others may keep them for ever.
func drained(surplus []*appsv1.Deployment, owned []object.Object) []object.Change {
	var changes []object.Change
	for _, rs := range replicaSets(owned) {
		for _, e := range surplus {
			if e.DeletionTimestamp != nil && metav1.IsControlledBy(rs, e) && size(rs) > 0 {
				want := rs.DeepCopy()
				want.Spec.Replicas = new(int32)
				changes = append(changes, change(rs, want)...)
			}
		}
	}
	return changes
}

// keptExtra says which finalizers keep an extra Deployment that was deleted.
func keptExtra(owned []object.Object) string {
	for _, e := range extras(owned) {
		if e.DeletionTimestamp != nil && len(e.Finalizers) > 0 && !adopted(e) {
			return rollouts.Lingers("deployment", e)
		}
	}
	return ""
}

// extraOf is the extra Deployment of the live template, or nil. Its name says
// of which template it is: what the template became there depends on metadata
// that only its maker knows. One that OpenKruise made, of which a release was
// taken over, is known by its template.
func extraOf(d *appsv1.Deployment, owned []object.Object, of planner.Revision) *appsv1.Deployment {
	name := extraName(d, of)
	for _, e := range extras(owned) {
		if e.DeletionTimestamp == nil && (e.Name == name || adopted(e) && extends(&e.Spec.Template, &d.Spec.Template)) {
			return e
		}
	}
	return nil
}

// adopted reports whether OpenKruise made the extra Deployment: it has OpenKruise's finalizer,
// and not a name that Weir gives. Anybody may add the finalizer to an extra Deployment of
// Weir's, and must not keep Weir from correcting its template by that.
func adopted(e *appsv1.Deployment) bool {
	return slices.Contains(e.Finalizers, rollouts.FinalizerCanaryDeployment) && !isExtraName(e.Name)
}

// randomSuffix is the length of the suffix that kube-apiserver generates. OpenKruise names its
// extra Deployments that way.
const randomSuffix = 5

// isExtraName reports whether the name is one that Weir gives to an extra Deployment.
func isExtraName(name string) bool {
	i := strings.LastIndex(name, canaryInfix)
	if i <= 0 {
		return false
	}
	hash := name[i+len(canaryInfix):]
	return len(hash) > randomSuffix && !strings.Contains(hash, "-")
}

// runsSame reports whether pods of both templates run the same, whatever their metadata:
// the plan may give other labels to those of an extra Deployment.
func runsSame(t, base *corev1.PodTemplateSpec) bool {
	return equality.Semantic.DeepEqual(t.Spec, base.Spec)
}

// extends reports whether a template is another one with more metadata.
func extends(t, base *corev1.PodTemplateSpec) bool {
	return equality.Semantic.DeepEqual(t.Spec, base.Spec) && includes(t.Labels, base.Labels) && includes(t.Annotations, base.Annotations)
}

func includes(m, part map[string]string) bool {
	for k, v := range part {
		if got, ok := m[k]; k != hashKey && (!ok || got != v) {
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
		name = collidedHash(&d.Spec.Template, 1)
	}
	return canaryName(d.Name, name)
}

func canaryName(deployment, revision string) string {
	return setName(deployment+rollouts.CanarySuffix, revision)
}

// Principal is the name of the Deployment that an extra one of this name would
// belong to. It is a guess, good enough to wake somebody; other names are their own.
func Principal(name string) string {
	if i := strings.LastIndex(name, canaryInfix); i > 0 && !strings.Contains(name[i+len(canaryInfix):], "-") {
		return name[:i]
	}
	if i := strings.LastIndexByte(name, '-'); i > 0 && len(name)-i-1 == randomSuffix {
		return name[:i]
	}
	return name
}

// Keep implements Adapter. Recreate is put back: when the Deployment is resumed
// it would take all pods down at once.
func (c canary) Keep(oldObj, newObj object.Object) {
	was, d := oldObj.(*appsv1.Deployment), newObj.(*appsv1.Deployment)
	if v, _ := readStrategy(was); !sizedElsewhere(v.RollingStyle) {
		c.deployment.Keep(oldObj, newObj) // before its first batch, and while its own sets are sized
		return
	}
	keepMarks(was, d)
	keepLimit(was, d, &d.Spec.RevisionHistoryLimit, was.Spec.RevisionHistoryLimit)
	saveHistory(was, d)
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		d.Spec.Strategy = *was.Spec.Strategy.DeepCopy()
	}
}

// SetTarget implements Adapter. What is told stands on the Deployment, so that an
// abort is known before there is an extra one.
func (c canary) SetTarget(obj object.Object, owned []object.Object, hold Hold, to planner.SetTarget, owner metav1.OwnerReference) []object.Change {
	d := obj.(*appsv1.Deployment)
	changes := append(c.setOwnTarget(d, owned, hold, to, owner), unneeded(availabilityOf(d, owned, hold))...)
	extra := extraOf(d, owned, to.Revision)
	if extra == nil {
		taken := slices.ContainsFunc(extras(owned), func(e *appsv1.Deployment) bool {
			return e.Name == extraName(d, to.Revision)
		})
		if size := wanted(d, 0, &to.Target); size > 0 && !taken {
			made := extraFor(d, hold, to, owner, size)
			findRevisions(d, owned, hold).apart(made)
			changes = append(changes, object.Change{Want: made})
		}
		return changes
	}
	return append(changes, change(extra, mended(extra, d, hold, to, owner, sized(d, owned, extra, hold, &to.Target)))...)
}

// setOwnTarget writes the target to the Deployment itself. If Weir has to size the Deployment's own
// ReplicaSets, it does so as in the partition style.
func (c canary) setOwnTarget(d *appsv1.Deployment, owned []object.Object, hold Hold, to planner.SetTarget, owner metav1.OwnerReference) []object.Change {
	r := findRevisions(d, owned, hold)
	if gathers(&to.Target, r) {
		return c.deployment.SetTarget(d, owned, hold, to, owner)
	}
	want := d.DeepCopy()
	writeTarget(want, hold, rollouts.StyleCanary, to, r.stableRevision, owner)
	want.Spec.Paused = true
	return change(d, want)
}

// extraFor is the extra Deployment of the live template. It belongs to the
// BatchRelease, so that it never outlives the release.
func extraFor(d *appsv1.Deployment, hold Hold, to planner.SetTarget, owner metav1.OwnerReference, size int32) *appsv1.Deployment {
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
		t.Annotations = merged(t.Annotations, map[string]string{rollouts.AnnotationDistinctRevision: r.Name})
	}
	if metadata := to.Metadata; metadata != nil {
		t := &extra.Spec.Template
		t.Labels = merged(t.Labels, metadata.Labels)
		t.Annotations = merged(t.Annotations, metadata.Annotations)
	}
	return extra
}

func merged(m, over map[string]string) map[string]string {
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

// Restore implements Adapter. The native controller rolls the Deployment while
// the extra one still serves, which goes when that is done. If nobody waits for
// that, it goes as soon as the Deployment's own pods are as many as its owner wants.
func (canary) Restore(obj object.Object, owned []object.Object, hold Hold, how planner.RestoreWorkload) []object.Change {
	d := obj.(*appsv1.Deployment)
	r := findRevisions(d, owned, hold)
	if !hasKeys(d) && !settled(d) {
		return nil
	}
	var changes []object.Change
	if hasKeys(d) {
		changes = change(obj, restored(d.DeepCopy(), hold, how.KeepPaused))
	} else {
		changes = stripped(r)
	}
	surplus := availabilityOf(d, owned, hold).surplus()
	if how.Wait && (len(changes) > 0 || rolling(d, r)) {
		// Keep only extra Deployments of the live template: pods of other templates must not
		// serve until the native rollout is over.
		surplus = slices.DeleteFunc(surplus, func(e *appsv1.Deployment) bool {
			return runsSame(&e.Spec.Template, &d.Spec.Template)
		})
	}
	return append(changes, discarded(surplus, owned)...)
}

// discardExtras removes all extra Deployments.
func discardExtras(owned []object.Object) []object.Change {
	return discarded(extras(owned), owned)
}

// discarded removes surplus Deployments. The finalizer of those that OpenKruise made
// goes first, since nobody else takes it off.
func discarded(surplus []*appsv1.Deployment, owned []object.Object) []object.Change {
	changes := drained(surplus, owned)
	for _, e := range surplus {
		switch {
		case adopted(e):
			want := e.DeepCopy()
			want.Finalizers = slices.DeleteFunc(want.Finalizers, func(f string) bool { return f == rollouts.FinalizerCanaryDeployment })
			changes = append(changes, change(e, want)...)
		case e.DeletionTimestamp == nil:
			changes = append(changes, object.Change{Base: e})
		}
	}
	return changes
}
