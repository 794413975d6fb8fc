// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func TestObject(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		manifest        string
		errors, warning string
	}{
		"good": {manifest: `
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: web}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  strategy: {canary: {steps: [{replicas: 20%}, {replicas: 100%}]}}`},
		"a wrong value": {errors: "spec.strategy.canary.steps[0].replicas", manifest: `
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: web}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  strategy: {canary: {steps: [{replicas: 120%}]}}`},
		"a value of another type": {errors: `spec.strategy.canary.steps[0].pause.duration: Invalid value: "10m": step 1: write a whole number of seconds, without quotes: 600`, manifest: `
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: web}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  strategy: {canary: {steps: [{replicas: 20%, pause: {duration: 10m}}, {replicas: 100%}]}}`},
		"a field that is not there": {errors: `unknown field "spec.strategy.canary.stepz": did you mean "steps"?`, manifest: `
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: web}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  strategy: {canary: {stepz: [], steps: [{replicas: 100%}]}}`},
		"a share that few pods serve": {warning: "use 50% or less", manifest: `
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: web}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  strategy: {canary: {trafficRoutings: [{service: web, ingress: {name: web}}], steps: [{replicas: 80%, traffic: 80%}]}}`},
		"traffic without a route": {warning: "no requests are routed", manifest: `
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: web}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  strategy: {canary: {steps: [{replicas: 20%, traffic: 20%}, {replicas: 100%}]}}`},
		"the older version": {errors: "spec.objectRef.workloadRef", manifest: `
apiVersion: rollouts.kruise.io/v1alpha1
kind: Rollout
metadata: {name: web}
spec: {objectRef: {}, strategy: {canary: {steps: [{weight: 20}]}}}`},
		"a check": {errors: "spec", manifest: `
apiVersion: weir-rollouts.io/v1alpha1
kind: Check
metadata: {name: errors}
spec: {}`},
		"a source": {errors: "spec.prometheus.url", manifest: `
apiVersion: weir-rollouts.io/v1alpha1
kind: MetricSource
metadata: {name: default}
spec: {prometheus: {url: "prometheus:9090"}}`},
		"a version that is not there": {errors: "no kind", manifest: `
apiVersion: rollouts.kruise.io/v9
kind: Rollout
metadata: {name: web}`},
	} {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(c.manifest), &u.Object); err != nil {
			t.Fatal(err)
		}
		r := Object(u)
		for what, pair := range map[string][2]string{
			"errors": {c.errors, strings.Join(r.Errors, "\n")}, "warnings": {c.warning, strings.Join(r.Warnings, "\n")},
		} {
			if (pair[0] == "") != (pair[1] == "") || !strings.Contains(pair[1], pair[0]) || !r.Known {
				t.Errorf("%s: %s are %q, want %q", name, what, pair[1], pair[0])
			}
		}
	}
	other := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment"}}
	if Object(other).Known {
		t.Error("a Deployment is of Weir")
	}
}
