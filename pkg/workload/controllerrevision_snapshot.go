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

// ControllerRevisions may be deleted in the middle of a release. Only their controller
// makes them: that of the live template when it looks at the workload, and so that of
// the stable template when that is set again.

// Requeue has the native controller look at a workload: any write of it does that.
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

// snapshotControllerRevision is what is to be put on file of one. A revision is named by the whole
// name of its object, or by the end of it.
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

// findRevisionByDigest is the newest revision of the workload whose template has a digest. Without
// pods nothing is held, and the live template is the stable one.
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
