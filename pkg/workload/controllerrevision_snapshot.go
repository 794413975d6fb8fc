// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Users may delete ControllerRevisions during a release. Only the native controller creates them: it
// creates that of the live template whenever it reconciles the workload. So Weir requeues the
// workload, or sets the stable template again.

// Requeue writes an annotation so that the native controller reconciles the workload.
func Requeue(obj object.Object, hold Hold, how planner.RequeueWorkload) []object.Change {
	want := hold.copyOf(obj)
	setAnnotation(want, rollouts.AnnotationAskedAgain, how.At)
	return changesBetween(obj, want)
}

// snapshotTemplate is the part of a ControllerRevision that a RolloutHistory keeps: the template
// with its unknown fields.
type snapshotTemplate struct {
	Template any `json:"template"`
}

// snapshotControllerRevision returns the copy of a ControllerRevision that a RolloutHistory keeps.
// The name of the revision is the whole name of the object or its hash suffix.
func snapshotControllerRevision(obj object.Object, owned []object.Object, revision planner.Revision) *RevisionSnapshot {
	for _, o := range owned {
		cr, ok := o.(*appsv1.ControllerRevision)
		if !ok || !metav1.IsControlledBy(cr, obj) || cr.Name != revision.Name && hashSuffix(cr.Name) != revision.Name {
			continue
		}
		h := history{"": cr}
		t, unknown := h.read("")
		if t == nil || revision.Template != "" && h.digest("") != revision.Template {
			continue
		}
		if whole, err := jsonOf(t, unknown); err == nil {
			return &RevisionSnapshot{Name: cr.Name, Spec: []byte(encode(snapshotTemplate{whole}))}
		}
	}
	return nil
}

// findRevisionByDigest returns the newest revision of the workload whose template has the digest. It
// returns none for a workload without pods: such a workload is not held, and its live template is
// the stable one.
func (a partitioned) findRevisionByDigest(obj object.Object, owned []object.Object, digest string) string {
	isPod := func(o object.Object) bool {
		p, ok := o.(*corev1.Pod)
		return ok && metav1.IsControlledBy(p, obj)
	}
	if !slices.ContainsFunc(owned, isPod) {
		return ""
	}
	h, newest := historyOf(obj, owned, a.revisionName), ""
	for name := range h {
		if h.digest(name) == digest && (newest == "" || h.number(name) > h.number(newest)) {
			newest = name
		}
	}
	return newest
}
