// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// enforceQuotas enables object count quotas, such as count/rollouts.rollouts.kruise.io.
// kube-controller-manager only counts these objects; the server that creates them must enforce the quota.
func (o *Options) enforceQuotas() {
	a := o.Recommended.Admission
	resourcequota.Register(a.Plugins)
	// The plugin must be the last one, so that it does not count objects that other plugins refuse.
	a.RecommendedPluginOrder = append(a.RecommendedPluginOrder, resourcequota.PluginName)
	o.Recommended.ExtraAdmissionInitializers = func(c *genericapiserver.RecommendedConfig) ([]admission.PluginInitializer, error) {
		if err := o.dropPolicyParameters(c.SharedInformerFactory); err != nil {
			return nil, err
		}
		return []admission.PluginInitializer{countObjects{generic.NewConfiguration(nil, nil)}}, nil
	}
}

// countObjects configures the quota plugin to count objects of every kind and to measure nothing else.
type countObjects struct{ quota.Configuration }

func (c countObjects) Initialize(plugin admission.Interface) {
	if wants, ok := plugin.(initializer.WantsQuotaConfiguration); ok {
		wants.SetQuotaConfiguration(c.Configuration)
	}
}
