// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	mutation "k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/weir-rollouts/weir/artifacts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// policy is one of the shipped ones, compiled as kube-apiserver does it.
type policy struct {
	name     string
	resource string
	params   bool
	selector labels.Selector
	compiler *cel.CompositedCompiler
	matcher  matchconditions.Matcher
	patcher  mutation.Patcher
}

func policies(t *testing.T) []policy {
	t.Helper()
	var data []byte
	for _, name := range []string{"policies", "statefulsets", "daemonsets"} {
		file, err := artifacts.Files.ReadFile("policies/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		data = append(append(data, "\n---\n"...), file...)
	}
	var all []policy
	for document := range bytes.SplitSeq(data, []byte("\n---\n")) {
		var p admissionregistrationv1.MutatingAdmissionPolicy
		if !bytes.Contains(document, []byte("kind: MutatingAdmissionPolicy\n")) {
			continue
		}
		if err := yaml.UnmarshalStrict(document, &p); err != nil {
			t.Fatal(err)
		}
		all = append(all, compiled(t, &p))
	}
	if len(all) != 6 {
		t.Fatalf("%d policies, want 6", len(all))
	}
	return all
}

func compiled(t *testing.T, p *admissionregistrationv1.MutatingAdmissionPolicy) policy {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(p.Spec.MatchConstraints.ObjectSelector)
	if err != nil {
		t.Fatal(err)
	}
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	declared := cel.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil, HasAuthorizer: true}
	var variables []cel.NamedExpressionAccessor
	for _, v := range p.Spec.Variables {
		variables = append(variables, &validating.Variable{Name: v.Name, Expression: v.Expression})
	}
	compiler.CompileAndStoreVariables(variables, declared, environment.StoredExpressions)
	var conditions []cel.ExpressionAccessor
	for i := range p.Spec.MatchConditions {
		conditions = append(conditions, (*matchconditions.MatchCondition)(&p.Spec.MatchConditions[i]))
	}
	matcher := matchconditions.NewMatcher(compiler.CompileCondition(conditions, declared, environment.StoredExpressions),
		p.Spec.FailurePolicy, "policy", "validate", p.Name)
	declared.HasPatchTypes = true
	evaluator := compiler.CompileMutatingEvaluator(&mutation.JSONPatchCondition{Expression: p.Spec.Mutations[0].JSONPatch.Expression}, declared, environment.StoredExpressions)
	return policy{p.Name, p.Spec.MatchConstraints.ResourceRules[0].Resources[0], p.Spec.ParamKind != nil, selector, compiler, matcher, mutation.NewJSONPatcher(evaluator)}
}

// admit is what the policy makes of an update.
func (p policy) admit(t *testing.T, index *corev1.ConfigMap, as string, old, update object.Object) object.Object {
	t.Helper()
	kind, resource := kindOf(old), resourceOf(old)
	if resource.Resource != p.resource || !p.selector.Matches(labels.Set(old.GetLabels())) && !p.selector.Matches(labels.Set(update.GetLabels())) {
		return update
	}
	attributes := &admission.VersionedAttributes{
		Attributes:    admission.NewAttributesRecord(update, old, kind, "ns", old.GetName(), resource, "", admission.Update, nil, false, &user.DefaultInfo{Name: as}),
		VersionedKind: kind,
	}
	attributes.VersionedOldObject.Set(old)
	attributes.VersionedObject.Set(update)
	bound := cel.OptionalVariableBindings{}
	var params runtime.Object
	if p.params {
		params, bound.VersionedParams = index, index
	}
	ctx := p.compiler.CreateContext(t.Context())
	match := p.matcher.Match(ctx, attributes, params, nil)
	if match.Error != nil {
		t.Fatalf("%s: evaluating %s: %v", p.name, match.FailedConditionName, match.Error)
	}
	if !match.Matches {
		return update
	}
	got, err := p.patcher.Patch(ctx, mutation.Request{
		MatchedResource: resource, VersionedAttributes: attributes, OptionalVariables: bound, Namespace: &corev1.Namespace{},
		ObjectInterfaces: admission.NewObjectInterfacesFromScheme(scheme.Scheme),
	}, celconfig.RuntimeCELCostBudget)
	if err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	return got.(object.Object)
}

// indexOf is what weir-controller writes for these Rollouts.
func indexOf(all named) *corev1.ConfigMap {
	index := &corev1.ConfigMap{Data: map[string]string{}}
	for _, r := range all {
		if planner.Holds(r) {
			kind := schema.GroupKind{Group: "apps", Kind: r.Spec.WorkloadRef.Kind}
			index.Data[workload.IndexKey(kind, r.Spec.WorkloadRef.Name)] = r.Name
		}
	}
	return index
}

// doors are the ways in which an update is admitted.
func doors(t *testing.T) map[string]func(t *testing.T, all named, as string, old, update object.Object) object.Object {
	t.Helper()
	compiled, asked := policies(t), asker(t)
	webhook := func(t *testing.T, all named, as string, old, update object.Object) object.Object {
		t.Helper()
		return admitted(t, &Handler{Rollouts: all, Controller: weir}, as, old, update)
	}
	inside := func(t *testing.T, all named, as string, old, update object.Object) object.Object {
		t.Helper()
		for _, p := range compiled {
			update = p.admit(t, indexOf(all), as, old, update)
		}
		return update
	}
	return map[string]func(t *testing.T, all named, as string, old, update object.Object) object.Object{
		"webhook": webhook,
		// What the policies have noted is taken up when Weir is back.
		"policies": func(t *testing.T, all named, as string, old, update object.Object) object.Object {
			t.Helper()
			got := inside(t, all, as, old, update)
			row, _ := rowOf(kindOf(old), all)
			for _, c := range row.TakeUp(got) {
				return c.Want
			}
			return got
		},
		"both": func(t *testing.T, all named, as string, old, update object.Object) object.Object {
			t.Helper()
			if update = inside(t, all, as, old, update); !asked(as, old, update) {
				return update
			}
			return webhook(t, all, as, old, update)
		},
	}
}
