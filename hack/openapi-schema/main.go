// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Command openapi-schema prints the schemas of all types as one OpenAPI document. The generator of
// apply configurations needs the document to generate Extract functions.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/weir-rollouts/weir/pkg/generated/openapi"
)

// groups are the prefixes under which the generator looks for Go types, by the shorter prefixes of
// the published models.
var groups = map[string]string{
	"io.kruise.rollouts.": util.ToRESTFriendlyName("github.com/weir-rollouts/weir/pkg/apis/rollouts."),
	"io.weir-rollouts.":   util.ToRESTFriendlyName("github.com/weir-rollouts/weir/pkg/apis/weir."),
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "openapi-schema:", err)
		os.Exit(1)
	}
}

func run() error {
	definitions := spec.Definitions{}
	for model, definition := range openapi.GetOpenAPIDefinitions(func(model string) spec.Ref {
		return spec.MustCreateRef("#/definitions/" + name(model))
	}) {
		schema := definition.Schema
		// A field that may be a number or a string has another schema in version 2 of OpenAPI.
		if v2, ok := schema.Extensions[common.ExtensionV2Schema].(spec.Schema); ok {
			schema = v2
		}
		definitions[name(model)] = schema
	}
	document := spec.Swagger{SwaggerProps: spec.SwaggerProps{
		Swagger: "2.0", Info: &spec.Info{InfoProps: spec.InfoProps{Title: "Weir", Version: "unversioned"}},
		Paths: &spec.Paths{}, Definitions: definitions,
	}}
	if err := json.NewEncoder(os.Stdout).Encode(document); err != nil {
		return fmt.Errorf("writing the schema: %w", err)
	}
	return nil
}

// name returns the name under which the generator looks for a model.
func name(model string) string {
	for published, goName := range groups {
		if rest, found := strings.CutPrefix(model, published); found {
			return goName + rest
		}
	}
	return model
}
