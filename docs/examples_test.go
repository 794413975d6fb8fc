// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/weir-rollouts/weir/pkg/apiserver/apiservertest"
	"github.com/weir-rollouts/weir/pkg/lint"
)

const examples = "../artifacts/examples/"

// builtIn are types of the kinds of Kubernetes in the examples, by which their fields are checked.
var builtIn = map[string]func() any{
	"Deployment":              func() any { return &appsv1.Deployment{} },
	"StatefulSet":             func() any { return &appsv1.StatefulSet{} },
	"DaemonSet":               func() any { return &appsv1.DaemonSet{} },
	"Service":                 func() any { return &corev1.Service{} },
	"Ingress":                 func() any { return &networkingv1.Ingress{} },
	"HorizontalPodAutoscaler": func() any { return &autoscalingv2.HorizontalPodAutoscaler{} },
}

// weirKinds are the resources of Weir's kinds in the examples.
var weirKinds = map[string]string{"Rollout": "rollouts", "MetricSource": "metricsources"}

// Each example is valid for the linter and for the server, is about a workload, a Service and routers of the same file,
// and is in the table of examples.md.
func TestExamples(t *testing.T) {
	t.Parallel()
	server, err := apiservertest.Start(t.TempDir(), []user.DefaultInfo{{Name: "admin"}}, func(authorizer.Attributes) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	client, err := dynamic.NewForConfig(server.As("admin"))
	if err != nil {
		t.Fatal(err)
	}
	page := readPage(t, "examples.md")
	files, err := filepath.Glob(examples + "*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tested := 0
	for _, file := range files {
		name := filepath.Base(file)
		switch name {
		case "audit-policy.yaml", "plan-policy.yaml", "echoserver.yaml":
			continue // not about a release, or half of the demo
		case "rollout.yaml": // of the demo, with echoserver.yaml
		default:
			if !strings.Contains(page, "("+file+")") {
				t.Errorf("examples.md does not list %s", name)
			}
		}
		tested++
		objects := readObjects(t, file)
		if name == "rollout.yaml" {
			objects = append(objects, readObjects(t, examples+"echoserver.yaml")...)
		}
		for _, o := range objects {
			checkObject(t, name, o)
			resource, ok := weirKinds[o.GetKind()]
			if !ok {
				continue
			}
			gvr := o.GroupVersionKind().GroupVersion().WithResource(resource)
			createStrictly(t, client, gvr, strings.TrimSuffix(name, ".yaml"), o)
			if o.GetKind() == "Rollout" {
				checkReferences(t, name, o, objects)
			}
		}
	}
	if tested < 10 {
		t.Errorf("there are only %d examples", tested)
	}
}

// checkObject checks the fields of an object.
func checkObject(t *testing.T, file string, o *unstructured.Unstructured) {
	t.Helper()
	if r := lint.Object(o); len(r.Errors)+len(r.Warnings) > 0 {
		t.Errorf("%s: %s: %v %v", file, o.GetKind(), r.Errors, r.Warnings)
	}
	if newObject := builtIn[o.GetKind()]; newObject != nil {
		data, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(newObject()); err != nil {
			t.Errorf("%s: %s: %v", file, o.GetKind(), err)
		}
	}
}

// createStrictly creates an object as kubectl does, which refuses unknown fields.
func createStrictly(t *testing.T, client dynamic.Interface, gvr schema.GroupVersionResource, namespace string, o *unstructured.Unstructured) {
	t.Helper()
	var at dynamic.ResourceInterface = client.Resource(gvr)
	if o.GetKind() == "Rollout" {
		at = client.Resource(gvr).Namespace(namespace)
	}
	if _, err := at.Create(t.Context(), o, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
		t.Errorf("%s: %s %s: %v", namespace, o.GetKind(), o.GetName(), err)
	}
}

// checkReferences checks that a Rollout names objects of its file.
func checkReferences(t *testing.T, file string, rollout *unstructured.Unstructured, objects []*unstructured.Unstructured) {
	t.Helper()
	there := map[string]bool{}
	for _, o := range objects {
		there[o.GetKind()+"/"+o.GetName()] = true
	}
	for _, name := range referenced(rollout.Object["spec"]) {
		if !there[name] {
			t.Errorf("%s: the Rollout names %s, which is not in the file", file, name)
		}
	}
}

// referenced returns the kinds and names of all objects that a part of a spec refers to.
func referenced(value any) []string {
	var all []string
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			all = append(all, referenced(item)...)
		}
	case map[string]any:
		kind, hasKind := v["kind"].(string)
		name, hasName := v["name"].(string)
		if hasKind && hasName {
			all = append(all, kind+"/"+name)
		}
		if service, ok := v["service"].(string); ok {
			all = append(all, "Service/"+service)
		}
		if ingress, ok := v["ingress"].(map[string]any); ok {
			name, _ := ingress["name"].(string)
			all = append(all, "Ingress/"+name)
		}
		if route, ok := v["httpRouteName"].(string); ok {
			all = append(all, "HTTPRoute/"+route)
		}
		for _, child := range v {
			all = append(all, referenced(child)...)
		}
	}
	return all
}

// quoted matches a part of an example on a page.
var quoted = regexp.MustCompile("(?s)<!-- example: ([a-z-]+\\.yaml) -->\n\n```yaml\n(.*?)```")

// The parts of examples on examples.md are those of the files.
func TestQuotedExamples(t *testing.T) {
	t.Parallel()
	parts := quoted.FindAllStringSubmatch(readPage(t, "examples.md"), -1)
	if len(parts) < 5 {
		t.Fatalf("examples.md has %d parts of examples: the test does not find them", len(parts))
	}
	for _, part := range parts {
		data, err := os.ReadFile(examples + part[1])
		if err != nil {
			t.Fatal(err)
		}
		unindented := func(text string) string {
			var lines []string
			for line := range strings.Lines(text) {
				lines = append(lines, strings.TrimSpace(line))
			}
			return strings.Join(lines, "\n")
		}
		if !strings.Contains(unindented(string(data)), strings.TrimSpace(unindented(part[2]))) {
			t.Errorf("%s does not have this part, which is on examples.md:\n%s", part[1], part[2])
		}
	}
}

// Manifests on pages are YAML, and those of Weir are valid.
func TestManifestsOfPages(t *testing.T) {
	t.Parallel()
	block := regexp.MustCompile("(?s)\n```yaml\n(.*?)\n```")
	for _, name := range []string{"../README.md", "ci.md", "gitops.md", "from-argo-rollouts.md", "from-flagger.md", "tutorial.md", "analysis.md"} {
		for _, found := range block.FindAllStringSubmatch(readPage(t, name), -1) {
			for document := range strings.SplitSeq(found[1], "---\n") {
				var value any
				if err := yaml.Unmarshal([]byte(document), &value); err != nil {
					t.Errorf("%s: %v:\n%s", name, err, document)
				}
				object, ok := value.(map[string]any)
				if !ok || object["kind"] == nil {
					continue // a part of a manifest
				}
				if r := lint.Object(&unstructured.Unstructured{Object: object}); len(r.Errors) > 0 {
					t.Errorf("%s: %v:\n%s", name, r.Errors, document)
				}
			}
		}
	}
}

// readObjects reads the objects of a file.
func readObjects(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		o := &unstructured.Unstructured{}
		switch err := decoder.Decode(&o.Object); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, o)
	}
}
