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

// service is the one whose callers have to know the authorities.
type service struct{ namespace, name string }

// target is an object that says whom kube-apiserver trusts when it calls us.
type target struct {
	resource schema.GroupVersionResource
	name     string
	patch    types.PatchType
	// wants is the part of the object that has to change, or nil. What points
	// elsewhere, or belongs to somebody else, is left alone.
	wants func(object map[string]any, to service, bundle []byte) map[string]any
}

var targets = []target{
	{apiServices, "v1beta1.rollouts.kruise.io", types.MergePatchType, apiServiceWants},
	{apiServices, "v1alpha1.rollouts.kruise.io", types.MergePatchType, apiServiceWants},
	{apiServices, "v1alpha1.weir-rollouts.io", types.MergePatchType, apiServiceWants},
	// The strategic kind knows the webhooks of the list by their names.
	{webhookConfigurations, "weir-workloads", types.StrategicMergePatchType, webhooksWant},
}

var (
	apiServices           = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	webhookConfigurations = schema.GroupVersionResource{
		Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations",
	}
)

// autoManaged is on APIServices that kube-apiserver keeps for a CRD.
const autoManaged = "kube-aggregator.kubernetes.io/automanaged"

func apiServiceWants(object map[string]any, to service, bundle []byte) map[string]any {
	u := unstructured.Unstructured{Object: object}
	if _, auto := u.GetLabels()[autoManaged]; auto {
		return nil
	}
	spec, _, _ := unstructured.NestedMap(object, "spec") // without one it is not ours
	if !to.is(spec) || trusts(spec, bundle) {
		return nil
	}
	return map[string]any{"spec": map[string]any{"caBundle": base64.StdEncoding.EncodeToString(bundle)}}
}

func webhooksWant(object map[string]any, to service, bundle []byte) map[string]any {
	webhooks, _, _ := unstructured.NestedSlice(object, "webhooks") // without any none is ours
	var change []any
	for _, entry := range webhooks {
		webhook, _ := entry.(map[string]any)
		config, _, _ := unstructured.NestedMap(webhook, "clientConfig")
		if to.is(config) && !trusts(config, bundle) {
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

func (s service) is(config map[string]any) bool {
	namespace, _, _ := unstructured.NestedString(config, "service", "namespace")
	name, _, _ := unstructured.NestedString(config, "service", "name")
	return namespace == s.namespace && name == s.name
}

func trusts(config map[string]any, bundle []byte) bool {
	text, _, _ := unstructured.NestedString(config, "caBundle")
	have, err := base64.StdEncoding.DecodeString(text)
	return err == nil && bytes.Equal(have, bundle)
}
