// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/weir-rollouts/weir/internal/golden"
	"github.com/weir-rollouts/weir/pkg/generated/openapi"
)

func definitions() map[string]common.OpenAPIDefinition {
	return openapi.GetOpenAPIDefinitions(func(name string) spec.Ref { return spec.MustCreateRef(name) })
}

// One name with a slash breaks the merged document of a whole cluster.
func TestModelNames(t *testing.T) {
	t.Parallel()
	for name := range definitions() {
		if strings.Contains(name, "/") {
			t.Errorf("model %s is named after its Go package", name)
		}
	}
}

// The fields of the API, their types, which are required and how lists merge.
// A change here is a change for every client: rewrite the files with -update
// and explain each line.
func TestSchema(t *testing.T) {
	t.Parallel()
	models := definitions()
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			var lines []string
			kinds := []string{"Rollout", "BatchRelease", "PromoteOptions", "AbortOptions",
				"RollbackOptions", "RetryOptions", "PauseOptions", "ResumeOptions", "JumpOptions"}
			if version == "v1alpha1" {
				kinds = append(kinds, "TrafficRouting", "RolloutHistory")
			} else {
				kinds = append(kinds, "RolloutWhy", "RolloutTree", "RolloutPlan", "RolloutReleases")
			}
			for _, kind := range kinds {
				model, ok := models["io.kruise.rollouts."+version+"."+kind]
				if !ok {
					t.Fatalf("there is no model of %s", kind)
				}
				lines = append(lines, fields(models, kind, &model.Schema)...)
			}
			golden.File(t, version+".txt", strings.Join(lines, "\n")+"\n")
		})
	}
}

// fields lists what is under a schema, following references into this group only.
func fields(models map[string]common.OpenAPIDefinition, path string, schema *spec.Schema) []string {
	var names, lines []string
	for name := range schema.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		property := schema.Properties[name]
		at := path + "." + name
		line := at
		if slices.Contains(schema.Required, name) {
			line += " required"
		}
		target := &property
		if property.Items != nil {
			at, line = at+"[]", line+" list"
			if kind := property.Extensions["x-kubernetes-list-type"]; kind != "atomic" {
				line += fmt.Sprintf(" %v", kind)
			}
			if keys, ok := property.Extensions["x-kubernetes-list-map-keys"]; ok {
				line += fmt.Sprintf(" by %v", keys)
			}
			target = property.Items.Schema
		}
		model := reference(target)
		if strings.HasPrefix(model, "io.kruise.rollouts.") {
			lines = append(lines, line)
			referred := models[model].Schema
			lines = append(lines, fields(models, at, &referred)...)
			continue
		}
		lines = append(lines, line+" "+model+strings.Join(target.Type, ""))
	}
	return lines
}

func reference(schema *spec.Schema) string {
	if len(schema.AllOf) == 1 {
		schema = &schema.AllOf[0]
	}
	return schema.Ref.String()
}
