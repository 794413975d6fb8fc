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

// dropPolicyParameters removes the parameter kinds of admission policies for other API groups. The plugins would
// start informers of these kinds, although this server may not read their objects, and every write would
// wait for the informers.
func (o *Options) dropPolicyParameters(all informers.SharedInformerFactory) error {
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
		if err := informer().SetTransform(dropParamKind); err != nil {
			return fmt.Errorf("preparing the informer of policies: %w", err)
		}
	}
	return nil
}

// dropParamKind is an informer transform that removes the parameter kind of policies for other API
// groups.
func dropParamKind(obj any) (any, error) {
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

// matchesGroup reports whether a policy may match objects that this server serves.
func matchesGroup(m *admissionregistrationv1.MatchResources) bool {
	return m != nil && slices.ContainsFunc(m.ResourceRules, func(r admissionregistrationv1.NamedRuleWithOperations) bool {
		return slices.ContainsFunc(r.APIGroups, func(group string) bool { return group == "*" || slices.Contains(groups, group) })
	})
}
