// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	predicates "k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/yaml"

	"github.com/weir-rollouts/weir/artifacts"
)

// theft is a write by the service account of weir-controller in kube-system.
type theft struct {
	kind, resource string // resource is group/version/resource, and the subresource if there is one
	old, update    string // empty for none
	allowed        bool
}

// In system namespaces, Weir's service accounts may only return workloads to their owners. That changes
// neither the pod template nor the size.
func TestGuardOfSystemNamespaces(t *testing.T) {
	t.Parallel()
	const (
		held    = `{"metadata":{"annotations":{"a":"b"}},"spec":{"paused":true,"replicas":2,"template":{"spec":{"containers":[{"image":"a"}]}}}}`
		given   = `{"metadata":{},"spec":{"paused":false,"replicas":2,"template":{"spec":{"containers":[{"image":"a"}]}}}}`
		zero    = `{"spec":{"paused":true,"replicas":0,"template":{"spec":{"containers":[{"image":"a"}]}}}}`
		image   = `{"spec":{"paused":true,"replicas":2,"template":{"spec":{"containers":[{"image":"b"}]}}}}`
		perNode = `{"spec":{"updateStrategy":{"type":"OnDelete"},"template":{}}}`
		driven  = `{"spec":{"updateStrategy":{"type":"RollingUpdate"},"template":{}}}`
		before  = `{"metadata":{"labels":{"a":"b"}},"spec":{}}`
		after   = `{"metadata":{"labels":{"a":"c"}},"spec":{}}`
	)
	tests := map[string]theft{
		"give a Deployment back":   {"Deployment", "apps/v1/deployments", held, given, true},
		"give a ReplicaSet back":   {"ReplicaSet", "apps/v1/replicasets", held, given, true},
		"give a StatefulSet back":  {"StatefulSet", "apps/v1/statefulsets", held, given, true},
		"give a DaemonSet back":    {"DaemonSet", "apps/v1/daemonsets", perNode, driven, true},
		"give a CloneSet back":     {"CloneSet", "apps.kruise.io/v1alpha1/clonesets", held, given, true},
		"empty a Deployment":       {"Deployment", "apps/v1/deployments", held, zero, false},
		"empty a ReplicaSet":       {"ReplicaSet", "apps/v1/replicasets", held, zero, false},
		"empty a StatefulSet":      {"StatefulSet", "apps/v1/statefulsets", held, zero, false},
		"empty a CloneSet":         {"CloneSet", "apps.kruise.io/v1alpha1/clonesets", held, zero, false},
		"change an image":          {"Deployment", "apps/v1/deployments", held, image, false},
		"change an image per node": {"DaemonSet", "apps/v1/daemonsets", held, image, false},
		"scale a Deployment":       {"Scale", "apps/v1/deployments/scale", `{"spec":{"replicas":2}}`, `{"spec":{"replicas":0}}`, false},
		"scale to the same":        {"Scale", "apps/v1/statefulsets/scale", `{"spec":{"replicas":2}}`, `{"spec":{"replicas":2}}`, false},
		"create a Deployment":      {"Deployment", "apps/v1/deployments", "", held, false},
		"create a Job":             {"Job", "batch/v1/jobs", "", held, false},
		"create a canary Service":  {"Service", "/v1/services", "", before, false},
		"create a canary Ingress":  {"Ingress", "networking.k8s.io/v1/ingresses", "", before, false},
		"change a Pod":             {"Pod", "/v1/pods", before, after, false},
		"change a Service":         {"Service", "/v1/services", before, after, false},
		"change an Ingress":        {"Ingress", "networking.k8s.io/v1/ingresses", before, after, false},
		"change an autoscaler":     {"HorizontalPodAutoscaler", "autoscaling/v2/horizontalpodautoscalers", before, after, false},
		"change an HTTPRoute":      {"HTTPRoute", "gateway.networking.k8s.io/v1/httproutes", before, after, false},
		"change a VirtualService":  {"VirtualService", "networking.istio.io/v1beta1/virtualservices", before, after, false},
		"change a TraefikService":  {"TraefikService", "traefik.io/v1alpha1/traefikservices", before, after, false},
		"delete a Deployment":      {"Deployment", "apps/v1/deployments", held, "", false},
		"delete a ReplicaSet":      {"ReplicaSet", "apps/v1/replicasets", held, "", false},
		"delete a StatefulSet":     {"StatefulSet", "apps/v1/statefulsets", held, "", false},
		"delete a DaemonSet":       {"DaemonSet", "apps/v1/daemonsets", perNode, "", false},
		"delete a Pod":             {"Pod", "/v1/pods", before, "", false},
		"delete a Service":         {"Service", "/v1/services", before, "", false},
		"delete an Ingress":        {"Ingress", "networking.k8s.io/v1/ingresses", before, "", false},
		"delete an autoscaler":     {"HorizontalPodAutoscaler", "autoscaling/v2/horizontalpodautoscalers", before, "", false},
		"write the index":          {"ConfigMap", "/v1/configmaps", before, after, true},
		"renew a certificate":      {"Secret", "/v1/secrets", before, after, true},
		"renew the lease":          {"Lease", "coordination.k8s.io/v1/leases", before, after, true},
		"report what was restored": {"Event", "events.k8s.io/v1/events", "", before, true},
	}
	guard := guardOfSystem(t)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if why := tt.refused(t, guard); (why == "") != tt.allowed {
				t.Errorf("refused by %q, want allowed %t", why, tt.allowed)
			}
		})
	}
}

