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

// ProposeRollout returns a Rollout for a workload. It finds the Service that selects the workload's pods, and the
// routes to that Service, among the given objects.
func ProposeRollout(workload *unstructured.Unstructured, shares []string, there []*unstructured.Unstructured) Result {
	r := newRollout(metav1.ObjectMeta{Name: workload.GetName(), Namespace: workload.GetNamespace()},
		v1beta1.ObjectRef{APIVersion: workload.GetAPIVersion(), Kind: workload.GetKind(), Name: workload.GetName()})
	s := &manifestSource{}
	to := &trafficRoutes{manifestSource: s}
	to.ref.Service = s.findService(workload, there)
	for _, o := range there {
		if to.ref.Service != "" && hasBackend(o.Object, to.ref.Service) {
			to.addRouter(o)
		}
	}
	canary := &v1beta1.CanaryStrategy{}
	canary.Steps = newSteps(shares, to.hasRouters())
	if to.hasRouters() {
		to.setRouting(&canary.Release)
	} else {
		missing := "no Service selects these pods"
		if to.ref.Service != "" {
			missing = "no Ingress, HTTPRoute or VirtualService routes to Service " + to.ref.Service
		}
		s.addHint(0, "%s, so each version gets requests in proportion to its pods", missing)
	}
	r.Spec.Strategy.Canary = canary
	s.noteLintErrors(r)
	return Result{
		Object: r, Notes: s.notes, From: strings.ToLower(workload.GetKind()) + "/" + workload.GetName(),
		StepsComment: "# pause: {} waits for an approval: kubectl weir promote " + r.Name +
			"\n# pause: {duration: 600} would continue after 600 seconds",
	}
}

// newSteps returns steps with the same share of pods and of requests, which wait for an approval. The last step
// replaces all pods, and the release ends.
func newSteps(shares []string, routed bool) []v1beta1.Step {
	var steps []v1beta1.Step
	for i, n := range shares {
		step := v1beta1.Step{Replicas: new(intstr.Parse(n))}
		if i < len(shares)-1 {
			step.Pause = &v1beta1.Pause{}
		}
		if routed && i < len(shares)-1 && strings.HasSuffix(n, "%") {
			step.Traffic = &n
		}
		steps = append(steps, step)
	}
	return steps
}

// findService returns the name of the first Service that selects the pods of a workload.
func (s *manifestSource) findService(workload *unstructured.Unstructured, there []*unstructured.Unstructured) string {
	name := ""
	pods, _, _ := unstructured.NestedStringMap(workload.Object, "spec", "template", "metadata", "labels") // without labels, no Service selects the pods
	for _, o := range there {
		selector, _, _ := unstructured.NestedStringMap(o.Object, "spec", "selector")
		switch selects := labels.SelectorFromSet(selector).Matches(labels.Set(pods)); {
		case o.GetKind() != "Service" || len(selector) == 0 || !selects:
		case name == "":
			name = o.GetName()
		default:
			s.addHint(0, "Service %s selects these pods, too, and is not in trafficRoutings", o.GetName())
		}
	}
	return name
}

// ingressClasses maps classes of Ingresses to the names that Weir uses.
var ingressClasses = map[string]string{"nginx": "nginx", "alb": "aws-alb", "mse": "mse", "higress": "higress"}

// addRouter adds a router to the Rollout.
func (r *trafficRoutes) addRouter(o *unstructured.Unstructured) {
	switch o.GetKind() {
	case "Ingress":
		class := takeText(o.DeepCopy().Object, "spec", "ingressClassName")
		known := ingressClasses[class]
		if known == "" {
			known = "nginx"
			r.addHint(0, "Ingress %s has the class %q, which Weir does not know: set classType to the controller that serves it", o.GetName(), class)
		}
		r.addIngress(known, o.GetName())
	case "HTTPRoute":
		r.addHTTPRoute(o.GetName())
	default:
		r.addCustomRouter(o.GetAPIVersion(), o.GetKind(), o.GetName())
	}
}

// hasBackend reports whether a router has the Service among its backends.
func hasBackend(value any, service string) bool {
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			if hasBackend(item, service) {
				return true
			}
		}
	case map[string]any:
		for _, key := range sortedKeys(v) {
			if isBackend(key, v[key], service) || hasBackend(v[key], service) {
				return true
			}
		}
	}
	return false
}

// isBackend reports whether a field refers to the Service in the syntax of its router.
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
