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
	case "ServiceAccount":
		return ".Values.serviceAccount.create"
	case "PodDisruptionBudget":
		return ".Values.podDisruptionBudget.enabled"
	case "NetworkPolicy":
		return ".Values.networkPolicy.enabled"
	}
	return ""
}

// insertValues puts marks where the chart has values, by kind.
func insertValues(o *unstructured.Unstructured) error {
	switch o.GetKind() {
	case "Deployment", "StatefulSet":
		return insertPodValues(o)
	case "ServiceAccount":
		return unstructured.SetNestedField(o.Object, mark("block .Values.serviceAccount.annotations"), "metadata", "annotations")
	case "PersistentVolumeClaim":
		return insertVolumeValues(o.Object, ".Values.persistence")
	case "PodDisruptionBudget":
		return insertBudgetValues(o)
	case "NetworkPolicy":
		if o.GetName() != "weir-apiserver" {
			return nil
		}
		return each(o.Object, func(rule map[string]any) error {
			rule["from"] = mark("block .Values.networkPolicy.from")
			return nil
		}, "spec", "ingress")
	case "ServiceMonitor":
		return insertMonitorValues(o)
	case "APIService":
		if err := insertAuthorityAnnotation(o); err != nil {
			return err
		}
		if err := unstructured.SetNestedField(o.Object, mark(`line include "weir.caBundle" .`), "spec", "caBundle"); err != nil {
			return err
		}
		return unstructured.SetNestedField(o.Object, mark(".Values.service.port"), "spec", "service", "port")
	case "Service":
		return each(o.Object, func(port map[string]any) error {
			if port["name"] == "api" {
				port["port"] = mark(".Values.service.port")
			}
			return nil
		}, "spec", "ports")
	case "MutatingWebhookConfiguration":
		if err := insertAuthorityAnnotation(o); err != nil {
			return err
		}
		return each(o.Object, insertWebhookValues, "webhooks")
	}
	return nil
}

// insertAuthorityAnnotation adds the annotation from which cert-manager knows the authority to
// publish in the object.
func insertAuthorityAnnotation(o *unstructured.Unstructured) error {
	return unstructured.SetNestedField(o.Object, mark(`block include "weir.authorityAnnotations" . | fromYaml`), "metadata", "annotations")
}

func insertWebhookValues(webhook map[string]any) error {
	if err := unstructured.SetNestedField(webhook, mark(`line include "weir.caBundle" .`), "clientConfig", "caBundle"); err != nil {
		return err
	}
	if webhook["failurePolicy"] == "Ignore" && webhook["name"] == "workloads.weir.rollouts.kruise.io" { // since policies hold the same
		webhook["failurePolicy"] = mark(`ternary "Ignore" "Fail" .Values.policies`)
	}
	if webhook["objectSelector"] == nil {
		return nil // it looks at what is made with records, whatever else stands there
	}
	return add(webhook, mark("extra .Values.rollout.webhook.objectSelector"), "objectSelector", "matchExpressions")
}

// insertBudgetValues leaves the budget of etcd as it is, because two of its three members must run.
func insertBudgetValues(o *unstructured.Unstructured) error {
	if o.GetName() == "weir-etcd" {
		return nil
	}
	unstructured.RemoveNestedField(o.Object, "spec", "maxUnavailable")
	return unstructured.SetNestedField(o.Object, mark(`entries include "weir.budget" . | fromYaml`), "spec", "entries")
}

func insertMonitorValues(o *unstructured.Unstructured) error {
	if err := unstructured.SetNestedField(o.Object, mark("entries .Values.serviceMonitor.labels"), "metadata", "labels", "entries"); err != nil {
		return err
	}
	return each(o.Object, func(endpoint map[string]any) error {
		endpoint["interval"] = mark("line .Values.serviceMonitor.interval")
		endpoint["scrapeTimeout"] = mark("line .Values.serviceMonitor.scrapeTimeout")
		if endpoint["tlsConfig"] == nil {
			return nil
		}
		return unstructured.SetNestedField(endpoint, mark(`include "weir.tlsSecret" . | default "weir-apiserver-tls"`), "tlsConfig", "ca", "secret", "name")
	}, "spec", "endpoints")
}

// insertVolumeValues opens the size and the class of a claim; values is the chart value with both.
func insertVolumeValues(claim map[string]any, values string) error {
	if err := unstructured.SetNestedField(claim, mark(values+".size"), "spec", "resources", "requests", "storage"); err != nil {
		return err
	}
	return unstructured.SetNestedField(claim, mark("line "+values+".storageClass"), "spec", "storageClassName")
}

// replicas are a value but where the storage says how many there may be.
var replicas = map[string]bool{"weir-apiserver": true, "weir-controller": true}

