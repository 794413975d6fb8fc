// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// adaptToCluster disables features whose API the cluster does not serve. An informer of a kind that is not
// served never syncs, and every write would wait for that informer.
func (o *Options) adaptToCluster() error {
	if o.Recommended.CoreAPI == nil {
		return nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.Recommended.CoreAPI.CoreAPIKubeconfigPath)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig of the cluster: %w", err)
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a discovery client: %w", err)
	}
	needed := []struct {
		version, resource string
		disable           func()
	}{
		{"admissionregistration.k8s.io/v1", "mutatingadmissionpolicies", func() { o.disablePlugin(mutating.PluginName) }},
		{"admissionregistration.k8s.io/v1", "validatingadmissionpolicies", func() { o.disablePlugin(validating.PluginName) }},
		{"flowcontrol.apiserver.k8s.io/v1", "flowschemas", func() { o.Recommended.Features.EnablePriorityAndFairness = false }},
	}
	for _, n := range needed {
		served, err := isServed(client, n.version, n.resource)
		if err != nil {
			return err
		}
		if !served {
			klog.InfoS("Leaving out what the cluster does not serve", "version", n.version, "resource", n.resource)
			n.disable()
		}
	}
	return nil
}

// disablePlugin removes an admission plugin.
func (o *Options) disablePlugin(plugin string) {
	order := &o.Recommended.Admission.RecommendedPluginOrder
	*order = slices.DeleteFunc(slices.Clone(*order), func(name string) bool { return name == plugin })
}

// isServed reports whether the cluster serves a resource.
func isServed(client discovery.DiscoveryInterface, version, resource string) (bool, error) {
	list, err := client.ServerResourcesForGroupVersion(version)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("asking the cluster for %s: %w", version, err)
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource }), nil
}
