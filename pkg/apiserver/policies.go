// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// dropParameters drops the parameters of policies that are about other kinds.
// Their informers would be filled before any policy counts, and this server may
// neither read those objects nor wait for them.
func (o *Options) dropParameters(all informers.SharedInformerFactory) error {
	if all == nil {
		return nil // there is no cluster
	}
	served := o.Recommended.Admission.RecommendedPluginOrder
	kinds := all.Admissionregistration().V1()
	for plugin, informer := range map[string]func() cache.SharedIndexInformer{
		mutating.PluginName:   kinds.MutatingAdmissionPolicies().Informer,
		validating.PluginName: kinds.ValidatingAdmissionPolicies().Informer,
	} {
		if !slices.Contains(served, plugin) {
			continue
		}
		if err := informer().SetTransform(withoutParameters); err != nil {
			return fmt.Errorf("preparing the informer of policies: %w", err)
		}
	}
	return nil
}

// withoutParameters is a transform of informers.
func withoutParameters(obj any) (any, error) {
	switch p := obj.(type) {
	case *admissionregistrationv1.MutatingAdmissionPolicy:
		if !matchesGroup(p.Spec.MatchConstraints) {
			p.Spec.ParamKind = nil
		}
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		if !matchesGroup(p.Spec.MatchConstraints) {
			p.Spec.ParamKind = nil
		}
	}
	return obj, nil
}

// matchesGroup reports whether a policy may match what is served here.
func matchesGroup(m *admissionregistrationv1.MatchResources) bool {
	return m != nil && slices.ContainsFunc(m.ResourceRules, func(r admissionregistrationv1.NamedRuleWithOperations) bool {
		return slices.ContainsFunc(r.APIGroups, func(group string) bool { return group == "*" || slices.Contains(groups, group) })
	})
}
