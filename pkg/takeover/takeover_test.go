// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package takeover_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/takeover"
	"github.com/weir-rollouts/weir/pkg/workload"
)

const (
	theirRevision = "their-revision"
	theirHash     = "their-hash"
	setHash       = "abcde"
	generation    = 7
)

// release returns a Rollout of Deployment web that waits at its first step.
func release() *rollouts.Rollout {
	half := intstr.FromString("50%")
	return &rollouts.Rollout{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web", UID: "u-1", ResourceVersion: "12", Generation: 3,
			CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0)),
			Finalizers:        []string{"rollouts.kruise.io/rollout", "example.com/theirs"},
			Annotations:       map[string]string{rollouts.AnnotationHash: theirHash},
			ManagedFields:     []metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "rollouts.kruise.io/v1beta1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{}`)}},
		},
		Spec: rollouts.RolloutSpec{
			WorkloadRef: &rollouts.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
			Strategy:    rollouts.Strategy{Canary: &rollouts.Release{Steps: []rollouts.Step{{Replicas: &half}}}},
		},
		Status: rollouts.RolloutStatus{Phase: rollouts.PhaseProgressing, Canary: &rollouts.Progress{
			UpdateRevision: theirRevision, PodTemplateHash: setHash, RolloutHash: theirHash, CurrentStepIndex: 1,
			State: rollouts.StepPaused, ObservedWorkloadGeneration: generation,
		}},
	}
}

// world returns the objects of one Deployment with a ReplicaSet of its new template.
func world(r *rollouts.Rollout) takeover.Found {
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:2"}}},
	}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "d-1", Generation: generation},
		Spec:       appsv1.DeploymentSpec{Template: template},
	}
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web-" + setHash, Labels: map[string]string{"pod-template-hash": setHash},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
	}}
	rs.Spec.Template = *template.DeepCopy()
	b := &rollouts.BatchRelease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "b-1", ResourceVersion: "13"},
		Spec:       rollouts.BatchReleaseSpec{WorkloadRef: r.Spec.WorkloadRef},
		Status:     rollouts.BatchReleaseStatus{UpdateRevision: theirRevision},
	}
	return takeover.Found{
		Rollouts: []*rollouts.Rollout{r}, BatchReleases: []*rollouts.BatchRelease{b},
		Deployments: []*appsv1.Deployment{d}, ReplicaSets: []*appsv1.ReplicaSet{rs},
	}
}

func stored[T takeover.Object](p *takeover.Plan) T {
	for _, o := range p.Objects {
		if o, ok := o.(T); ok {
			return o
		}
	}
	panic("it is not stored")
}

// All fields of an object stay, except for the hash of the plan and the revision, which implementations
// compute differently.
func TestKept(t *testing.T) {
	r := release()
	found := world(r)
	p := takeover.Decide(found)
	if len(p.Remarks) > 0 || len(p.Live) != 1 || len(p.Owners) != 1 || len(p.Objects) != 2 {
		t.Fatalf("%d objects, %d claims, in progress: %v, remarks: %v", len(p.Objects), len(p.Owners), p.Live, p.Remarks)
	}
	want := release()
	want.ResourceVersion = ""
	hash, revision := planner.PlanHash(want.Spec.Strategy.Canary), workload.TemplateHash(&found.Deployments[0].Spec.Template)
	want.Annotations[rollouts.AnnotationHash], want.Status.Canary.RolloutHash = hash, hash
	want.Status.Canary.UpdateRevision, want.Status.WorkloadUID = revision, found.Deployments[0].UID
	want.Status.Canary.UpdateTemplate = workload.Digest(&found.Deployments[0].Spec.Template)
	if diff := cmp.Diff(want, stored[*rollouts.Rollout](p)); diff != "" {
		t.Errorf("the Rollout (-want +got):\n%s", diff)
	}
	if b := stored[*rollouts.BatchRelease](p); b.UID != "b-1" || b.ResourceVersion != "" || b.Status.UpdateRevision != revision {
		t.Errorf("the BatchRelease: %+v", b)
	}
	if diff := cmp.Diff(release(), r); diff != "" {
		t.Errorf("what was found has changed (-want +got):\n%s", diff)
	}
}

