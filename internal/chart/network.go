// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// insertNetworkValues puts marks where the chart has the values ports and hostNetwork. Without these values the
// object is that of the manifests; with them, it is that of artifacts/two-ports, artifacts/host-network and
// artifacts/host-network-replicas.
func insertNetworkValues(o *unstructured.Unstructured) error {
	switch {
	case o.GetKind() == "Namespace" && o.GetName() == namespace:
		if err := unstructured.SetNestedField(o.Object, mark(`ternary "privileged" "restricted" .Values.hostNetwork`), "metadata", "labels", "pod-security.kubernetes.io/enforce"); err != nil {
			return err
		}
		return unstructured.SetNestedField(o.Object, mark(`entries include "weir.podSecurity" . | fromYaml`), "metadata", "labels", "entries")
	case o.GetKind() == "Service" && o.GetName() == "weir-apiserver":
		return add(o.Object, mark(`extra include "weir.webhookPort" . | fromYamlArray`), "spec", "ports")
	case o.GetKind() == "NetworkPolicy" && o.GetName() == "weir-apiserver":
		return each(o.Object, func(rule map[string]any) error {
			return add(rule, mark(`extra include "weir.webhookRule" . | fromYamlArray`), "ports")
		}, "spec", "ingress")
	case o.GetKind() == "NetworkPolicy" && o.GetName() == "weir-etcd":
		return openEtcdToNodes(o)
	case o.GetKind() == "MutatingWebhookConfiguration":
		return each(o.Object, func(webhook map[string]any) error {
			return unstructured.SetNestedField(webhook, mark(`ternary 9443 .Values.service.port (gt (int .Values.ports.webhook) 0)`), "clientConfig", "service", "port")
		}, "webhooks")
	case o.GetKind() == "Deployment" && o.GetName() == "weir-apiserver":
		return insertServerNetworkValues(o)
	}
	return nil
}

// openEtcdToNodes removes the source of the first rule with hostNetwork: a NetworkPolicy does not recognise a pod on
// the network of its node by its labels. etcd requires a client certificate.
func openEtcdToNodes(o *unstructured.Unstructured) error {
	rules, _, err := unstructured.NestedSlice(o.Object, "spec", "ingress")
	if err != nil {
		return err
	}
	rule := rules[0].(map[string]any)
	from, err := json.Marshal(rule["from"])
	if err != nil {
		return err
	}
	// An empty list allows every source.
	rule["from"] = mark("ternary (list) (fromJsonArray `" + string(from) + "`) .Values.hostNetwork | toJson")
	return unstructured.SetNestedSlice(o.Object, rules, "spec", "ingress")
}

func insertServerNetworkValues(o *unstructured.Unstructured) error {
	// With a volume, the strategy is Recreate.
	if _, isRolling, _ := unstructured.NestedMap(o.Object, "spec", "strategy", "rollingUpdate"); isRolling {
		for field, value := range map[string]string{"maxSurge": "ternary 0 1 .Values.hostNetwork", "maxUnavailable": "ternary 1 0 .Values.hostNetwork"} {
			if err := unstructured.SetNestedField(o.Object, mark(value), "spec", "strategy", "rollingUpdate", field); err != nil {
				return err
			}
		}
	}
	if err := unstructured.SetNestedField(o.Object, mark(`entries include "weir.hostNetwork" . | fromYaml`), "spec", "template", "spec", "entries"); err != nil {
		return err
	}
	return each(o.Object, func(c map[string]any) error {
		if err := each(c, func(port map[string]any) error {
			if port["name"] == "api" {
				port["containerPort"] = mark(`include "weir.apiPort" .`)
			}
			if port["name"] == "metrics" {
				port["containerPort"] = mark(`include "weir.metricsPort" .`)
			}
			return nil
		}, "ports"); err != nil {
			return err
		}
		if err := add(c, mark(`extra include "weir.webhookContainerPort" . | fromYamlArray`), "ports"); err != nil {
			return err
		}
		args, _, err := unstructured.NestedStringSlice(c, "args")
		if err != nil {
			return err
		}
		for i, arg := range args {
			if arg == "--secure-port=10250" {
				args[i] = "--secure-port=" + mark(`include "weir.apiPort" .`)
			}
		}
		return unstructured.SetNestedStringSlice(c, append(args, mark(`extra include "weir.portArgs" . | fromYamlArray`)), "args")
	}, "spec", "template", "spec", "containers")
}
