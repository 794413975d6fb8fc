// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec:
      initContainers:
      - {name: setup, image: "setup:v1"}
      containers:
      - {name: sidecar, image: "proxy:v1"}
      - {name: app, image: "web:v7"}
`

func parsed(t *testing.T, text string) map[string]any {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// An image is set where its container is, or nowhere.
func TestSetImages(t *testing.T) {
	t.Parallel()
	workload := &unstructured.Unstructured{Object: parsed(t, deployment)}
	e, err := setImages(workload, map[string]string{"app": "web:v8"})
	want := `[{"op":"test","path":"/spec/template/spec/containers/1/name","value":"app"},` +
		`{"op":"add","path":"/spec/template/spec/containers/1/image","value":"web:v8"}]`
	if err != nil || string(e.patch) != want {
		t.Errorf("the patch is %s (%v), want %s", e.patch, err, want)
	}
	if _, err := setImages(workload, map[string]string{"ap": "web:v8"}); err == nil || !strings.Contains(err.Error(), "it has sidecar, app, setup") {
		t.Errorf("a container that is not there: %v", err)
	}
}