func insertPodValues(o *unstructured.Unstructured) error {
	count, _, err := unstructured.NestedInt64(o.Object, "spec", "replicas")
	if err != nil {
		return err
	}
	if replicas[o.GetName()] && (count > 1 || o.GetName() == "weir-controller") {
		if err := unstructured.SetNestedField(o.Object, mark(".Values.replicaCount"), "spec", "replicas"); err != nil {
			return err
		}
	}
	template, _, err := unstructured.NestedMap(o.Object, "spec", "template")
	if err != nil {
		return err
	}
	isEtcd := o.GetName() == "weir-etcd"
	if err := unstructured.SetNestedField(template, mark("block .Values.podAnnotations"), "metadata", "annotations"); err != nil {
		return err
	}
	if err := unstructured.SetNestedField(template, mark("entries .Values.podLabels"), "metadata", "labels", "entries"); err != nil {
		return err
	}
	pod := template["spec"].(map[string]any)
	// The manifests run every pod at the priority that is the default of the chart.
	pod["priorityClassName"] = mark("line .Values.priorityClassName")
	for _, field := range []string{"imagePullSecrets", "nodeSelector", "tolerations"} {
		pod[field] = mark("block .Values." + field)
	}
	placement := ".Values."
	if isEtcd {
		placement = ".Values.etcd."
	}
	if err := replaceable(pod, "affinity", placement+"affinity"); err != nil {
		return err
	}
	if err := replaceable(pod, "securityContext", ".Values.podSecurityContext"); err != nil {
		return err
	}
	constraints, err := json.Marshal(pod["topologySpreadConstraints"])
	if err != nil {
		return err
	}
	pod["topologySpreadConstraints"] = mark(fmt.Sprintf("block include \"weir.spread\" (list %stopologySpreadConstraints %q `%s`) | fromYamlArray",
		placement, o.GetName(), constraints))
	if isEtcd {
		err = each(o.Object, func(claim map[string]any) error { return insertVolumeValues(claim, ".Values.etcd.persistence") }, "spec", "volumeClaimTemplates")
	} else {
		err = addExtra(pod, "volumes", ".Values.extraVolumes")
	}
	if err != nil {
		return err
	}
	if o.GetName() == "weir-apiserver" {
		if err := addExtra(pod, "volumes", `include "weir.tlsVolumes" . | fromYamlArray`); err != nil {
			return err
		}
		if err := each(pod, nameEtcdSecret, "volumes"); err != nil {
			return err
		}
	}
	if err := each(pod, insertContainerValues, "containers"); err != nil {
		return err
	}
	return unstructured.SetNestedMap(o.Object, template, "spec", "template")
}

// nameEtcdSecret opens the name of the Secret that weir-apiserver shows to the etcd of the user. For an
// etcd of the chart, the volume is empty at first, and weir-apiserver writes the certificate.
func nameEtcdSecret(volume map[string]any) error {
	if volume["name"] != "etcd-client" || volume["secret"] == nil {
		return nil
	}
	return unstructured.SetNestedField(volume, mark(`.Values.etcd.existingSecret | default "weir-etcd-client"`), "secret", "secretName")
}

// placeholder is what artifacts/external-etcd has for an etcd of its user.
const placeholder = "--etcd-servers=https://etcd.example:2379"

func insertContainerValues(c map[string]any) error {
	c["image"] = mark(`include "weir.image" .`)
	c["imagePullPolicy"] = mark(".Values.image.pullPolicy")
	if err := replaceable(c, "securityContext", ".Values.securityContext"); err != nil {
		return err
	}
	if c["name"] == "etcd" {
		return replaceable(c, "resources", ".Values.etcd.resources")
	}
	if err := replaceable(c, "resources", ".Values.resources"); err != nil {
		return err
	}
	for _, probe := range []string{"startupProbe", "readinessProbe", "livenessProbe"} {
		defaults, err := json.Marshal(c[probe])
		if err != nil {
			return err
		}
		c[probe] = mark(fmt.Sprintf("block mergeOverwrite (fromJson `%s`) .Values.%s", defaults, probe))
	}
	if err := addExtra(c, "env", ".Values.extraEnv"); err != nil {
		return err
	}
	if err := addExtra(c, "volumeMounts", ".Values.extraVolumeMounts"); err != nil {
		return err
	}
	args, _, err := unstructured.NestedStringSlice(c, "args")
	if err != nil {
		return err
	}
	for i, arg := range args {
		if arg == placeholder {
			args[i] = "--etcd-servers=" + mark(`required "etcd.servers must name your etcd" .Values.etcd.servers`)
		}
	}
	args = append(args, "--v="+mark(".Values.rollout.log.level"))
	if c["name"] == "weir-apiserver" {
		if err := addExtra(c, "volumeMounts", `include "weir.tlsMounts" . | fromYamlArray`); err != nil {
			return err
		}
		args = append(args, mark(`extra include "weir.tlsArgs" . | fromYamlArray`), mark("extra .Values.extraArgs"))
	} else {
		args = append(args, mark("extra .Values.controller.extraArgs"))
	}
	return unstructured.SetNestedStringSlice(c, args, "args")
}

// replaceable lets a value replace a field. Without the value, the field is that of the manifests.
func replaceable(in map[string]any, field, value string) error {
	if in[field] == nil {
		in[field] = mark("block " + value)
		return nil
	}
	manifest, err := json.Marshal(in[field])
	if err != nil {
		return err
	}
	in[field] = mark(fmt.Sprintf("block %s | default (fromJson `%s`)", value, manifest))
	return nil
}

// addExtra lets a value add entries to a list, which the manifests may not have.
func addExtra(in map[string]any, field, value string) error {
	switch in[field].(type) {
	case nil:
		in[field] = mark("block " + value)
		return nil
	case string:
		return fmt.Errorf("%s has two values of the chart and no entry of the manifests", field)
	}
	return add(in, mark("extra "+value), field)
}

// each calls do for each object in a list, and leaves marks as they are.
func each(in map[string]any, do func(map[string]any) error, path ...string) error {
	list, found, err := unstructured.NestedSlice(in, path...)
	if err != nil || !found {
		return err
	}
	for _, entry := range list {
		if _, isMark := entry.(string); isMark {
			continue
		}
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
