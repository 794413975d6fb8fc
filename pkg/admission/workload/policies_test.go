// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"cmp"
	"slices"
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
	predicates "k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
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

// sent is a request to kube-apiserver about a workload; old is nil for a create.
type sent struct {
	as, subresource string
	old, update     object.Object
}

func (s sent) operation() admission.Operation {
	if s.old == nil {
		return admission.Create
	}
	return admission.Update
}

// attributes returns the admission attributes of the request.
func (s sent) attributes() *admission.VersionedAttributes {
	kind := kindOf(s.update)
	var old runtime.Object
	if s.old != nil {
		old = s.old
	}
	a := &admission.VersionedAttributes{
		Attributes: admission.NewAttributesRecord(s.update, old, kind, "ns", s.update.GetName(), resourceOf(s.update), s.subresource,
			s.operation(), nil, false, &user.DefaultInfo{Name: s.as}),
		VersionedKind: kind,
	}
	if s.old != nil {
		a.VersionedOldObject.Set(s.old)
	}
	a.VersionedObject.Set(s.update)
	return a
}

// selected reports whether an object selector and rules of an admission configuration match.
func (s sent) selected(selector labels.Selector, rules []admissionregistrationv1.RuleWithOperations) bool {
	if !selector.Matches(labels.Set(s.update.GetLabels())) && (s.old == nil || !selector.Matches(labels.Set(s.old.GetLabels()))) {
		return false
	}
	return slices.ContainsFunc(rules, func(rule admissionregistrationv1.RuleWithOperations) bool {
		m := predicates.Matcher{Rule: rule, Attr: s.attributes()}
		return m.Matches()
	})
}

// policy is a shipped policy, compiled by the code of kube-apiserver.
type policy struct {
	name   string
	params bool
	// again reports whether the policy is reinvoked after a webhook has changed the object.
	again    bool
	selector labels.Selector
	rules    []admissionregistrationv1.RuleWithOperations
	compiler *cel.CompositedCompiler
	matcher  matchconditions.Matcher
	// A policy has one of these two.
	patcher   mutation.Patcher
	validator validating.Validator
}

