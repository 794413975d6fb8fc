// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

var splitKind = schema.GroupVersionKind{Group: "e2e.example.com", Version: "v1", Kind: "Split"}

const splitScript = `
	if obj.matches then error("a Split cannot match", 0) end
	obj.data.spec.parts = {
		{ to = obj.stableService, weight = obj.stableWeight }, { to = obj.canaryService, weight = obj.canaryWeight },
	}
	return obj.data`

// installScripts installs Lua scripts as users of OpenKruise have them.
func installScripts(t *testing.T, more map[string]string) {
	t.Helper()
	alb, err := os.ReadFile("../../pkg/traffic/testdata/alb.lua")
	if err != nil {
		t.Fatal(err)
	}
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kruise-rollout"}}
	if err := testEnv.client.Create(t.Context(), space); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	installScript(t, "lua.traffic.routing.ingress.aliyun-alb", string(alb))
	for key, script := range more {
		installScript(t, key, script)
	}
}

// installScript adds a script to the existing ones.
func installScript(t *testing.T, key, script string) {
	t.Helper()
	have := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kruise-rollout", Name: "kruise-rollout-configuration"}}
	err := testEnv.client.Create(t.Context(), have.DeepCopy())
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	base := have.DeepCopy()
	have.Data = map[string]string{key: script}
	if err := testEnv.client.Patch(t.Context(), have, client.MergeFrom(base)); err != nil {
		t.Fatal(err)
	}
}

// Case 20: the script of a user takes precedence over the built-in one for ALB.
func TestScriptOfALB(t *testing.T) {
	t.Parallel()
	installScripts(t, nil)
	p := defaultPlan()
	first := manualStep("2")
	first.Matches = []v1beta1.RouteMatch{{Headers: []v1beta1.ValueMatch{
		{Name: "Cookie", Value: "demo1=value1,demo2=value2"}, {Name: "SourceIp", Value: "192.168.0.0/16,172.16.0.0/16"},
		{Name: "headername", Value: "headervalue1,headervalue2"},
	}}}
	p.steps = []v1beta1.Step{first, withTraffic(manualStep("50%"), "30%"), manualStep("100%")}
	p.customizeRollout = func(r *v1beta1.Rollout) {
		r.Spec.Strategy.Canary.TrafficRoutings[0].Ingress.ClassType = new("aliyun-alb")
	}
	a := start(t, p)
	a.release("v2")
	a.eventually("the first step waits", a.waitsAtStep(1))
	a.checkEqual("the conditions", `[{"cookieConfig":{"values":[{"key":"demo1","value":"value1"},{"key":"demo2","value":"value2"}]},"type":"Cookie"},{"sourceIpConfig":{"values":["192.168.0.0/16","172.16.0.0/16"]},"type":"SourceIp"},{"headerConfig":{"key":"headername","values":["headervalue1","headervalue2"]},"type":"Header"}]`,
		a.canaryIngressAnnotations()["alb.ingress.kubernetes.io/conditions.web-canary"])
	a.promote(1)
	a.eventually("the second step waits", a.waitsAtStep(2))
	found := a.canaryIngressAnnotations()
	if _, left := found["alb.ingress.kubernetes.io/conditions.web-canary"]; left || found["alb.ingress.kubernetes.io/canary-weight"] != "30" {
		t.Errorf("the annotations are %v", found)
	}
	a.promote(2)
	a.eventually("the Rollout is Healthy", a.isHealthy)
}

// canaryIngressAnnotations returns the annotations of the canary Ingress.
func (a *app) canaryIngressAnnotations() map[string]string {
	a.t.Helper()
	ingress := &networkingv1.Ingress{}
	if err := testEnv.client.Get(a.t.Context(), a.key(name+"-canary"), ingress); err != nil {
		a.t.Fatal(err)
	}
	return ingress.Annotations
}

