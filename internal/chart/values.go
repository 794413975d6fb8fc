// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// condition returns the chart value that must be true for an object to be rendered; empty if the
// object is always rendered. The policies that limit Weir's own accounts are always rendered.
func condition(o *unstructured.Unstructured) string {
	switch o.GetKind() {
	case "Namespace":
		return ".Values.installation.createNamespace"
	case "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
		if !strings.HasPrefix(o.GetName(), "weir-guard-") {
			return ".Values.policies"
		}
	}
	return ""
}

// open puts marks where the chart has values, by kind.
func open(o *unstructured.Unstructured) error {
	switch o.GetKind() {
	case "Deployment", "StatefulSet":
		return openPods(o)
	case "ServiceAccount":
		return unstructured.SetNestedField(o.Object, mark("block .Values.serviceAccount.annotations"), "metadata", "annotations")
	case "APIService":
		return unstructured.SetNestedField(o.Object, mark(".Values.service.port"), "spec", "service", "port")
	case "Service":
		return each(o.Object, func(port map[string]any) error {
			if port["name"] == "api" {
				port["port"] = mark(".Values.service.port")
			}
			return nil
		}, "spec", "ports")
	case "MutatingWebhookConfiguration":
		return each(o.Object, func(webhook map[string]any) error {
			if webhook["failurePolicy"] == "Ignore" && webhook["name"] == "workloads.weir.rollouts.kruise.io" { // since policies hold the same
				webhook["failurePolicy"] = mark(`ternary "Ignore" "Fail" .Values.policies`)
			}
			if webhook["objectSelector"] == nil {
				return nil // it looks at what is made with records, whatever else stands there
			}
			return add(webhook, mark("extra .Values.rollout.webhook.objectSelector"), "objectSelector", "matchExpressions")
		}, "webhooks")
	}
	return nil
}

// replicas are a value but where the storage says how many there may be.
var replicas = map[string]bool{"weir-apiserver": true, "weir-controller": true}

func openPods(o *unstructured.Unstructured) error {
	count, _, err := unstructured.NestedInt64(o.Object, "spec", "replicas")
	if err != nil {
		return err
	}
	if replicas[o.GetName()] && (count > 1 || o.GetName() == "weir-controller") {
		if err := unstructured.SetNestedField(o.Object, mark(".Values.replicaCount"), "spec", "replicas"); err != nil {
			return err
		}
	}
	for _, field := range []string{"imagePullSecrets", "nodeSelector", "tolerations"} {
		if err := unstructured.SetNestedField(o.Object, mark("block .Values."+field), "spec", "template", "spec", field); err != nil {
			return err
		}
	}
	return each(o.Object, openContainer, "spec", "template", "spec", "containers")
}

// placeholder is what artifacts/external-etcd has for an etcd of its user.
const placeholder = "--etcd-servers=https://etcd.example:2379"

func openContainer(c map[string]any) error {
	c["image"] = mark(".Values.image.repository") + ":" + mark(".Values.image.tag | default .Chart.AppVersion")
	c["imagePullPolicy"] = mark(".Values.image.pullPolicy")
	if c["name"] == "etcd" {
		return nil
	}
	resources, err := json.Marshal(c["resources"])
	if err != nil {
		return err
	}
	c["resources"] = mark(".Values.resources | default (fromJson `" + string(resources) + "`) | toJson")
	args, _, err := unstructured.NestedStringSlice(c, "args")
	if err != nil {
		return err
	}
	for i, arg := range args {
		if arg == placeholder {
			args[i] = "--etcd-servers=" + mark(`required "etcd.servers must name your etcd" .Values.etcd.servers`)
		}
	}
	return unstructured.SetNestedStringSlice(c, append(args, "--v="+mark(".Values.rollout.log.level")), "args")
}

// each calls do for each object in a list.
func each(in map[string]any, do func(map[string]any) error, path ...string) error {
	list, found, err := unstructured.NestedSlice(in, path...)
	if err != nil || !found {
		return err
	}
	for _, entry := range list {
		object, ok := entry.(map[string]any)
		if !ok {
			return fmt.Errorf("%s has an entry that is not an object", strings.Join(path, "."))
		}
		if err := do(object); err != nil {
			return err
		}
	}
	return unstructured.SetNestedSlice(in, list, path...)
}

// add appends to a list of a nested object.
func add(in map[string]any, entry any, path ...string) error {
	list, _, err := unstructured.NestedSlice(in, path...)
	if err != nil {
		return err
	}
	return unstructured.SetNestedSlice(in, append(list, entry), path...)
}
