// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	applyv1beta1 "github.com/weir-rollouts/weir/pkg/generated/applyconfiguration/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/generated/clientset/versioned"
	"github.com/weir-rollouts/weir/pkg/generated/informers/externalversions"
)

func clientset(t *testing.T, as string) *versioned.Clientset {
	t.Helper()
	c, err := versioned.NewForConfig(server.As(as))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The typed client supports the verbs in both versions, with their bodies and their errors.
func TestTypedVerbs(t *testing.T) {
	t.Parallel()
	ns, c := namespace(t), clientset(t, admin)
	step := int32(1)
	releasing(t, ns, "new")
	promote := &v1beta1.PromoteOptions{DecisionOptions: v1beta1.DecisionOptions{
		Reason: "fine", RequestID: "r1", Expect: &v1beta1.Expectation{Step: &step},
	}}
	for range 2 { // the second one is the first one, repeated
		r, err := c.RolloutsV1beta1().Rollouts(ns).Promote(t.Context(), "new", promote, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if r.Name != "new" || r.Status.Canary.State != v1beta1.StepUpgrade || len(r.Status.Decisions) != 1 {
			t.Fatalf("promote was answered with %s in state %s and %d decisions", r.Name, r.Status.Canary.State, len(r.Status.Decisions))
		}
	}
	promote.RequestID = "r2"
	if _, err := c.RolloutsV1beta1().Rollouts(ns).Promote(t.Context(), "new", promote, metav1.CreateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("a second promotion was answered %v, want a conflict", err)
	}
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	if _, err := c.RolloutsV1beta1().Rollouts(ns).Abort(t.Context(), "new", &v1beta1.AbortOptions{}, dry); err != nil {
		t.Fatal(err)
	}
	if got := get(t, ns, "new").Status.Decisions; len(got) != 1 {
		t.Errorf("an abort that was only tried left %d decisions", len(got))
	}

	releasing(t, ns, "old")
	r, err := c.RolloutsV1alpha1().Rollouts(ns).Abort(t.Context(), "old", &v1alpha1.AbortOptions{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Status.Decisions) != 1 || r.Status.Decisions[0].Verb != "abort" {
		t.Errorf("after an abort by v1alpha1 the record is %v", r.Status.Decisions)
	}
}

// Each verb of the typed client calls the verb of that name.
func TestTypedVerbNames(t *testing.T) {
	t.Parallel()
	ns, name, c := namespace(t), "web", clientset(t, admin)
	releasing(t, ns, name)
	r, ctx, o := c.RolloutsV1beta1().Rollouts(ns), t.Context(), metav1.CreateOptions{}
	verbs := []struct {
		name string
		send func() (*v1beta1.Rollout, error)
	}{
		{"pause", func() (*v1beta1.Rollout, error) { return r.Pause(ctx, name, &v1beta1.PauseOptions{}, o) }},
		{"resume", func() (*v1beta1.Rollout, error) { return r.Resume(ctx, name, &v1beta1.ResumeOptions{}, o) }},
		{"jump", func() (*v1beta1.Rollout, error) { return r.Jump(ctx, name, &v1beta1.JumpOptions{Step: 2}, o) }},
		{"abort", func() (*v1beta1.Rollout, error) { return r.Abort(ctx, name, &v1beta1.AbortOptions{}, o) }},
		{"retry", func() (*v1beta1.Rollout, error) { return r.Retry(ctx, name, &v1beta1.RetryOptions{}, o) }},
		{"rollback", func() (*v1beta1.Rollout, error) { return r.Rollback(ctx, name, &v1beta1.RollbackOptions{}, o) }},
	}
	for i, verb := range verbs {
		got, err := verb.send()
		if err != nil {
			t.Fatalf("%s: %v", verb.name, err)
		}
		if d := got.Status.Decisions; len(d) != i+1 || string(d[i].Verb) != verb.name {
			t.Fatalf("after %s on record is %+v", verb.name, d)
		}
	}
}

// Informers and listers of the typed client follow the stored objects.
func TestTypedInformer(t *testing.T) {
	t.Parallel()
	ns, c := namespace(t), clientset(t, admin)
	create(t, ns, "early", "early")
	factory := externalversions.NewSharedInformerFactoryWithOptions(c, 0, externalversions.WithNamespace(ns))
	informer := factory.Rollouts().V1beta1().Rollouts()
	seen := make(chan string, 10)
	if _, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { seen <- obj.(*v1beta1.Rollout).Name },
	}); err != nil {
		t.Fatal(err)
	}
	factory.StartWithContext(t.Context())
	factory.WaitForCacheSync(t.Context().Done())
	create(t, ns, "late", "late")
	for _, want := range []string{"early", "late"} {
		if got := <-seen; got != want {
			t.Errorf("the informer saw %s, want %s", got, want)
		}
	}
	listed, err := informer.Lister().Rollouts(ns).List(labels.Everything())
	if err != nil || len(listed) != 2 {
		t.Errorf("the lister has %d rollouts and says %v, want 2", len(listed), err)
	}
}

// The fields that one manager has applied can be extracted, changed and applied again. The fields of other
// managers are not extracted, and stay unchanged.
func TestTypedApply(t *testing.T) {
	t.Parallel()
	ns, c := namespace(t), clientset(t, admin)
	rollouts := c.RolloutsV1beta1().Rollouts(ns)
	step := func(replicas string) *applyv1beta1.StepApplyConfiguration {
		return applyv1beta1.Step().WithReplicas(intstr.FromString(replicas))
	}
	wanted := applyv1beta1.Rollout("web", ns).WithSpec(applyv1beta1.RolloutSpec().
		WithWorkloadRef(applyv1beta1.ObjectRef().WithAPIVersion("apps/v1").WithKind("Deployment").WithName("web")).
		WithStrategy(applyv1beta1.Strategy().WithCanary(applyv1beta1.CanaryStrategy().WithSteps(step("20%"), step("100%")))))
	mine := metav1.ApplyOptions{FieldManager: "mine"}
	if _, err := rollouts.Apply(t.Context(), wanted, mine); err != nil {
		t.Fatal(err)
	}
	theirs := applyv1beta1.Rollout("web", ns).WithLabels(map[string]string{"team": "theirs"})
	stored, err := rollouts.Apply(t.Context(), theirs, metav1.ApplyOptions{FieldManager: "theirs"})
	if err != nil {
		t.Fatal(err)
	}

	extracted, err := applyv1beta1.ExtractRollout(stored, "mine")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wanted, extracted); diff != "" {
		t.Errorf("extracted (-applied +extracted):\n%s", diff)
	}
	extracted.Spec.Strategy.Canary.Steps[0].WithReplicas(intstr.FromString("30%"))
	if stored, err = rollouts.Apply(t.Context(), extracted, mine); err != nil {
		t.Fatal(err)
	}
	if got := stored.Spec.Strategy.Canary.Steps[0].Replicas.String(); got != "30%" || stored.Labels["team"] != "theirs" {
		t.Errorf("after the second apply step 1 has %s and the labels are %v", got, stored.Labels)
	}
}

// A client of controller-runtime uses verbs as it uses evictions.
func TestControllerRuntimeVerb(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(server.As(alice), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	r := releasing(t, ns, "web")
	step := int32(2)
	wrong := &v1beta1.PromoteOptions{DecisionOptions: v1beta1.DecisionOptions{Expect: &v1beta1.Expectation{Step: &step}}}
	if err := c.SubResource("promote").Create(t.Context(), r, wrong); !apierrors.IsConflict(err) {
		t.Errorf("promoting another step was answered %v, want a conflict", err)
	}
	options := &v1beta1.PromoteOptions{DecisionOptions: v1beta1.DecisionOptions{Reason: "fine"}}
	if err := c.SubResource("promote").Create(t.Context(), r, options); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(r), r); err != nil {
		t.Fatal(err)
	}
	if d := r.Status.Decisions; len(d) != 1 || d[0].User != alice || d[0].Reason != "fine" {
		t.Errorf("on record is %+v", d)
	}
}
