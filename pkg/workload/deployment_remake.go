// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"encoding/json"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// filed reads a ReplicaSet from file; nil if that is not one.
func filed(kept File) *appsv1.ReplicaSet {
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: kept.Name}}
	if err := json.Unmarshal(kept.Spec, &rs.Spec); err != nil || rs.Spec.Selector == nil || rs.Spec.Template.Labels[hashKey] == "" {
		return nil
	}
	return rs
}

// File implements Adapter.
func (deployment) File(_ object.Object, owned []object.Object, revision string) *File {
	for _, o := range owned {
		if rs, ok := o.(*appsv1.ReplicaSet); ok && rs.Labels[hashKey] == revision {
			return &File{Name: rs.Name, Spec: []byte(encode(rs.Spec))}
		}
	}
	return nil
}

// Kept implements Adapter.
func (deployment) Kept(obj object.Object, owned []object.Object, kept File) planner.Kept {
	d, rs := obj.(*appsv1.Deployment), filed(kept)
	if rs == nil {
		return planner.Kept{}
	}
	k := planner.Kept{Template: digest(&rs.Spec.Template), Live: sameTemplate(&rs.Spec.Template, &d.Spec.Template)}
	if twin := findRevisions(d, owned).byTemplate(rs); twin != nil {
		k.Revision = twin.Labels[hashKey]
	}
	return k
}

// Remake implements Adapter. The set comes back under its name and label, since
// Services select by it and orphaned pods go back to it, and with all its pods at
// once: it is the version that served. The Deployment says in the same breath
// which one it is, or the native controller's substitute would be taken for it.
func (n deployment) Remake(obj object.Object, owned, beside []object.Object, kept File, how planner.RemakeStable) []object.Change {
	d, rs := obj.(*appsv1.Deployment), filed(kept)
	r := findRevisions(d, owned)
	if rs == nil {
		return nil
	}
	if old := r.byHash(how.Revision); old != nil && digest(&old.Spec.Template) == digest(&rs.Spec.Template) {
		return nil
	}
	want := d.DeepCopy()
	if how.Live {
		want.Spec.Template = *plain(&rs.Spec.Template).DeepCopy()
	}
	if twin := r.byTemplate(rs); twin != nil {
		label(want, rollouts.LabelStableRevision, twin.Labels[hashKey])
		return change(obj, want)
	}
	hash := identify(rs, d, beside)
	label(want, rollouts.LabelStableRevision, hash)
	changes := append(change(obj, want), object.Change{Want: remade(rs, d, hash, n.share(d))})
	return append(append(changes, r.emptied(d)...), r.removed(d, how.Revision)...)
}

// RemoveStrays implements Adapter.
func (deployment) RemoveStrays(obj object.Object, owned []object.Object) []object.Change {
	d := obj.(*appsv1.Deployment)
	r := findRevisions(d, owned)
	changes := r.emptied(d)
	if r.remadeStable(d) {
		changes = append(changes, r.removed(d, r.stableRevision)...)
	}
	return changes
}

// emptied makes sets small that were deleted and that finalizers keep. Their controller
// makes no pods for them and takes none, and the native controller would give them
// those of the others. It does so again where it is not stopped.
func (r revisions) emptied(d *appsv1.Deployment) []object.Change {
	var changes []object.Change
	for _, rs := range r.ending {
		if !d.Spec.Paused && sameTemplate(&rs.Spec.Template, &d.Spec.Template) {
			continue
		}
		want := rs.DeepCopy()
		want.Spec.Replicas = new(int32)
		changes = append(changes, change(rs, want)...)
	}
	return changes
}

// takenFor says which set of a held Deployment its native controller would take for
// that of the live template, though it was deleted and makes no pods; empty if none.
func (r revisions) takenFor(d *appsv1.Deployment) string {
	if _, controlled := readOwner(d); !controlled && !held(d) {
		return ""
	}
	alike := slices.DeleteFunc(slices.Concat(r.all, r.ending), func(rs *appsv1.ReplicaSet) bool {
		return !sameTemplate(&rs.Spec.Template, &d.Spec.Template)
	})
	if oldest := first(alike, older); oldest != nil && oldest.DeletionTimestamp != nil {
		return lingering(oldest)
	}
	return ""
}

