// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"embed"
	"encoding/json"
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

// file is a file of cases about one kind.
type file struct {
	Version  string `json:"version"`
	Resource string `json:"resource"`
	Kind     string `json:"kind"`
	// Base is what the objects of the cases have in common.
	Base  map[string]any `json:"base"`
	Cases []testCase     `json:"cases"`
}

// testCase is a sequence of requests about one object, in a namespace of its own.
type testCase struct {
	Name string `json:"name"`
	// Do are the requests: one key each, which is
	//
	//	VERB [SUBRESOURCE] [?QUERY]
	//
	// and as its value the body. The verbs are create (the body is merged into
	// the base), post (as it is), text (YAML as it is), get, list, table, put
	// (the body is merged into what is stored), merge, json, strategic, apply
	// (the body is merged into the base), sparse (an apply as it is), delete.
	Do []map[string]any `json:"do"`

	file
	from string
}

func (c *testCase) name() string { return c.from + "/" + c.Name }

// load reads the cases of this program and makes more of a directory of manifests.
func load(corpus string) ([]testCase, error) {
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

// resources are the names of the kinds in paths.
var resources = map[string]string{
	"Rollout": "rollouts", "BatchRelease": "batchreleases", "TrafficRouting": "trafficroutings", "RolloutHistory": "rollouthistories",
}

// fromCorpus makes a case of each object of the group: it is created, read,
// written back as it is, and applied.
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
			version, ours := strings.CutPrefix(apiVersion, group+"/")
			kind, _ := object["kind"].(string)
			if !ours {
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

// complete fills in what every object needs and a case leaves out.
func (c *testCase) complete(object map[string]any) map[string]any {
	out := merged(map[string]any{
		"apiVersion": group + "/" + c.Version, "kind": c.Kind, "metadata": map[string]any{"name": "web"},
	}, object, true)
	if metadata, ok := out["metadata"].(map[string]any); ok && metadata["generateName"] != nil {
		delete(metadata, "name")
	}
	return out
}

// merged is base with the patch merged in. With nulls, a null is a value; else
// it takes a key away.
func merged(base, patch map[string]any, nulls bool) map[string]any {
	out := maps.Clone(base)
	if out == nil {
		out = map[string]any{}
	}
	for key, value := range patch {
		child, both := out[key].(map[string]any)
		if next, ok := value.(map[string]any); ok && (both || !nulls) {
			out[key] = merged(child, next, nulls)
			continue
		}
		if value == nil && !nulls {
			delete(out, key)
			continue
		}
		out[key] = value
	}
	return out
}

func encode(value any) ([]byte, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encoding a body: %w", err)
	}
	return data, nil
}
