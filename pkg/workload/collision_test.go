// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/internal/collision"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Two templates with the same short hash are two revisions.
func TestCollision(t *testing.T) {
	approved := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web:v2"}}},
	}
	other := approved.DeepCopy()
	other.Spec.Containers[0].Image = "web:attack"
	twin := collision.Of(approved, other)
	if TemplateHash(twin) != TemplateHash(approved) {
		t.Fatalf("the twin has the hash %s and not %s", TemplateHash(twin), TemplateHash(approved))
	}
	if Digest(twin) == Digest(approved) {
		t.Error("both have the digest " + Digest(twin))
	}
	revision := planner.Revision{Name: TemplateHash(approved), Template: Digest(approved)}
	if !hasTemplateOf(approved, "", revision) {
		t.Error("the approved template is not that of its revision")
	}
	if hasTemplateOf(twin, revision.Name, revision) {
		t.Error("the twin is taken for the approved template")
	}
	w := planner.Workload{UpdateRevision: TemplateHash(twin), PodTemplateHash: revision.Name, UpdateTemplate: Digest(twin)}
	if w.Is(revision) {
		t.Error("a workload with the twin is at the approved revision")
	}
	old := planner.Revision{Name: revision.Name}
	if !w.Is(old) {
		t.Error("a revision that an earlier version stored, without a digest, is not found by its name")
	}
}
