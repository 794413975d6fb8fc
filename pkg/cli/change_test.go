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

// An image is set only where the container still is.
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

// These names are valid or invalid for container runtimes.
func TestCheckImages(t *testing.T) {
	t.Parallel()
	digest := "@sha256:" + strings.Repeat("ab", 32)
	for name, ok := range map[string]bool{
		"web": true, "web:v1": true, "shop/web:v1.2_3-x": true, "registry.example.com/shop/web": true, "registry.example.com:5000/web:v1": true,
		"localhost:5000/a__b/c-d:v1": true, "web" + digest: true, "web:v1" + digest: true, "Registry.example.com/web": true,
		"": false, "UPPER": false, "web:": false, "web:v1:v2": false, ":::": false, "web@v1": false, "/web": false, "web v1": false, "http://example.com/web": false, "shop/Web": false,
	} {
		if err := checkImages(map[string]string{"app": name}); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}
