// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func TestObject(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		errors, warning string
	}{
		"good":                        {},
		"a-wrong-value":               {errors: "spec.strategy.canary.steps[0].replicas"},
		"a-value-of-another-type":     {errors: `spec.strategy.canary.steps[0].pause.duration: Invalid value: "10m": step 1: write a whole number of seconds, without quotes: 600`},
		"a-field-that-is-not-there":   {errors: `unknown field "spec.strategy.canary.stepz": did you mean "steps"?`},
		"a-share-that-few-pods-serve": {warning: "use 50% or less"},
		"traffic-without-a-route":     {warning: "no requests are routed"},
		"the-older-version":           {errors: "spec.objectRef.workloadRef"},
		"a-check":                     {errors: "spec"},
		"a-source":                    {errors: "spec.prometheus.url"},
		"a-version-that-is-not-there": {errors: "no kind"},
	} {
		data, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(data, &u.Object); err != nil {
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