func guardOfSystem(t *testing.T) policy {
	t.Helper()
	data, err := artifacts.Files.ReadFile("base/guards.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for document := range bytes.SplitSeq(data, []byte("\n---\n")) {
		v := &admissionregistrationv1.ValidatingAdmissionPolicy{}
		if err := yaml.Unmarshal(document, v); err != nil {
			t.Fatal(err)
		}
		if v.Kind == "ValidatingAdmissionPolicy" && v.Name == "weir-guard-system" {
			return refusing(t, v)
		}
	}
	t.Fatal("there is no weir-guard-system")
	return policy{}
}

// refused returns why the policy refuses the write; empty if it admits the write.
func (s theft) refused(t *testing.T, p policy) string {
	t.Helper()
	part := strings.SplitN(s.resource, "/", 4)
	resource := schema.GroupVersionResource{Group: part[0], Version: part[1], Resource: part[2]}
	kind := resource.GroupVersion().WithKind(s.kind)
	operation := admission.Update
	switch {
	case s.old == "":
		operation = admission.Create
	case s.update == "":
		operation = admission.Delete
	}
	subresource := strings.Join(part[3:], "")
	old, update := decoded(t, kind, s.old), decoded(t, kind, s.update)
	attributes := &admission.VersionedAttributes{
		Attributes: admission.NewAttributesRecord(update, old, kind, "kube-system", "web", resource, subresource,
			operation, nil, false, &user.DefaultInfo{Name: "system:serviceaccount:weir-system:weir-controller"}),
		VersionedKind: kind,
	}
	if old != nil {
		attributes.VersionedOldObject.Set(old)
	}
	if update != nil {
		attributes.VersionedObject.Set(update)
	}
	if !slices.ContainsFunc(p.rules, func(rule admissionregistrationv1.RuleWithOperations) bool {
		m := predicates.Matcher{Rule: rule, Attr: attributes}
		return m.Matches()
	}) {
		return ""
	}
	ctx := p.compiler.CreateContext(t.Context())
	for _, d := range p.validator.Validate(ctx, resource, attributes, nil, nil, celconfig.RuntimeCELCostBudget, nil).Decisions {
		if d.Evaluation == validating.EvalError {
			t.Errorf("evaluating the policy: %s", d.Message)
		}
		if d.Action == validating.ActionDeny {
			return d.Message
		}
	}
	return ""
}

// decoded returns the object of a request; nil for an empty text.
func decoded(t *testing.T, kind schema.GroupVersionKind, text string) runtime.Object {
	t.Helper()
	if text == "" {
		return nil
	}
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	o.SetGroupVersionKind(kind)
	o.SetName("web")
	return o
}
