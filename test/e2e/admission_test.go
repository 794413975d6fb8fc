// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/test/patience"
)

// manifestOf is the manifest of a Rollout for the Deployment of the same name.
func manifestOf(name string) string { return strings.ReplaceAll(other, "other", name) }

// TestQuota checks that a ResourceQuota limits Rollouts, and that a deleted Rollout frees its
// place.
func TestQuota(t *testing.T) {
	t.Parallel()
	a := newNamespace(t)
	const counted = "count/rollouts.rollouts.kruise.io"
	a.create(&corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "few"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{counted: resource.MustParse("2")}},
	})
	hard := func(ctx context.Context, n int) error {
		q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: "few"}}
		patch := fmt.Sprintf(`{"spec":{"hard":{%q:"%d"}}}`, counted, n)
		return testEnv.client.Patch(ctx, q, client.RawPatch(types.MergePatchType, []byte(patch)))
	}
	used := func(want, of int64) func(context.Context) error {
		return func(ctx context.Context) error {
			q := &corev1.ResourceQuota{}
			if err := testEnv.client.Get(ctx, a.key("few"), q); err != nil {
				return err
			}
			got, known := q.Status.Used[counted]
			if most := q.Status.Hard[counted]; !known || got.Value() != want || most.Value() != of {
				return fmt.Errorf("%s of %s are used, want %d of %d", got.String(), most.String(), want, of)
			}
			return nil
		}
	}
	// kube-controller-manager discovers new kinds twice a minute, and then counts them only for
	// quotas that change.
	ctx, cancel := patience.Context(t.Context(), patience.Long)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		if err := errors.Join(hard(ctx, 3), hard(ctx, 2)); err != nil {
			return false, err
		}
		return used(0, 2)(ctx) == nil, nil
	})
	if err != nil {
		t.Fatalf("waiting until the quota is counted: %v", err)
	}
	for _, name := range []string{"one", "two"} {
		testEnv.admin.kubectlWith(a, manifestOf(name), "create", "-f", "-").mustSucceed("created")
	}
	testEnv.admin.kubectlWith(a, manifestOf("three"), "create", "-f", "-").mustFail("forbidden", "exceeded quota: few", counted+"=1")
	a.eventually("the quota counts two Rollouts", used(2, 2))
	testEnv.admin.kubectl(a, "delete", "rollout", "one").mustSucceed("deleted")
	a.eventually("the quota counts one Rollout", used(1, 2))
	testEnv.admin.kubectlWith(a, manifestOf("three"), "create", "-f", "-").mustSucceed("created")
}

// TestPolicy checks that weir-apiserver evaluates a ValidatingAdmissionPolicy for Rollouts with its
// authorizer. The policy is the one in docs/permissions.md.
func TestPolicy(t *testing.T) {
	t.Parallel()
	a := newNamespace(t)
	edit := a.userWithClusterRole("policy-edit", "edit")
	edit.kubectlWith(a, manifestOf("web"), "create", "-f", "-").mustSucceed("created")
	label := []string{"label", "rollout", "web", "--overwrite", "--dry-run=server", "a=b"}
	edit.kubectl(a, label...).mustSucceed("labeled")

	const message = "changing or deleting a Rollout takes the permission of a release manager"
	a.createPolicy(nil, "authorizer.group('rollouts.kruise.io').resource('rollouts').subresource('jump')"+
		".namespace(request.namespace).name(request.name).check('create').allowed()", message)
	a.eventually("the policy is enforced", func(context.Context) error {
		if r := edit.kubectl(a, label...); !r.failed {
			return errors.New("a label was accepted")
		}
		return nil
	})
	edit.kubectl(a, label...).mustFail("denied", message)
	edit.kubectl(a, "delete", "rollout", "web").mustFail("denied")
	a.userWithClusterRole("policy-admin", "admin").kubectl(a, label...).mustSucceed("labeled")
}

// TestPolicyParameters checks that a policy can have parameters of any kind that weir-apiserver may
// read.
func TestPolicyParameters(t *testing.T) {
	t.Parallel()
	a := newNamespace(t)
	testEnv.admin.kubectlWith(a, manifestOf("web"), "create", "-f", "-").mustSucceed("created")
	a.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "limits"}, Data: map[string]string{"frozen": "true"}})
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "e2e-" + a.namespace, Labels: map[string]string{"rollouts.kruise.io/aggregate-to-apiserver": "true"}},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"}}},
	}
	a.createClusterScoped(role)
	a.createPolicy(&admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}, "params.data.frozen != 'true'", "nothing changes today")
	label := func() result {
		return testEnv.admin.kubectl(a, "label", "rollout", "web", "--overwrite", "--dry-run=server", "a=b")
	}
	refused := func(context.Context) error {
		if r := label(); !strings.Contains(r.out, "nothing changes today") {
			return errors.New(r.out)
		}
		return nil
	}
	a.eventually("the policy is enforced with its parameters", refused)
	testEnv.admin.kubectl(a, "patch", "configmap", "limits", `-p={"data":{"frozen":"false"}}`).mustSucceed("patched")
	a.eventually("the new parameters are enforced", func(context.Context) error {
		if r := label(); r.failed {
			return errors.New(r.out)
		}
		return nil
	})
}