// TestScriptErrorFixed has a script with an error, which stops the step, and the message names its
// position. With the corrected script, the release continues.
func TestScriptErrorFixed(t *testing.T) {
	t.Parallel()
	installScripts(t, map[string]string{"lua.traffic.routing.ingress.odd": `return obj.nothing.there`})
	p := defaultPlan()
	p.customizeRollout = func(r *v1beta1.Rollout) { r.Spec.Strategy.Canary.TrafficRoutings[0].Ingress.ClassType = new("odd") }
	a := start(t, p)
	a.release("v2")
	a.eventually("the error of the script is reported", a.messageContains(
		"lua.traffic.routing.ingress.odd of ConfigMap kruise-rollout/kruise-rollout-configuration", "script:1: attempt to index"))
	installScript(t, "lua.traffic.routing.ingress.odd", `obj.annotations["odd.example.com/share"] = obj.weight return obj.annotations`)
	a.eventually("the first step waits", a.waitsAtStep(1))
	a.checkEqual("the share", "20", a.canaryIngressAnnotations()["odd.example.com/share"])
}

// TestScriptForCustomKind routes a custom kind with a script, once weir-controller has the
// permission.
func TestScriptForCustomKind(t *testing.T) {
	t.Parallel()
	installScripts(t, map[string]string{"lua.traffic.routing.Split.e2e.example.com": splitScript})
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "splits.e2e.example.com"},
		"spec": map[string]any{
			"group": splitKind.Group, "scope": "Namespaced", "names": map[string]any{"kind": splitKind.Kind, "plural": "splits", "singular": "split"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{
				"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
			}}},
		},
	}}
	if err := testEnv.client.Create(t.Context(), definition); err != nil {
		t.Fatal(err)
	}
	p := defaultPlan()
	p.customizeRollout = func(r *v1beta1.Rollout) {
		route := &r.Spec.Strategy.Canary.TrafficRoutings[0]
		route.Ingress = nil
		route.CustomNetworkRefs = []v1beta1.ObjectRef{{APIVersion: "e2e.example.com/v1", Kind: "Split", Name: name}}
	}
	p.deploy = func(a *app) {
		a.create(a.newDeployment())
		a.create(a.newService())
		a.create(a.newIngress())
		a.eventually("Splits are served", func(ctx context.Context) error {
			split := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"parts": []any{}, "note": "mine"}}}
			split.SetGroupVersionKind(splitKind)
			split.SetName(name)
			split.SetNamespace(a.namespace)
			return testEnv.client.Create(ctx, split)
		})
	}
	a := start(t, p)
	before := a.getSplit()
	a.release("v2")
	a.eventually("the missing permission is reported", a.messageContains("may not list them in every namespace", "aggregate-to-weir-controller"))
	if err := testEnv.client.Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "e2e-splits", Labels: map[string]string{"rollouts.kruise.io/aggregate-to-weir-controller": "true"}},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{splitKind.Group}, Resources: []string{"splits"}, Verbs: []string{"get", "list", "watch", "patch"}}},
	}); err != nil {
		t.Fatal(err)
	}
	a.eventually("the first step waits", a.waitsAtStep(1))
	a.checkEqual("the parts", []any{map[string]any{"to": "web", "weight": int64(80)}, map[string]any{"to": "web-canary", "weight": int64(20)}}, a.getSplit()["spec"].(map[string]any)["parts"])
	a.promoteAll()
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.eventually("the Split is as before", func(context.Context) error {
		now := a.getSplit()
		if fmt.Sprint(now["spec"]) != fmt.Sprint(before["spec"]) || now["metadata"].(map[string]any)["annotations"] != nil {
			return errors.New(fmt.Sprint(now))
		}
		return nil
	})
}

// getSplit reads the Split of the application.
func (a *app) getSplit() map[string]any {
	a.t.Helper()
	split := &unstructured.Unstructured{}
	split.SetGroupVersionKind(splitKind)
	if err := testEnv.client.Get(a.t.Context(), a.key(name), split); err != nil {
		a.t.Fatal(err)
	}
	return split.Object
}
