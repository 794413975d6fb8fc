// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/yannh/kubeconform/pkg/validator"
	"sigs.k8s.io/yaml"
)

// schemas is where make packaging writes the schemas.
var schemas = filepath.Join("..", "..", "bin", "schemas")

// kubeconform returns a validator that reads schemas as those of datreeio/CRDs-catalog.
func kubeconform(t *testing.T) validator.Validator {
	t.Helper()
	v, err := validator.New([]string{filepath.Join(schemas, "{{.Group}}", "{{.ResourceKind}}_{{.ResourceAPIVersion}}.json")}, validator.Opts{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// isOurs reports whether a manifest is of a group of Weir.
func isOurs(manifest map[string]any) bool {
	group, _, _ := strings.Cut(fmt.Sprint(manifest["apiVersion"]), "/")
	return group == "rollouts.kruise.io" || group == "weir-rollouts.io"
}

// readManifests returns the objects of Weir in a file of YAML documents.
func readManifests(t *testing.T, file string) []map[string]any {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var ours []map[string]any
	for document := range bytes.SplitSeq(append([]byte("\n"), data...), []byte("\n---")) {
		var manifest map[string]any
		if err := yaml.Unmarshal(document, &manifest); err != nil {
			t.Fatalf("reading %s: %v", file, err)
		}
		if isOurs(manifest) {
			ours = append(ours, manifest)
		}
	}
	return ours
}

// check returns the error of a manifest, or nil if its schema accepts it.
func check(t *testing.T, v validator.Validator, manifest map[string]any) error {
	t.Helper()
	data, err := yaml.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	results := v.Validate("manifest", io.NopCloser(bytes.NewReader(data)))
	if len(results) != 1 {
		t.Fatalf("a manifest has %d results", len(results))
	}
	if results[0].Status == validator.Valid {
		return nil
	}
	return fmt.Errorf("%v", results[0].Err)
}

func TestSchemaFiles(t *testing.T) {
	t.Parallel()
	var got []string
	for file := range readFiles(t, schemas) {
		got = append(got, file)
	}
	slices.Sort(got)
	want := []string{
		"/rollouts.kruise.io/batchrelease_v1alpha1.json", "/rollouts.kruise.io/batchrelease_v1beta1.json",
		"/rollouts.kruise.io/rollout_v1alpha1.json", "/rollouts.kruise.io/rollout_v1beta1.json",
		"/rollouts.kruise.io/rollouthistory_v1alpha1.json",
		"/rollouts.kruise.io/trafficrouting_v1alpha1.json",
		"/weir-rollouts.io/check_v1alpha1.json", "/weir-rollouts.io/clustercheck_v1alpha1.json", "/weir-rollouts.io/metricsource_v1alpha1.json",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the schemas are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestExamples checks that schemas accept all examples, and refuse each of them once an object in it has a
// field that the server does not know.
func TestExamples(t *testing.T) {
	t.Parallel()
	v := kubeconform(t)
	files, err := filepath.Glob(filepath.Join("..", "..", "artifacts", "examples", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	manifests, places := 0, 0
	for _, file := range files {
		for _, manifest := range readManifests(t, file) {
			manifests++
			if err := check(t, v, manifest); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			visitObjects(manifest, "", func(path string, object map[string]any) {
				if slices.ContainsFunc(freeObjects, func(suffix string) bool { return strings.HasSuffix(path, suffix) }) {
					return
				}
				places++
				object["unknown"] = "value"
				if check(t, v, manifest) == nil {
					t.Errorf("%s: a field in %s that does not exist is accepted", file, path)
				}
				delete(object, "unknown")
			})
		}
	}
	if manifests < 10 || places < 50 {
		t.Errorf("only %d manifests with %d objects were checked", manifests, places)
	}
}

// freeObjects are the fields whose keys the user chooses.
var freeObjects = []string{".labels", ".annotations", ".matchLabels", ".args"}

// visitObjects visits all objects in a value, with their paths.
func visitObjects(value any, path string, visit func(path string, object map[string]any)) {
	switch value := value.(type) {
	case map[string]any:
		for _, field := range slices.Sorted(maps.Keys(value)) {
			visitObjects(value[field], path+"."+field, visit)
		}
		visit(path, value)
	case []any:
		for i, entry := range value {
			visitObjects(entry, fmt.Sprintf("%s[%d]", path, i), visit)
		}
	}
}

// TestManifestsOfLint compares the schemas with kubectl weir lint. Schemas refuse fields and types that
// the server refuses. They accept values that only a rule of the server refuses.
func TestManifestsOfLint(t *testing.T) {
	t.Parallel()
	v := kubeconform(t)
	want := map[string]string{
		"good": "", "traffic-without-a-route": "", "a-share-that-few-pods-serve": "",
		"a-value-of-another-type":     "/spec/strategy/canary/steps/0/pause/duration",
		"a-field-that-is-not-there":   "stepz",
		"a-version-that-is-not-there": "could not find schema",
		"the-older-version":           "",
		"a-wrong-value":               "",
		"a-check":                     "",
		"a-source":                    "",
	}
	files, err := filepath.Glob(filepath.Join("..", "..", "pkg", "lint", "testdata", "*.yaml"))
	if err != nil || len(files) != len(want) {
		t.Fatalf("found %d manifests, want %d; error %v", len(files), len(want), err)
	}
	for _, file := range files {
		want, known := want[strings.TrimSuffix(filepath.Base(file), ".yaml")]
		err := check(t, v, readManifests(t, file)[0])
		if !known || (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want %q", file, err, want)
		}
	}
}

// TestComparedManifests checks the manifests that hack/oracle compares with OpenKruise: schemas accept the
// manifest that each case changes, and refuse an unknown field.
func TestComparedManifests(t *testing.T) {
	t.Parallel()
	v := kubeconform(t)
	files, err := filepath.Glob(filepath.Join("..", "oracle", "testdata", "*.yaml"))
	if err != nil || len(files) < 6 {
		t.Fatalf("found %d files, error %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var cases struct {
			Version, Kind string
			Base          map[string]any
		}
		if err := yaml.Unmarshal(data, &cases); err != nil {
			t.Fatal(err)
		}
		manifest := cases.Base
		manifest["apiVersion"], manifest["kind"] = "rollouts.kruise.io/"+cases.Version, cases.Kind
		metadata, _ := manifest["metadata"].(map[string]any)
		if metadata == nil {
			metadata = map[string]any{}
		}
		metadata["name"] = "web"
		manifest["metadata"] = metadata
		if err := check(t, v, manifest); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		manifest["spec"].(map[string]any)["foo"] = "bar"
		if check(t, v, manifest) == nil {
			t.Errorf("%s: an unknown field in spec is accepted", file)
		}
	}
}

// TestStoredObjects checks that schemas accept what the server stored, with the whole status, in each
// version of Weir.
func TestStoredObjects(t *testing.T) {
	t.Parallel()
	v := kubeconform(t)
	objects := 0
	for file, content := range readFiles(t, filepath.Join("..", "..", "pkg", "apiserver", "testdata", "stored")) {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(content), &object); err != nil {
			t.Fatalf("reading %s: %v", file, err)
		}
		if !isOurs(object) {
			continue
		}
		objects++
		if err := check(t, v, object); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	if objects < 20 {
		t.Errorf("only %d objects were checked", objects)
	}
}
