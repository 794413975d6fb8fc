// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:embed testdata/*.yaml
var testdata embed.FS

const group = "rollouts.kruise.io"

// file is a file of testdata. It has the cases of one kind in one version.
type file struct {
	Version  string `json:"version"`
	Resource string `json:"resource"`
	Kind     string `json:"kind"`
	// Base has the fields that the objects of the cases share.
	Base  map[string]any `json:"base"`
	Cases []testCase     `json:"cases"`
}

// testCase is a sequence of requests about one object. Each case has a namespace of its own.
type testCase struct {
	Name string `json:"name"`
	// Do are the requests. Each has one key, VERB [SUBRESOURCE] [?QUERY], whose value is the body.
	//
	//	create                   POST of the body merged into the base
	//	post, text               POST of the body alone, or of YAML
	//	get, list, table         GET; table asks for the columns of kubectl get
	//	put                      PUT of the body merged into the stored object
	//	merge, json, strategic   PATCH of this type
	//	apply                    server-side apply of the body merged into the base
	//	sparse                   server-side apply of the body alone, by another manager
	//	delete                   DELETE
	Do []map[string]any `json:"do"`

	file
	from string
}

func (c *testCase) name() string { return c.from + "/" + c.Name }

// loadCases reads the cases of testdata, and makes further cases of a directory of manifests.
func loadCases(corpus string) ([]testCase, error) {
	var all []testCase
	names, err := fs.Glob(testdata, "testdata/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("listing the cases: %w", err)
	}
	for _, name := range names {
		data, err := testdata.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading the cases: %w", err)
		}
		var f file
		if err := yaml.UnmarshalStrict(data, &f); err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		for _, c := range f.Cases {
			c.file, c.from = f, strings.TrimSuffix(filepath.Base(name), ".yaml")
			c.Cases = nil
			all = append(all, c)
		}
	}
	if corpus == "" {
		return all, nil
	}
	more, err := fromCorpus(corpus)
	return append(all, more...), err
}

// resources are the resources of the kinds.
var resources = map[string]string{
	"Rollout": "rollouts", "BatchRelease": "batchreleases", "TrafficRouting": "trafficroutings", "RolloutHistory": "rollouthistories",
}

// fromCorpus makes a case of each object of the group in a directory. The case creates the object,
// reads it, writes it back unchanged, and applies it.
func fromCorpus(dir string) ([]testCase, error) {
	var cases []testCase
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("listing manifests: %w", err)
	}
	for _, path := range paths {
		objects, err := readObjects(path)
		if err != nil {
			return nil, err
		}
		for i, object := range objects {
			apiVersion, _ := object["apiVersion"].(string)
			version, inGroup := strings.CutPrefix(apiVersion, group+"/")
			kind, _ := object["kind"].(string)
			if !inGroup {
				continue
			}
			if metadata, ok := object["metadata"].(map[string]any); ok {
				delete(metadata, "namespace")
			}
			cases = append(cases, testCase{
				Name: fmt.Sprintf("%s %d", strings.TrimSuffix(filepath.Base(path), ".yaml"), i), from: "corpus",
				file: file{Version: version, Resource: resources[kind], Kind: kind},
				Do:   []map[string]any{{"post": object}, {"get": nil}, {"put": map[string]any{}}, {"sparse ?force=true": object}, {"get": nil}},
			})
		}
	}
	return cases, nil
}

// readObjects reads the objects of a file of YAML documents.
func readObjects(path string) ([]map[string]any, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading manifests: %w", err)
	}
	var objects []map[string]any
	for document := range bytes.SplitSeq(append([]byte("\n"), data...), []byte("\n---")) {
		var object map[string]any
		if err := yaml.Unmarshal(document, &object); err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		if len(object) > 0 {
			objects = append(objects, object)
		}
	}
	return objects, nil
}

// complete adds the fields that every object needs and that cases omit.
func (c *testCase) complete(object map[string]any) map[string]any {
	out := merged(map[string]any{
		"apiVersion": group + "/" + c.Version, "kind": c.Kind, "metadata": map[string]any{"name": "web"},
	}, object, true)
	if metadata, ok := out["metadata"].(map[string]any); ok && metadata["generateName"] != nil {
		delete(metadata, "name")
	}
	return out
}

// merged returns base with the patch merged into it. A null of the patch removes a key, unless
// keepNulls makes it a value.
func merged(base, patch map[string]any, keepNulls bool) map[string]any {
	out := maps.Clone(base)
	if out == nil {
		out = map[string]any{}
	}
	for key, value := range patch {
		child, both := out[key].(map[string]any)
		if next, ok := value.(map[string]any); ok && (both || !keepNulls) {
			out[key] = merged(child, next, keepNulls)
			continue
		}
		if value == nil && !keepNulls {
			delete(out, key)
			continue
		}
		out[key] = value
	}
	return out
}
