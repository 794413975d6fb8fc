// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/weir-rollouts/weir/internal/golden"
)

// The golden files describe the API for clients. A changed line is a change for every client: rewrite the
// files with -update, and explain each line in the commit.

// The files contain one line for each method of each path, and one for each field of each model.
func TestOpenAPIGolden(t *testing.T) {
	t.Parallel()
	for file, version := range map[string]string{
		"v1beta1": "rollouts.kruise.io/v1beta1", "v1alpha1": "rollouts.kruise.io/v1alpha1", "weir-v1alpha1": "weir-rollouts.io/v1alpha1",
	} {
		document := decoded[spec3.OpenAPI](t, call(t, request{as: admin, method: "GET", path: "/openapi/v3/apis/" + version}).must(t, http.StatusOK))
		var lines []string
		for _, path := range slices.Sorted(maps.Keys(document.Paths.Paths)) {
			lines = append(lines, operations(path, document.Paths.Paths[path])...)
		}
		for _, name := range slices.Sorted(maps.Keys(document.Components.Schemas)) {
			lines = append(lines, "", "model "+name)
			if strings.HasPrefix(name, "io.kruise.") || strings.HasPrefix(name, "io.weir-") {
				lines = append(lines, model(document.Components.Schemas[name])...)
			}
		}
		golden.File(t, "openapi-"+file+".txt", strings.Join(lines, "\n")+"\n")
	}
}

// These are the names of the models in the OpenAPI v2 document, which kube-aggregator merges with the
// documents of other servers.
func TestOpenAPINamesGolden(t *testing.T) {
	t.Parallel()
	document := decoded[struct {
		Definitions map[string]json.RawMessage `json:"definitions"`
	}](t, call(t, request{as: admin, method: "GET", path: "/openapi/v2"}).must(t, http.StatusOK))
	names := slices.Sorted(maps.Keys(document.Definitions))
	for _, name := range names {
		if strings.ContainsAny(name, "/~") {
			t.Errorf("model %s is named after its Go package", name)
		}
	}
	golden.File(t, "openapi-v2.txt", strings.Join(names, "\n")+"\n")
}

// The file contains one line for each resource and subresource of each version, in the order in which
// clients prefer the versions.
func TestDiscoveryGolden(t *testing.T) {
	t.Parallel()
	a := call(t, request{as: admin, method: "GET", path: "/apis", headers: map[string]string{
		"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
	}}).must(t, http.StatusOK)
	var lines []string
	for _, group := range decoded[apidiscoveryv2.APIGroupDiscoveryList](t, a).Items {
		for _, version := range group.Versions {
			lines = append(lines, fmt.Sprintf("%s/%s %s", group.Name, version.Version, version.Freshness))
			for i := range version.Resources {
				lines = append(lines, resource(&version.Resources[i])...)
			}
		}
	}
	golden.File(t, "discovery.txt", strings.Join(lines, "\n")+"\n")
}

func resource(r *apidiscoveryv2.APIResourceDiscovery) []string {
	lines := []string{fmt.Sprintf("  %s (%s) %s, %s: %s; short names %v, categories %v",
		r.Resource, r.SingularResource, r.ResponseKind.Kind, r.Scope, strings.Join(r.Verbs, " "), r.ShortNames, r.Categories)}
	for _, s := range r.Subresources {
		lines = append(lines, fmt.Sprintf("    /%s %s: %s", s.Subresource, s.ResponseKind.Kind, strings.Join(s.Verbs, " ")))
	}
	return lines
}

func operations(path string, item *spec3.Path) []string {
	methods := map[string]*spec3.Operation{
		"GET": item.Get, "POST": item.Post, "PUT": item.Put, "PATCH": item.Patch, "DELETE": item.Delete,
	}
	var lines []string
	for _, method := range slices.Sorted(maps.Keys(methods)) {
		operation := methods[method]
		if operation == nil {
			continue
		}
		action, _ := operation.Extensions.GetString("x-kubernetes-action")
		line := []string{method, path, action}
		if body := operation.RequestBody; body != nil {
			line = append(line, "takes", strings.Join(contents(body.Content), ", "))
		}
		for _, code := range []int{http.StatusOK, http.StatusCreated, http.StatusAccepted} {
			if response, ok := operation.Responses.StatusCodeResponses[code]; ok {
				line = append(line, strconv.Itoa(code), strings.Join(contents(response.Content), ", "))
			}
		}
		lines = append(lines, strings.Join(line, " "))
	}
	return lines
}

// contents returns the models of a body, each once.
func contents(content map[string]*spec3.MediaType) []string {
	var names []string
	for _, media := range content {
		if name := typeOf(media.Schema); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// model lists the fields with their types, defaults and list types.
func model(schema *spec.Schema) []string {
	var lines []string
	if kinds, ok := schema.Extensions["x-kubernetes-group-version-kind"]; ok {
		lines = append(lines, fmt.Sprintf("  kind %v", kinds))
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		property := schema.Properties[name]
		line := "  " + name + " " + typeOf(&property)
		if slices.Contains(schema.Required, name) {
			line += " required"
		}
		if property.Default != nil {
			line += fmt.Sprintf(" default %v", property.Default)
		}
		if kind, ok := property.Extensions["x-kubernetes-list-type"]; ok {
			line += fmt.Sprintf(" %v", kind)
		}
		if keys, ok := property.Extensions["x-kubernetes-list-map-keys"]; ok {
			line += fmt.Sprintf(" by %v", keys)
		}
		lines = append(lines, line)
	}
	return lines
}

// typeOf returns the type of a schema, or the model that it references.
func typeOf(schema *spec.Schema) string {
	if schema == nil {
		return "nothing"
	}
	if len(schema.AllOf) == 1 {
		schema = &schema.AllOf[0]
	}
	if name, ok := strings.CutPrefix(schema.Ref.String(), "#/components/schemas/"); ok {
		return name
	}
	text := strings.Join(schema.Type, "|")
	if schema.Format != "" {
		text += " " + schema.Format
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		text += " of " + typeOf(schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		text += " of " + typeOf(schema.AdditionalProperties.Schema)
	}
	return text
}
