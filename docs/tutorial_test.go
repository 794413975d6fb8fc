// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/weir-rollouts/weir/pkg/convert"
)

// created are the objects that the commands of the tutorial create, as far as init reads them.
const created = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec: {template: {metadata: {labels: {app: web}}}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec: {selector: {app: web}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, namespace: default}
spec:
  ingressClassName: nginx
  rules: [{http: {paths: [{backend: {service: {name: web}}}]}}]
`

// The Rollout on the page of the tutorial is the one that init writes.
func TestTutorial(t *testing.T) {
	t.Parallel()
	var objects []*unstructured.Unstructured
	for document := range strings.SplitSeq(created, "---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o)
	}
	rollout, err := convert.Render([]convert.Result{convert.ProposeRollout(objects[0], []string{"20%", "50%", "100%"}, objects)})
	if err != nil {
		t.Fatal(err)
	}
	want := "    " + strings.ReplaceAll(strings.TrimSpace(string(rollout)), "\n", "\n    ") + "\n"
	if !strings.Contains(readPage(t, "tutorial.md"), want) {
		t.Errorf("tutorial.md does not have what init writes:\n%s", want)
	}
}