// deletedSet says what keeps a set that was deleted, of the Deployment or of what is
// beside it; withPods looks only at those whose pods run on.
func deletedSet(owned []object.Object, withPods bool) string {
	for _, rs := range replicaSets(owned) {
		if rs.DeletionTimestamp != nil && len(rs.Finalizers) > 0 && (rs.Status.Replicas > 0 || !withPods) {
			return lingering(rs)
		}
	}
	return ""
}

func lingering(rs *appsv1.ReplicaSet) string {
	if rs.Status.Replicas == 0 {
		return rollouts.Lingers("replicaset", rs)
	}
	return rollouts.Lingers("replicaset", rs) + "; its pods run on until it is gone"
}

func (r revisions) byTemplate(like *appsv1.ReplicaSet) *appsv1.ReplicaSet {
	for _, rs := range r.all {
		if sameTemplate(&rs.Spec.Template, &like.Spec.Template) {
			return rs
		}
	}
	return nil
}

// share is how many pods the stable set is to have.
func (deployment) share(d *appsv1.Deployment) int32 {
	target := readTarget(d)
	v, _ := readDriving(d)
	if target == nil || target.Abort || sizedElsewhere(v.RollingStyle) || native(d) {
		return replicas(d)
	}
	return replicas(d) - target.Limit(replicas(d))
}

// identify gives the set another name where its own is taken, and another label
// only where pods of somebody else may have it.
func identify(rs *appsv1.ReplicaSet, d *appsv1.Deployment, beside []object.Object) (hash string) {
	names, labels := map[string]bool{}, map[string]bool{}
	for _, o := range replicaSets(beside) {
		names[o.Name] = true
		labels[o.Labels[hashKey]] = labels[o.Labels[hashKey]] || o.DeletionTimestamp == nil
	}
	hash = rs.Spec.Template.Labels[hashKey]
	for collisions := uint32(1); names[rs.Name] || labels[hash]; collisions++ {
		next := collidedHash(&rs.Spec.Template, collisions)
		if rs.Name = setName(d.Name, next); labels[hash] {
			hash = next
		}
	}
	return hash
}

func remade(rs *appsv1.ReplicaSet, d *appsv1.Deployment, hash string, size int32) *appsv1.ReplicaSet {
	rs.TypeMeta = metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "ReplicaSet"}
	rs.Namespace = d.Namespace
	rs.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d, deploymentKind)}
	rs.Spec.Template.Labels = withHash(rs.Spec.Template.Labels, hash)
	rs.Spec.Selector.MatchLabels = withHash(rs.Spec.Selector.MatchLabels, hash)
	rs.Labels = maps.Clone(rs.Spec.Template.Labels)
	rs.Spec.Replicas, rs.Spec.MinReadySeconds = &size, d.Spec.MinReadySeconds
	return rs
}

// strays are sets that the native controller has given pods for want of a stable
// one. Where sizes are not decided here they must go: of two sets with pods it
// keeps both.
func (r revisions) strays(d *appsv1.Deployment, stable string) []*appsv1.ReplicaSet {
	var found []*appsv1.ReplicaSet
	for _, rs := range r.all {
		if rs != r.update && rs.Labels[hashKey] != stable && size(rs) > 0 && native(d) && d.Spec.Paused {
			found = append(found, rs)
		}
	}
	return found
}

// removed deletes strays, each whatever its version is by now.
func (r revisions) removed(d *appsv1.Deployment, stable string) []object.Change {
	var changes []object.Change
	for _, rs := range r.strays(d, stable) {
		gone := rs.DeepCopy()
		gone.ResourceVersion = ""
		changes = append(changes, object.Change{Base: gone})
	}
	return changes
}

// remadeStable reports whether the stable set was made here: the native controller
// numbers every set that it knew as the newest.
func (r revisions) remadeStable(d *appsv1.Deployment) bool {
	return held(d) && r.stable != nil && r.stable != r.update && revision(r.stable) == 0 && d.Labels[rollouts.LabelStableRevision] != ""
}
