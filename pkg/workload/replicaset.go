// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/object"
)

const hashLabel = appsv1.DefaultDeploymentUniqueLabelKey

// hashOf returns the revision of a ReplicaSet: the hash in its selector, which is immutable. A
// user who may write ReplicaSets may give the metadata label of the same key any value.
func hashOf(rs *appsv1.ReplicaSet) string {
	if rs.Spec.Selector != nil && rs.Spec.Selector.MatchLabels[hashLabel] != "" {
		return rs.Spec.Selector.MatchLabels[hashLabel]
	}
	return rs.Labels[hashLabel]
}

// revisions are the ReplicaSets of a Deployment by role. A ReplicaSet is recognized by its template,
// as the native controller does, and never by name or hash: the hash of one template differs between
// versions of Kubernetes.
type revisions struct {
	// all are the ReplicaSets that are not being deleted, oldest first.
	all []*appsv1.ReplicaSet
	// terminating were deleted, and finalizers keep them. They create no pods, but the native
	// controller still counts them.
	terminating []*appsv1.ReplicaSet
	// update has the live template; nil until it exists.
	update *appsv1.ReplicaSet
	// stable has the template that served before the release; nil if it is gone. It may be the same
	// as update.
	stable *appsv1.ReplicaSet
	// stableRevision is the hash of stable. It is known even if the ReplicaSet is gone.
	stableRevision string
}

func findRevisions(d *appsv1.Deployment, owned []object.Object, hold Hold) revisions {
	var r revisions
	for _, rs := range replicaSets(owned) {
		switch {
		case !metav1.IsControlledBy(rs, d):
		case rs.DeletionTimestamp != nil:
			r.terminating = append(r.terminating, rs)
		default:
			r.all = append(r.all, rs)
		}
	}
	slices.SortFunc(r.all, compareAge)
	for _, rs := range r.all {
		if sameTemplate(&rs.Spec.Template, &d.Spec.Template) {
			r.update = rs
			break
		}
	}
	if hold.Stable != "" {
		r.stableRevision, r.stable = hold.Stable, r.byHash(hold.Stable)
		return r
	}
	r.stable = r.deriveStable(hold.Held)
	if r.stable != nil {
		r.stableRevision = hashOf(r.stable)
	}
	return r
}

// deriveStable returns the ReplicaSet that served before the live template if no record names it.
func (r revisions) deriveStable(held bool) *appsv1.ReplicaSet {
	others := slices.DeleteFunc(slices.Clone(r.all), func(rs *appsv1.ReplicaSet) bool { return rs == r.update })
	active := slices.DeleteFunc(slices.Clone(others), func(rs *appsv1.ReplicaSet) bool { return size(rs) == 0 })
	lowest := smallest(active, func(a, b *appsv1.ReplicaSet) int { return cmp.Compare(revisionOrder(a), revisionOrder(b)) })
	highest := smallest(others, func(a, b *appsv1.ReplicaSet) int { return cmp.Compare(revisionNumber(b), revisionNumber(a)) })
	switch {
	case lowest != nil:
		return lowest
	case r.update != nil && (size(r.update) > 0 || !held):
		return r.update
	case held && highest != nil:
		// Scenario: the Deployment was scaled to 0 right after it was held.
		return highest
	case held:
		return r.update
	default:
		return nil
	}
}

// smallest returns the first ReplicaSet in the given order, the oldest of equals; nil if there is
// none.
func smallest(sets []*appsv1.ReplicaSet, order func(a, b *appsv1.ReplicaSet) int) *appsv1.ReplicaSet {
	if len(sets) == 0 {
		return nil
	}
	return slices.MinFunc(sets, order)
}

func (r revisions) byHash(hash string) *appsv1.ReplicaSet {
	for _, rs := range r.all {
		if hashOf(rs) == hash {
			return rs
		}
	}
	return nil
}

// hasStableTemplate reports whether the live template is the stable one.
func (r revisions) hasStableTemplate(d *appsv1.Deployment) bool {
	return r.stable != nil && sameTemplate(&r.stable.Spec.Template, &d.Spec.Template)
}

// hasSeveralOldSets reports whether more than one ReplicaSet other than that of the live template
// has pods.
func (r revisions) hasSeveralOldSets() bool {
	n := r.countActive()
	if r.update != nil && size(r.update) > 0 {
		n--
	}
	return n > 1
}

// newestReadyRevision returns the newest old revision with ready pods, if a rolling update between
// old revisions was stopped half-way; else nothing.
func (r revisions) newestReadyRevision() (revision, digest string) {
	if !r.hasSeveralOldSets() {
		return "", ""
	}
	serving := slices.DeleteFunc(slices.Clone(r.all), func(rs *appsv1.ReplicaSet) bool {
		return rs == r.update || size(rs) == 0 || rs.Status.ReadyReplicas == 0
	})
	if len(serving) == 0 {
		return "", ""
	}
	newest := smallest(serving, func(a, b *appsv1.ReplicaSet) int { return cmp.Compare(revisionOrder(b), revisionOrder(a)) })
	return hashOf(newest), Digest(&newest.Spec.Template)
}

// countActive counts the ReplicaSets whose desired size is not 0.
func (r revisions) countActive() int {
	n := 0
	for _, rs := range r.all {
		if size(rs) > 0 {
			n++
		}
	}
	return n
}

func replicaSets(owned []object.Object) []*appsv1.ReplicaSet {
	var sets []*appsv1.ReplicaSet
	for _, o := range owned {
		if rs, ok := o.(*appsv1.ReplicaSet); ok {
			sets = append(sets, rs)
		}
	}
	return sets
}

func compareAge(a, b *appsv1.ReplicaSet) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

func size(rs *appsv1.ReplicaSet) int32 {
	if rs.Spec.Replicas == nil {
		return 1
	}
	return *rs.Spec.Replicas
}

// revisionNumber returns the number that the native controller gave to the ReplicaSet; 0 if it has
// none.
func revisionNumber(rs *appsv1.ReplicaSet) int64 {
	n, err := strconv.ParseInt(rs.Annotations[annotationRevision], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// revisionOrder returns the revision number for sorting. A ReplicaSet without a number is the
// newest.
func revisionOrder(rs *appsv1.ReplicaSet) int64 {
	if n := revisionNumber(rs); n > 0 {
		return n
	}
	return math.MaxInt64
}

func hasSizeAnnotations(rs *appsv1.ReplicaSet) bool {
	return hasAnyKey(rs.Annotations, []string{annotationDesired, annotationMax})
}

// notedReplicas returns the size of the Deployment for which the native controller last sized the
// ReplicaSet; 0 if unknown.
func notedReplicas(rs *appsv1.ReplicaSet) int32 {
	n, err := strconv.ParseInt(rs.Annotations[annotationDesired], 10, 32)
	if err != nil || n < 0 {
		return 0
	}
	return int32(n)
}
