// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// Propose writes a Rollout for a workload, with the Service that selects its pods and what
// routes to that, of the objects that are there.
func Propose(workload *unstructured.Unstructured, shares []string, there []*unstructured.Unstructured) Result {
	r := rolloutOf(metav1.ObjectMeta{Name: workload.GetName(), Namespace: workload.GetNamespace()},
		v1beta1.ObjectRef{APIVersion: workload.GetAPIVersion(), Kind: workload.GetKind(), Name: workload.GetName()})
	s := &source{}
	to := &routes{source: s}
	to.ref.Service = s.serviceOf(workload, there)
	for _, o := range there {
		if to.ref.Service != "" && routesTo(o.Object, to.ref.Service) {
			to.add(o)
		}
	}
	canary := &v1beta1.CanaryStrategy{}
	canary.Steps = stepsOf(shares, to.found())
	if to.found() {
		to.into(&canary.Release)
	} else {
		s.note(0, "traffic: no Service with an Ingress, HTTPRoute or VirtualService was found; requests follow the pods")
	}
	r.Spec.Strategy.Canary = canary
	s.refused(r)
	return Result{Object: r, Notes: s.notes, From: strings.ToLower(workload.GetKind()) + "/" + workload.GetName()}
}

// stepsOf has the same share of pods and of requests; the last step replaces every pod.
func stepsOf(shares []string, routed bool) []v1beta1.Step {
	var steps []v1beta1.Step
	for i, n := range shares {
		step := v1beta1.Step{Replicas: new(intstr.Parse(n))}
		if routed && i < len(shares)-1 && strings.HasSuffix(n, "%") {
			step.Traffic = &n
		}
		steps = append(steps, step)
	}
	return steps
}

// serviceOf is the first Service that selects the pods of a workload.
func (s *source) serviceOf(workload *unstructured.Unstructured, there []*unstructured.Unstructured) string {
	name := ""
	pods, _, _ := unstructured.NestedStringMap(workload.Object, "spec", "template", "metadata", "labels") // none is none
	for _, o := range there {
		selector, _, _ := unstructured.NestedStringMap(o.Object, "spec", "selector")
		switch selects := labels.SelectorFromSet(selector).Matches(labels.Set(pods)); {
		case o.GetKind() != "Service" || len(selector) == 0 || !selects:
		case name == "":
			name = o.GetName()
		default:
			s.note(0, "Service %s selects the pods, too", o.GetName())
		}
	}
	return name
}

// classes are the classes of Ingresses, and what Weir calls them.
var classes = map[string]string{"nginx": "nginx", "alb": "aws-alb", "mse": "mse", "higress": "higress"}

// add names a router.
func (r *routes) add(o *unstructured.Unstructured) {
	switch o.GetKind() {
	case "Ingress":
		class := text(o.DeepCopy().Object, "spec", "ingressClassName")
		known := classes[class]
		if known == "" {
			known = "nginx"
			r.note(0, "Ingress %s has the class %q: set classType", o.GetName(), class)
		}
		r.ingress(known, o.GetName())
	case "HTTPRoute":
		r.httpRoute(o.GetName())
	default:
		r.custom(o.GetAPIVersion(), o.GetKind(), o.GetName())
	}
}

// routesTo reports whether a router has a Service among its backends.
func routesTo(value any, service string) bool {
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			if routesTo(item, service) {
				return true
			}
		}
	case map[string]any:
		for _, key := range sortedKeys(v) {
			if isBackend(key, v[key], service) || routesTo(v[key], service) {
				return true
			}
		}
	}
	return false
}

// isBackend reports whether a field names the Service as its router spells it.
func isBackend(key string, value any, service string) bool {
	switch v := value.(type) {
	case map[string]any:
		host, _ := v["host"].(string)
		return key == "service" && v["name"] == service || key == "destination" && strings.Split(host, ".")[0] == service
	case []any:
		for _, item := range v {
			if ref, ok := item.(map[string]any); ok && key == "backendRefs" && ref["name"] == service {
				return true
			}
		}
	}
	return false
}
