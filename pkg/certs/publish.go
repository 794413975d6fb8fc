// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"encoding/base64"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// service is the Service whose clients need the bundle.
type service struct{ namespace, name string }

// target is an object with the caBundle that kube-apiserver uses when it calls Weir.
type target struct {
	resource schema.GroupVersionResource
	name     string
	patch    types.PatchType
	// patchFor returns the patch that sets the bundle, or nil. It ignores objects that refer to another
	// Service or are managed by another controller.
	patchFor func(object map[string]any, to service, bundle []byte) map[string]any
}

var targets = []target{
	{apiServices, "v1beta1.rollouts.kruise.io", types.MergePatchType, apiServicePatch},
	{apiServices, "v1alpha1.rollouts.kruise.io", types.MergePatchType, apiServicePatch},
	{apiServices, "v1alpha1.weir-rollouts.io", types.MergePatchType, apiServicePatch},
	// A strategic merge patch identifies the webhooks in the list by their names.
	{webhookConfigurations, "weir-workloads", types.StrategicMergePatchType, webhooksPatch},
}

var (
	apiServices           = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	webhookConfigurations = schema.GroupVersionResource{
		Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations",
	}
)

// autoManaged is a label of the APIServices that kube-apiserver manages for a CRD.
const autoManaged = "kube-aggregator.kubernetes.io/automanaged"

func apiServicePatch(object map[string]any, to service, bundle []byte) map[string]any {
	u := unstructured.Unstructured{Object: object}
	if _, auto := u.GetLabels()[autoManaged]; auto {
		return nil
	}
	spec, _, _ := unstructured.NestedMap(object, "spec") // an object without a spec does not refer to our Service
	if !to.isReferencedBy(spec) || hasBundle(spec, bundle) {
		return nil
	}
	return map[string]any{"spec": map[string]any{"caBundle": base64.StdEncoding.EncodeToString(bundle)}}
}

func webhooksPatch(object map[string]any, to service, bundle []byte) map[string]any {
	webhooks, _, _ := unstructured.NestedSlice(object, "webhooks") // an error means that no webhook refers to our Service
	var change []any
	for _, entry := range webhooks {
		webhook, _ := entry.(map[string]any)
		config, _, _ := unstructured.NestedMap(webhook, "clientConfig")
		if to.isReferencedBy(config) && !hasBundle(config, bundle) {
			change = append(change, map[string]any{
				"name":         webhook["name"],
				"clientConfig": map[string]any{"caBundle": base64.StdEncoding.EncodeToString(bundle)},
			})
		}
	}
	if change == nil {
		return nil
	}
	return map[string]any{"webhooks": change}
}

func (s service) isReferencedBy(config map[string]any) bool {
	namespace, _, _ := unstructured.NestedString(config, "service", "namespace")
	name, _, _ := unstructured.NestedString(config, "service", "name")
	return namespace == s.namespace && name == s.name
}

func hasBundle(config map[string]any, bundle []byte) bool {
	text, _, _ := unstructured.NestedString(config, "caBundle")
	have, err := base64.StdEncoding.DecodeString(text)
	return err == nil && bytes.Equal(have, bundle)
}