// The template is the released one if the workload has not changed since it was observed, or if the pods of
// the release have the template.
func TestRecognised(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*rollouts.Rollout, *takeover.Found)
		want   bool
	}{
		"as it was":    {func(*rollouts.Rollout, *takeover.Found) {}, true},
		"scaled since": {func(_ *rollouts.Rollout, f *takeover.Found) { f.Deployments[0].Generation++ }, true},
		"no pods yet": {func(r *rollouts.Rollout, f *takeover.Found) {
			r.Status.Canary.PodTemplateHash, f.ReplicaSets = "", nil
		}, true},
		"another template since": {func(_ *rollouts.Rollout, f *takeover.Found) {
			f.Deployments[0].Generation++
			f.Deployments[0].Spec.Template.Spec.Containers[0].Image = "web:3"
		}, false},
		"no workload": {func(_ *rollouts.Rollout, f *takeover.Found) { f.Deployments = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := release()
			f := world(r)
			tc.change(r, &f)
			p := takeover.Decide(f)
			if got := stored[*rollouts.Rollout](p).Status.Canary.UpdateRevision != theirRevision; got != tc.want {
				t.Errorf("recognised: %t", got)
			}
			if told := len(p.Remarks) == 1 && strings.Contains(p.Remarks[0].Text, "from step 1"); told == tc.want || p.Refused() {
				t.Errorf("remarks %v", p.Remarks)
			}
		})
	}
}

// An edited plan that was not processed yet is processed after the takeover.
func TestEdited(t *testing.T) {
	r := release()
	r.Status.Canary.RolloutHash = "that of the plan before"
	got := stored[*rollouts.Rollout](takeover.Decide(world(r)))
	if p := got.Status.Canary; p.RolloutHash == got.Annotations[rollouts.AnnotationHash] {
		t.Error("the new plan is taken for the old one")
	}
}

// Releases that Weir cannot continue are refused. Without a current release, there is only a remark.
func TestRemarks(t *testing.T) {
	clones := func(r *rollouts.Rollout) {
		r.Spec.WorkloadRef = &rollouts.ObjectRef{APIVersion: "apps.kruise.io/v1alpha1", Kind: "CloneSet", Name: "web"}
	}
	for name, tc := range map[string]struct {
		change  func(*rollouts.Rollout, *takeover.Found)
		refused bool
		says    string
	}{
		"two of one workload": {func(_ *rollouts.Rollout, f *takeover.Found) {
			twin := release()
			twin.Name, twin.Status = "twin", rollouts.RolloutStatus{}
			f.Rollouts = append(f.Rollouts, twin)
		}, true, "Rollout shop/twin: names the workload that Rollout web names as well"},
		"a CloneSet in progress":    {func(r *rollouts.Rollout, _ *takeover.Found) { clones(r) }, true, "in progress of a CloneSet in the style Partition"},
		"a StatefulSet in progress": {func(r *rollouts.Rollout, _ *takeover.Found) { r.Spec.WorkloadRef.Kind = "StatefulSet" }, true, "in progress of a StatefulSet"},
		"an idle ReplicaSet": {func(r *rollouts.Rollout, _ *takeover.Found) {
			r.Spec.WorkloadRef.Kind = "ReplicaSet"
			r.Status.Phase = rollouts.PhaseHealthy
		}, false, "names a ReplicaSet"},
		"invalid": {func(r *rollouts.Rollout, _ *takeover.Found) { r.Spec.Strategy.Canary.Steps[0].Replicas = nil }, false,
			"is kept as it is, but a change of it has to fix this: spec.strategy.canary.steps[0].replicas"},
	} {
		t.Run(name, func(t *testing.T) {
			r := release()
			f := world(r)
			tc.change(r, &f)
			p := takeover.Decide(f)
			if len(p.Remarks) != 1 || p.Refused() != tc.refused || !strings.Contains(p.Remarks[0].String(), tc.says) {
				t.Errorf("refused: %t, remarks %v", p.Refused(), p.Remarks)
			}
		})
	}
}
