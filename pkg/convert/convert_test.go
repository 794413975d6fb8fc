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

// Manifests as people have them, and what they become. What comes out is valid.
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
		got, err := Render(All(manifests(t, data)))
		if err != nil {
			t.Fatal(err)
		}
		golden.File(t, strings.Replace(filepath.Base(file), ".in.", ".out.", 1), string(got))
		for _, u := range manifests(t, got) {
			if r := lint.Object(u); len(r.Errors) > 0 {
				t.Errorf("%s: %s %s is refused: %s", file, u.GetKind(), u.GetName(), strings.Join(r.Errors, "; "))
			}
		}
	}
}

// Whatever field a source has, it is converted, or there is a note of it.
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
				at, _ := changed[i].Object["spec"].(map[string]any)
				strange := fmt.Sprintf("strange%d", n)
				for _, key := range path[1:] {
					at, _ = at[key].(map[string]any)
				}
				at[strange] = "kept"
				got, err := Render(All(changed))
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Contains(got, []byte(strange)) {
					t.Errorf("%s: a field %s.%s of %s is lost", file, strings.Join(path, "."), strange, u.GetName())
				}
			}
		}
	}
}

// places are the objects of a manifest, but for those in lists.
func places(path string, object map[string]any) [][]string {
	all := [][]string{strings.Split(path, "\n")}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if below, ok := object[key].(map[string]any); ok {
			all = append(all, places(path+"\n"+key, below)...)
		}
	}
	return all
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
		if _, err := Render(All([]*unstructured.Unstructured{u})); err != nil {
			t.Error(err)
		}
	})
}