// createPolicy creates a policy that updates and deletions of the namespace's Rollouts must
// satisfy. Its parameters are an object named limits.
func (a *app) createPolicy(parameters *admissionv1.ParamKind, expression, message string) {
	a.t.Helper()
	name, fail, deny := "e2e-"+a.namespace, admissionv1.Fail, admissionv1.DenyAction
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail, ParamKind: parameters,
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Update, admissionv1.Delete},
					Rule:       admissionv1.Rule{APIGroups: []string{"rollouts.kruise.io"}, APIVersions: []string{"*"}, Resources: []string{"rollouts"}},
				},
			}}},
			MatchConditions: []admissionv1.MatchCondition{{
				Name: "not-by-weir-controller", Expression: "request.userInfo.username != 'system:serviceaccount:weir-system:weir-controller'",
			}},
			Validations: []admissionv1.Validation{{Expression: expression, Message: message}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			MatchResources: &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{corev1.LabelMetadataName: a.namespace},
			}},
		},
	}
	if parameters != nil {
		binding.Spec.ParamRef = &admissionv1.ParamRef{Name: "limits", Namespace: a.namespace, ParameterNotFoundAction: &deny}
	}
	a.createClusterScoped(policy)
	a.createClusterScoped(binding)
}

// createClusterScoped creates a cluster-scoped object, and deletes it at the end of the test.
func (a *app) createClusterScoped(o client.Object) {
	a.t.Helper()
	if err := testEnv.client.Create(a.t.Context(), o); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() {
		if err := testEnv.client.Delete(context.Background(), o); err != nil {
			a.t.Error(err)
		}
	})
}

// TestWarnings checks that a Rollout which references missing objects gets one warning for each of
// them.
func TestWarnings(t *testing.T) {
	t.Parallel()
	a := newNamespace(t)
	a.plan = defaultPlan()
	routed := `{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"Rollout","metadata":{"name":"web"},"spec":{
		"workloadRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},
		"strategy":{"canary":{"steps":[{"replicas":"20%","traffic":"20%"},{"replicas":"100%"}],
			"trafficRoutings":[{"service":"web","ingress":{"name":"web"}}]}}}}`
	const noDeployment, noService, noIngress = `there is no Deployment "web"`, `there is no Service "web"`, `there is no Ingress "web"`
	testEnv.admin.kubectlWith(a, routed, "apply", "--server-side", "--dry-run=server", "-f", "-").mustSucceed(noDeployment, noService, noIngress)
	a.create(a.newService())
	mustNotContain(t, testEnv.admin.kubectlWith(a, routed, "create", "-f", "-").
		mustSucceed("Warning: spec.workloadRef.name: "+noDeployment, "spec.strategy.canary.trafficRoutings[0].ingress.name: "+noIngress), noService)
	mustNotContain(t, testEnv.admin.kubectl(a, "label", "rollout", "web", "a=b").mustSucceed("labeled"), "Warning")
	a.create(a.newDeployment())
	patch := func(name string) []string {
		return []string{"patch", "rollout", "web", "--type=merge", "--dry-run=server", `-p={"spec":{"workloadRef":{"name":"` + name + `"}}}`}
	}
	mustNotContain(t, testEnv.admin.kubectl(a, patch("other")...).mustSucceed(`there is no Deployment "other"`), noIngress)
	route := `-p={"spec":{"strategy":{"canary":{"trafficRoutings":[{"service":"web","gateway":{"httpRouteName":"web"}}]}}}}`
	testEnv.admin.kubectl(a, "patch", "rollout", "web", "--type=merge", "--dry-run=server", route).mustSucceed(`there is no HTTPRoute "web"`)
	a.create(a.newIngress())
	testEnv.admin.kubectl(a, "delete", "rollout", "web").mustSucceed("deleted")
	mustNotContain(t, testEnv.admin.kubectlWith(a, routed, "create", "-f", "-").mustSucceed("created"), "Warning")
	testEnv.admin.kubectl(a, "get", "rollouts", "--field-selector=spec.workloadRef.name=web,spec.workloadRef.kind=Deployment").mustSucceed("web")
	testEnv.admin.kubectl(a, "get", "rollouts", "--field-selector=status.phase=Progressing").mustSucceed("No resources found")
}

// TestWarningsForOtherWorkloads checks the warnings for workloads of other kinds, and for a
// namespace that the server's cache may not contain yet.
func TestWarningsForOtherWorkloads(t *testing.T) {
	t.Parallel()
	a := newNamespace(t)
	for kind, version := range map[string]string{
		"Deployment": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1", "CloneSet": "apps.kruise.io/v1alpha1",
		"Advanced StatefulSet": "apps.kruise.io/v1beta1", "Advanced DaemonSet": "apps.kruise.io/v1alpha1",
	} {
		kind = strings.TrimPrefix(kind, "Advanced ")
		text := strings.NewReplacer("apps/v1", version, `"Deployment"`, `"`+kind+`"`).Replace(other)
		testEnv.admin.kubectlWith(a, text, "create", "--dry-run=server", "-f", "-").mustSucceed("there is no " + kind + ` "other"`)
	}
	testEnv.admin.kubectlWith(a, other, "create", "-n", "nowhere", "-f", "-").mustFail(`namespaces "nowhere" not found`)
}

// mustNotContain fails the test if the output contains the word.
func mustNotContain(t *testing.T, out, word string) {
	t.Helper()
	if strings.Contains(out, word) {
		t.Fatalf("the output should not contain %q:\n%s", word, out)
	}
}
