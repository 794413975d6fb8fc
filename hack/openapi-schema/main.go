// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Command openapi-schema prints the published schemas of every type as one
// OpenAPI document. The generator of apply configurations reads it to know
// which fields belong to whom; without it, nothing could be extracted.
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

// groups are the paths by which the generator looks for types in Go, by the shorter
// names that are published.
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
		// A number or a string is more than one type, which version 2 of OpenAPI says differently.
		if older, ok := schema.Extensions[common.ExtensionV2Schema].(spec.Schema); ok {
			schema = older
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

func name(model string) string {
	for published, looked := range groups {
		if rest, ours := strings.CutPrefix(model, published); ours {
			return looked + rest
		}
	}
	return model
}