func policies(t *testing.T) []policy {
	t.Helper()
	var data []byte
	for _, name := range []string{"policies", "statefulsets", "daemonsets", "records", "fit"} {
		file, err := artifacts.Files.ReadFile("policies/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		data = append(append(data, "\n---\n"...), file...)
	}
	var all []policy
	for document := range bytes.SplitSeq(data, []byte("\n---\n")) {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(document, &kind); err != nil {
			t.Fatal(err)
		}
		switch kind.Kind {
		case "MutatingAdmissionPolicy":
			p := &admissionregistrationv1.MutatingAdmissionPolicy{}
			if err := yaml.UnmarshalStrict(document, p); err != nil {
				t.Fatal(err)
			}
			all = append(all, mutating(t, p))
		case "ValidatingAdmissionPolicy":
			p := &admissionregistrationv1.ValidatingAdmissionPolicy{}
			if err := yaml.UnmarshalStrict(document, p); err != nil {
				t.Fatal(err)
			}
			all = append(all, refusing(t, p))
		}
	}
	if len(all) != 9 {
		t.Fatalf("%d policies, want 9", len(all))
	}
	return all
}

func compiled(t *testing.T, name string, params bool, m *admissionregistrationv1.MatchResources, variables []admissionregistrationv1.Variable,
	conditions []admissionregistrationv1.MatchCondition, fail *admissionregistrationv1.FailurePolicyType,
) policy {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(cmp.Or(m.ObjectSelector, &metav1.LabelSelector{}))
	if err != nil {
		t.Fatal(err)
	}
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	p := policy{name: name, params: params, selector: selector, compiler: compiler}
	for _, r := range m.ResourceRules {
		p.rules = append(p.rules, r.RuleWithOperations)
	}
	var named []cel.NamedExpressionAccessor
	for _, v := range variables {
		named = append(named, &validating.Variable{Name: v.Name, Expression: v.Expression})
	}
	compiler.CompileAndStoreVariables(named, p.declared(), environment.StoredExpressions)
	var expressions []cel.ExpressionAccessor
	for i := range conditions {
		expressions = append(expressions, (*matchconditions.MatchCondition)(&conditions[i]))
	}
	p.matcher = matchconditions.NewMatcher(compiler.CompileCondition(expressions, p.declared(), environment.StoredExpressions), fail, "policy", "validate", name)
	return p
}

func (p policy) declared() cel.OptionalVariableDeclarations {
	return cel.OptionalVariableDeclarations{HasParams: p.params, HasAuthorizer: true}
}

func mutating(t *testing.T, m *admissionregistrationv1.MutatingAdmissionPolicy) policy {
	t.Helper()
	p := compiled(t, m.Name, m.Spec.ParamKind != nil, m.Spec.MatchConstraints, m.Spec.Variables, m.Spec.MatchConditions, m.Spec.FailurePolicy)
	p.again = m.Spec.ReinvocationPolicy == admissionregistrationv1.IfNeededReinvocationPolicy
	declared := p.declared()
	declared.HasPatchTypes = true
	p.patcher = mutation.NewJSONPatcher(p.compiler.CompileMutatingEvaluator(
		&mutation.JSONPatchCondition{Expression: m.Spec.Mutations[0].JSONPatch.Expression}, declared, environment.StoredExpressions))
	return p
}

func refusing(t *testing.T, v *admissionregistrationv1.ValidatingAdmissionPolicy) policy {
	t.Helper()
	p := compiled(t, v.Name, v.Spec.ParamKind != nil, v.Spec.MatchConstraints, v.Spec.Variables, v.Spec.MatchConditions, v.Spec.FailurePolicy)
	var rules, messages []cel.ExpressionAccessor
	for _, r := range v.Spec.Validations {
		rules = append(rules, &validating.ValidationCondition{Expression: r.Expression, Message: r.Message, Reason: r.Reason})
		messages = append(messages, &validating.MessageExpressionCondition{MessageExpression: r.MessageExpression})
	}
	compile := func(all []cel.ExpressionAccessor) cel.ConditionEvaluator {
		return p.compiler.CompileCondition(all, p.declared(), environment.StoredExpressions)
	}
	p.validator = validating.NewValidator(compile(rules), p.matcher, compile(nil), compile(messages), v.Spec.FailurePolicy, nil)
	return p
}

// bound returns the index if the policy has parameters.
func (p policy) bound(index *corev1.ConfigMap) runtime.Object {
	if !p.params {
		return nil
	}
	return index
}

// matches evaluates the match conditions of the policy.
func (p policy) matches(t *testing.T, conditions matchconditions.Matcher, index *corev1.ConfigMap, s sent) bool {
	t.Helper()
	match := conditions.Match(p.compiler.CreateContext(t.Context()), s.attributes(), p.bound(index), nil)
	if match.Error != nil {
		t.Fatalf("%s: evaluating %s: %v", p.name, match.FailedConditionName, match.Error)
	}
	return match.Matches
}

// admit returns the object after the policy, and the message of a refusal.
func (p policy) admit(t *testing.T, index *corev1.ConfigMap, s sent) (object.Object, string) {
	t.Helper()
	if !s.selected(p.selector, p.rules) {
		return s.update, ""
	}
	if !p.matches(t, p.matcher, index, s) {
		return s.update, ""
	}
	attributes, resource := s.attributes(), resourceOf(s.update)
	bound := cel.OptionalVariableBindings{}
	params := p.bound(index)
	if params != nil {
		bound.VersionedParams = params
	}
	ctx := p.compiler.CreateContext(t.Context())
	if p.validator != nil {
		for _, d := range p.validator.Validate(ctx, resource, attributes, params, &corev1.Namespace{}, celconfig.RuntimeCELCostBudget, nil).Decisions {
			if d.Action == validating.ActionDeny {
				return s.update, d.Message
			}
		}
		return s.update, ""
	}
	got, err := p.patcher.Patch(ctx, mutation.Request{
		MatchedResource: resource, VersionedAttributes: attributes, OptionalVariables: bound, Namespace: &corev1.Namespace{},
		ObjectInterfaces: admission.NewObjectInterfacesFromScheme(scheme.Scheme),
	}, celconfig.RuntimeCELCostBudget)
	if err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	return got.(object.Object), ""
}

// indexOf returns the index that weir-controller writes for these Rollouts.
func indexOf(all named) *corev1.ConfigMap {
	index := &corev1.ConfigMap{Data: map[string]string{}}
	for _, r := range all {
		if planner.HoldsOnTemplateChange(r) {
			kind := schema.GroupKind{Group: "apps", Kind: r.Spec.WorkloadRef.Kind}
			index.Data[workload.IndexKey(kind, r.Spec.WorkloadRef.Name)] = r.Name
		}
	}
	return index
}

// admissionPath is one of the ways in which a request is admitted. It returns the stored object, and the message of
// a refusal.
type admissionPath func(t *testing.T, all named, s sent) (object.Object, string)

func admissionPaths(t *testing.T) map[string]admissionPath {
	t.Helper()
	all, asked := policies(t), asker(t)
	webhook := func(t *testing.T, all named, s sent) (object.Object, string) {
		t.Helper()
		if !asked(s) {
			return s.update, ""
		}
		return answered(t, &Handler{Rollouts: all, Controller: weir}, s)
	}
	inside := func(t *testing.T, rollouts named, s sent, which func(policy) bool) (object.Object, string) {
		t.Helper()
		var refused string
		for _, p := range all {
			if refused == "" && which(p) {
				s.update, refused = p.admit(t, indexOf(rollouts), s)
			}
		}
		return s.update, refused
	}
	mutators := func(p policy) bool { return p.validator == nil }
	validators := func(p policy) bool { return p.validator != nil }
	again := func(p policy) bool { return p.again }
	return map[string]admissionPath{
		"webhook": takenUp(webhook),
		"policies": takenUp(func(t *testing.T, all named, s sent) (object.Object, string) {
			t.Helper()
			s.update, _ = inside(t, all, s, mutators)
			return inside(t, all, s, validators)
		}),
		"both": takenUp(func(t *testing.T, all named, s sent) (object.Object, string) {
			t.Helper()
			s.update, _ = inside(t, all, s, mutators)
			var refused string
			if s.update, refused = webhook(t, all, s); refused != "" {
				return s.update, refused
			}
			s.update, _ = inside(t, all, s, again)
			return inside(t, all, s, validators)
		}),
	}
}

// takenUp returns a path that includes the changes by which weir-controller processes the notes of the
// policies.
func takenUp(d admissionPath) admissionPath {
	return func(t *testing.T, all named, s sent) (object.Object, string) {
		t.Helper()
		got, refused := d(t, all, s)
		if row, _ := findRow(kindOf(s.update), all); row.Held(got) {
			for _, c := range row.ApplyPendingEdit(got, workload.HoldFromRecords(got)) {
				return c.Want, refused
			}
		}
		return got, refused
	}
}

// stored returns the object that is stored after an update. After a refusal that is the old object.
func (d admissionPath) stored(t *testing.T, all named, as string, old, update object.Object) object.Object {
	t.Helper()
	got, refused := d(t, all, sent{as: as, old: old, update: update})
	if refused != "" {
		return old
	}
	return got
}
