// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/internal/collision"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// TestCollision checks that two templates with the same short hash are two revisions.
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
	w := planner.Workload{RevisionFacts: planner.RevisionFacts{UpdateRevision: TemplateHash(twin), PodTemplateHash: revision.Name, UpdateTemplate: Digest(twin)}}
	if w.HasTemplateOf(revision) {
		t.Error("a workload with the twin is at the approved revision")
	}
	old := planner.Revision{Name: revision.Name}
	if !w.HasTemplateOf(old) {
		t.Error("a revision that an earlier version stored, without a digest, is not found by its name")
	}
}

// TestFinalizerDoesNotMakeExtraAdopted has a user who adds OpenKruise's finalizer to the extra
// Deployment and changes its template. Weir must still repair the template.
func TestFinalizerDoesNotMakeExtraAdopted(t *testing.T) {
	d, owned, extra := canaryWithTarget(t, "25%")
	extra.Finalizers = append(extra.Finalizers, rollouts.FinalizerCanaryDeployment)
	extra.Spec.Template.Spec.Containers[0].Image = "web:attack"
	var corrected *appsv1.Deployment
	for _, c := range (canary{}).SetTarget(d, owned, HoldFromRecords(d), canaryTarget("25%"), owner()) {
		if want, ok := c.Want.(*appsv1.Deployment); ok && want.Name == extra.Name {
			corrected = want
		}
	}
	if corrected == nil {
		t.Fatal("the extra Deployment is left as it is")
	}
	if image := corrected.Spec.Template.Spec.Containers[0].Image; image == "web:attack" || len(corrected.Finalizers) > 0 {
		t.Errorf("it runs %s, with the finalizers %v", image, corrected.Finalizers)
	}
}

// TestSpellingOfQuantities checks a quantity in another spelling: the template of a Deployment stays
// the same, but kinds with ControllerRevisions get another revision. Their native controllers behave
// so.
func TestSpellingOfQuantities(t *testing.T) {
	d, owned := readState(t, "native")
	was := (deployment{}).Observe(d, owned, HoldFromRecords(d))
	setMemory := func(t *corev1.PodTemplateSpec, text string) {
		t.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(text)}
	}
	for _, rs := range replicaSets(owned) {
		if rs.Labels[hashLabel] == was.PodTemplateHash {
			setMemory(&rs.Spec.Template, "1Gi")
		}
	}
	setMemory(&d.Spec.Template, "1Gi")
	before := (deployment{}).Observe(d, owned, HoldFromRecords(d))
	setMemory(&d.Spec.Template, "1073741824")
	if after := (deployment{}).Observe(d, owned, HoldFromRecords(d)); after.UpdateTemplate != before.UpdateTemplate {
		t.Error("another spelling is another template of a Deployment")
	}
	a, b := d.Spec.Template.DeepCopy(), d.Spec.Template.DeepCopy()
	setMemory(a, "1Gi")
	if sameWholeTemplate(a, b) {
		t.Error("another spelling is the same revision of a kind with ControllerRevisions")
	}
}
