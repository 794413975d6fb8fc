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

// enforceQuotas refuses objects over a count such as
// count/rollouts.rollouts.kruise.io. kube-controller-manager counts them, but a
// quota is enforced where the objects are created, which is here.
func (o *Options) enforceQuotas() {
	a := o.Recommended.Admission
	resourcequota.Register(a.Plugins)
	// Last, since what the others refuse must not be counted.
	a.RecommendedPluginOrder = append(a.RecommendedPluginOrder, resourcequota.PluginName)
	o.Recommended.ExtraAdmissionInitializers = func(c *genericapiserver.RecommendedConfig) ([]admission.PluginInitializer, error) {
		if err := o.dropParameters(c.SharedInformerFactory); err != nil {
			return nil, err
		}
		return []admission.PluginInitializer{countObjects{generic.NewConfiguration(nil, nil)}}, nil
	}
}

// countObjects lets quotas count objects of any kind, and measure nothing else.
type countObjects struct{ quota.Configuration }

func (c countObjects) Initialize(plugin admission.Interface) {
	if wants, ok := plugin.(initializer.WantsQuotaConfiguration); ok {
		wants.SetQuotaConfiguration(c.Configuration)
	}
}
