// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// The server does not read the parameters of policies about other kinds.
func TestParametersOfOthers(t *testing.T) {
	t.Parallel()
	for group, want := range map[string]bool{"apps": false, "": false, "*": true, "rollouts.kruise.io": true} {
		match := &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
			RuleWithOperations: admissionregistrationv1.RuleWithOperations{Rule: admissionregistrationv1.Rule{APIGroups: []string{group}}},
		}}}
		kind := &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
		m := &admissionregistrationv1.MutatingAdmissionPolicy{Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{ParamKind: kind, MatchConstraints: match}}
		v := &admissionregistrationv1.ValidatingAdmissionPolicy{Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{ParamKind: kind, MatchConstraints: match}}
		for _, p := range []any{m, v} {
			if _, err := dropParamKind(p); err != nil {
				t.Fatal(err)
			}
		}
		if got := m.Spec.ParamKind != nil; got != want {
			t.Errorf("mutating, group %q: kept %t, want %t", group, got, want)
		}
		if got := v.Spec.ParamKind != nil; got != want {
			t.Errorf("validating, group %q: kept %t, want %t", group, got, want)
		}
	}
}
