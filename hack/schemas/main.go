// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Command schemas writes a JSON schema of each kind that users write into a directory, for programs that
// check manifests without a cluster: kubeconform, editors, and policies in CI. The names of the files
// are those of datreeio/CRDs-catalog: GROUP/KIND_VERSION.json.
//
// A schema is strict: it refuses fields that the server does not know, and values of a wrong type. It
// does not contain the rules that compare values with each other; kubectl weir lint has them.
package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/weir-rollouts/weir/pkg/generated/openapi"
)

// groups are the API groups, by the prefixes of their models.
var groups = map[string]string{"io.kruise.rollouts.": "rollouts.kruise.io", "io.weir-rollouts.": "weir-rollouts.io"}

const definitions = "#/definitions/"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: schemas DIRECTORY")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "schemas:", err)
		os.Exit(1)
	}
}

// write writes the schemas of all kinds.
func write(dir string) error {
	models := openapi.GetOpenAPIDefinitions(func(model string) spec.Ref { return spec.MustCreateRef(definitions + model) })
	for _, model := range slices.Sorted(maps.Keys(models)) {
		group, version, kind := splitModel(model)
		if group == "" || !isKind(models, model) {
			continue
		}
		schema, err := inline(models, model, nil)
		if err != nil {
			return fmt.Errorf("making the schema of %s: %w", model, err)
		}
		properties := schema["properties"].(map[string]any)
		properties["apiVersion"] = map[string]any{"type": "string", "enum": []string{group + "/" + version}}
		properties["kind"] = map[string]any{"type": "string", "enum": []string{kind}}
		schema["type"] = "object"
		schema["required"] = []string{"apiVersion", "kind", "metadata"}
		schema["$schema"] = "http://json-schema.org/draft-07/schema#"
		data, err := json.MarshalIndent(schema, "", "  ")
		if err != nil {
			return fmt.Errorf("encoding the schema of %s: %w", model, err)
		}
		file := filepath.Join(dir, group, strings.ToLower(kind)+"_"+version+".json")
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("writing the schemas: %w", err)
		}
		if err := os.WriteFile(file, append(data, '\n'), 0o644); err != nil {
			return fmt.Errorf("writing the schemas: %w", err)
		}
	}
	return nil
}

// splitModel returns the group, version and kind of a model; an empty group if the model is of another
// project.
func splitModel(model string) (group, version, kind string) {
	for prefix, group := range groups {
		if rest, found := strings.CutPrefix(model, prefix); found {
			version, kind, _ := strings.Cut(rest, ".")
			return group, version, kind
		}
	}
	return "", "", ""
}

// isKind reports whether a model is a kind of objects with a name: there are lists of it.
func isKind(models map[string]common.OpenAPIDefinition, model string) bool {
	_, hasMetadata := models[model].Schema.Properties["metadata"]
	_, hasList := models[model+"List"]
	return hasMetadata && hasList
}

// inline returns the schema of a model, with the schemas of other models in place of references to them.
func inline(models map[string]common.OpenAPIDefinition, model string, outer []string) (map[string]any, error) {
	definition, found := models[model]
	if !found {
		return nil, fmt.Errorf("there is no model %s", model)
	}
	if slices.Contains(outer, model) {
		return nil, fmt.Errorf("%s contains itself, through %s", model, strings.Join(outer, ", "))
	}
	return convert(models, definition.Schema, append(slices.Clone(outer), model))
}

// convert returns the JSON schema of a schema of OpenAPI.
func convert(models map[string]common.OpenAPIDefinition, schema spec.Schema, outer []string) (map[string]any, error) {
	out := map[string]any{}
	if ref := schema.Ref.String(); ref != "" {
		var err error
		if out, err = inline(models, strings.TrimPrefix(ref, definitions), outer); err != nil {
			return nil, err
		}
	}
	if schema.Description != "" {
		out["description"] = schema.Description
	}
	if len(schema.Type) == 1 {
		out["type"] = schema.Type[0]
	}
	if schema.Format != "" {
		out["format"] = schema.Format
	}
	if len(schema.Enum) > 0 {
		out["enum"] = schema.Enum
	}
	var alternatives []map[string]any
	for _, alternative := range schema.OneOf {
		alternatives = append(alternatives, map[string]any{"type": alternative.Type[0]})
	}
	if len(alternatives) > 0 {
		out["oneOf"] = alternatives
		delete(out, "format") // int-or-string is not a format of strings
	}
	if schema.Items != nil {
		items, err := convert(models, *schema.Items.Schema, outer)
		if err != nil {
			return nil, err
		}
		out["items"] = items
	}
	if schema.AdditionalProperties != nil {
		values, err := convert(models, *schema.AdditionalProperties.Schema, outer)
		if err != nil {
			return nil, err
		}
		out["additionalProperties"] = values
	}
	if len(schema.Properties) == 0 {
		return out, nil
	}
	properties := map[string]any{}
	for name, property := range schema.Properties {
		converted, err := convert(models, property, outer)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(schema.Required, name) {
			allowNull(converted)
		}
		properties[name] = converted
	}
	out["properties"] = properties
	out["additionalProperties"] = false
	if len(schema.Required) > 0 {
		out["required"] = schema.Required
	}
	return out, nil
}

// allowNull makes null a value of an optional field. The server reads null as a field that is not set.
func allowNull(schema map[string]any) {
	if single, ok := schema["type"].(string); ok {
		schema["type"] = []string{single, "null"}
	}
	if alternatives, ok := schema["oneOf"].([]map[string]any); ok {
		schema["oneOf"] = append(alternatives, map[string]any{"type": "null"})
	}
	if values, ok := schema["enum"].([]any); ok {
		schema["enum"] = append(slices.Clone(values), nil)
	}
}
