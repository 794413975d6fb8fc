// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/weir-rollouts/weir/internal/golden"
	"github.com/weir-rollouts/weir/pkg/lint"
)

func manifests(t *testing.T, data []byte) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for document := range bytes.SplitSeq(data, []byte("---\n")) {
		raw, err := utilyaml.ToJSON(document)
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal(raw, &u.Object); err != nil {
			t.Fatal(err)
		}
		if u.Object != nil {
			all = append(all, u)
		}
	}
	return all
}

// These are realistic manifests and their conversions. The result is valid, or comments describe what is
// invalid.
func TestAll(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Render(Manifests(manifests(t, data)))
		if err != nil {
			t.Fatal(err)
		}
		golden.File(t, strings.Replace(filepath.Base(file), ".in.", ".out.", 1), string(got))
		for _, u := range manifests(t, got) {
			for _, e := range lint.Object(u).Errors {
				if !bytes.Contains(got, []byte("# refused: "+e)) {
					t.Errorf("%s: %s %s is refused, and no comment says so: %s", file, u.GetKind(), u.GetName(), e)
				}
			}
		}
	}
}

// Each field of a source is converted, or a note mentions it.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, u := range manifests(t, data) {
			spec, ok := u.Object["spec"].(map[string]any)
			if !ok {
				t.Fatalf("%s has no spec", file)
			}
			for n, path := range places("spec", spec) {
				changed := manifests(t, data)
				strange := fmt.Sprintf("strange%d", n)
				in(changed[i].Object, path)[strange] = "kept"
				got, err := Render(Manifests(changed))
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Contains(got, []byte(strange)) {
					t.Errorf("%s: a field %s.%s of %s is lost", file, strings.ReplaceAll(path, "\n", "."), strange, u.GetName())
				}
			}
		}
	}
}

// places returns the objects of a manifest, including those in lists.
func places(path string, value any) []string {
	var all []string
	switch v := value.(type) {
	case map[string]any:
		all = append(all, path)
		for _, key := range slices.Sorted(maps.Keys(v)) {
			all = append(all, places(path+"\n"+key, v[key])...)
		}
	case []any:
		for i := range v {
			all = append(all, places(path+"\n"+strconv.Itoa(i), v[i])...)
		}
	}
	return all
}

// in returns the object at a place.
func in(object map[string]any, path string) map[string]any {
	var at any = object
	for key := range strings.SplitSeq(path, "\n") {
		if list, ok := at.([]any); ok {
			n, _ := strconv.Atoi(key) // as places has written it
			at = list[n]
		} else {
			at = at.(map[string]any)[key]
		}
	}
	return at.(map[string]any)
}

func FuzzAll(f *testing.F) {
	files, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		raw, err := utilyaml.ToJSON(data)
		u := &unstructured.Unstructured{}
		if err != nil || json.Unmarshal(raw, &u.Object) != nil || u.Object == nil {
			return
		}
		if _, err := Render(Manifests([]*unstructured.Unstructured{u})); err != nil {
			t.Error(err)
		}
	})
}
