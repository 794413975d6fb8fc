// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
)

const crdPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// definition is a CRD of the group.
type definition map[string]any

func (d definition) name() string {
	name, _, _ := unstructured.NestedString(d, "metadata", "name")
	return name
}

func (d definition) plural() string {
	plural, _, _ := unstructured.NestedString(d, "spec", "names", "plural")
	return plural
}

// readCRDs reads the CRDs of the group; a directory may hold others.
func readCRDs(dir string) ([]definition, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("listing CRDs: %w", err)
	}
	var definitions []definition
	for _, path := range paths {
		objects, err := readObjects(path)
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			if g, _, _ := unstructured.NestedString(object, "spec", "group"); g == group && object["kind"] == "CustomResourceDefinition" {
				definitions = append(definitions, object)
			}
		}
	}
	if len(definitions) == 0 {
		return nil, fmt.Errorf("there is no CRD of %s in %s", group, dir)
	}
	return definitions, nil
}

// storing is the CRD made to store that version, if it has it, and to convert
// by changing no more than the name of the version.
func (d definition) storing(version string) (definition, []string, error) {
	out := definition(runtime.DeepCopyJSON(d))
	unstructured.RemoveNestedField(out, "spec", "conversion")
	unstructured.RemoveNestedField(out, "status")
	versions, _, err := unstructured.NestedSlice(out, "spec", "versions")
	if err != nil {
		return nil, nil, fmt.Errorf("reading the versions of %s: %w", d.name(), err)
	}
	var names []string
	for _, entry := range versions {
		name, _ := entry.(map[string]any)["name"].(string)
		names = append(names, name)
	}
	for i, entry := range versions {
		// A kind of one version stores that one.
		entry.(map[string]any)["storage"] = len(names) == 1 || names[i] == version
	}
	return out, names, unstructured.SetNestedSlice(out, versions, "spec", "versions")
}

// install replaces the CRDs by ones that store the version. Deleting them first
// is what makes sure that the new ones are in force.
func (s *server) install(ctx context.Context, definitions []definition, version string) error {
	for _, d := range definitions {
		if err := s.uninstall(ctx, d); err != nil {
			return fmt.Errorf("removing %s: %w", d.name(), err)
		}
		next, versions, err := d.storing(version)
		if err != nil {
			return err
		}
		if _, err := s.must(ctx, http.MethodPost, crdPath, next, http.StatusCreated); err != nil {
			return fmt.Errorf("installing %s: %w", d.name(), err)
		}
		for _, v := range versions {
			if err := s.poll(ctx, "/apis/"+group+"/"+v+"/"+d.plural(), http.StatusOK); err != nil {
				return fmt.Errorf("waiting for %s %s: %w", v, d.plural(), err)
			}
		}
	}
	return nil
}

func (s *server) uninstall(ctx context.Context, d definition) error {
	path := crdPath + "/" + d.name()
	a, err := s.must(ctx, http.MethodGet, path, nil, http.StatusOK, http.StatusNotFound)
	if err != nil || a.code == http.StatusNotFound {
		return err
	}
	if _, err := s.must(ctx, http.MethodDelete, path, nil, http.StatusOK); err != nil {
		return err
	}
	return s.poll(ctx, path, http.StatusNotFound)
}

// poll waits until the path answers with the code.
func (s *server) poll(ctx context.Context, path string, code int) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, last = s.must(ctx, http.MethodGet, path, nil, code)
		return last == nil, nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}
