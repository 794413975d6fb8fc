// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && clients

package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	weir "github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
	"github.com/weir-rollouts/weir/test/helm"
)

// renderChart renders the chart and parses the objects.
func renderChart(t *testing.T, flags ...string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := helm.Render(t.Context(), flags...)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// TestChartApplies checks that a real kube-apiserver accepts what the chart renders for each file of
// values, as a dry run, and that the pods have no unsafe settings.
func TestChartApplies(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("..", "..", "charts", "testdata", "values", "*.yaml"))
	if err != nil || len(files) < 10 {
		t.Fatalf("found %d files of values, error %v", len(files), err)
	}
	for _, file := range append(files, filepath.Join("..", "..", "charts", "testdata", "0.1.0", "values.yaml")) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			t.Parallel()
			objects := renderChart(t, "--values="+file, "--set=installation.namespace=weir-system")
			for _, o := range objects {
				for _, complaint := range securityProblems(t, o) {
					t.Errorf("%s %s: %s", o.GetKind(), o.GetName(), complaint)
				}
			}
			// The cluster of the tests has no kinds of cert-manager and the Prometheus Operator.
			known := slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool {
				return slices.Contains([]string{"Certificate", "Issuer", "ServiceMonitor"}, o.GetKind())
			})
			if err := testEnv.cluster.Check(t.Context(), known); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestChartMatchesManifests checks that the chart installs the same objects as kubectl apply -k.
func TestChartMatchesManifests(t *testing.T) {
	t.Parallel()
	for _, i := range installations {
		t.Run(i.dir, func(t *testing.T) {
			t.Parallel()
			want, err := testEnv.cluster.Render(t.Context(), i.dir)
			if err != nil {
				t.Fatal(err)
			}
			flags := []string{
				"--set=storage=" + i.storage, "--set=image.tag=latest", fmt.Sprintf("--set=oneProcess=%t", i.oneProcess),
				"--set=etcd.servers=https://etcd.example:2379",
			}
			got := renderChart(t, flags...)
			for _, o := range got {
				removeChartDifferences(t, o)
			}
			if diff := cmp.Diff(byName(want), byName(got)); diff != "" {
				t.Errorf("kustomize (-), helm (+):\n%s", diff)
			}
		})
	}
}

// removeChartDifferences removes fields that the chart always sets and the manifests never set.
func removeChartDifferences(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	containers, found, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
	if err != nil {
		t.Fatal(err)
	}
	if !found {
		return
	}
	for _, entry := range containers {
		c := entry.(map[string]any)
		delete(c, "imagePullPolicy")
		c["image"] = strings.TrimSuffix(c["image"].(string), ":latest")
		c["args"] = slices.DeleteFunc(c["args"].([]any), func(arg any) bool { return arg == "--v=0" })
	}
	if err := unstructured.SetNestedSlice(o.Object, containers, "spec", "template", "spec", "containers"); err != nil {
		t.Fatal(err)
	}
}

func byName(objects []*unstructured.Unstructured) map[string]any {
	all := map[string]any{}
	for _, o := range objects {
		all[o.GetKind()+" "+o.GetName()] = o.Object
	}
	return all
}

// TestChartAcceptsOpenKruiseValues checks that a values file for the chart of OpenKruise Rollouts
// installs Weir in the namespace that the file names.
func TestChartAcceptsOpenKruiseValues(t *testing.T) {
	t.Parallel()
	objects := renderChart(t, "--values="+filepath.Join("..", "..", "charts", "testdata", "values", "openkruise.yaml"))
	found := map[string]bool{}
	for _, o := range objects {
		found[o.GetKind()+" "+o.GetName()] = true
		if ns := o.GetNamespace(); ns != "" && ns != "kruise-rollout" && ns != "kube-system" && ns != weir.SecretNamespace {
			t.Errorf("%s %s is in namespace %s", o.GetKind(), o.GetName(), ns)
		}
		data, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), "weir-system") {
			t.Errorf("%s %s names weir-system:\n%s", o.GetKind(), o.GetName(), data)
		}
		for _, complaint := range securityProblems(t, o) {
			t.Errorf("%s %s: %s", o.GetKind(), o.GetName(), complaint)
		}
	}
	if found["Namespace kruise-rollout"] {
		t.Error("the namespace is rendered, although installation.createNamespace is false")
	}
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "Deployment" && o.GetName() == "weir-apiserver"
	})
	pod := podOf(t, objects[i])
	if got, want := pod.Containers[0].Image, "mirror.example/weir:v9"; got != want {
		t.Errorf("the image is %s, want %s", got, want)
	}
	if got := pod.Containers[0].Resources.Limits.Memory().String(); got != "2Gi" {
		t.Errorf("the limit of memory is %s, want 2Gi", got)
	}
	if !slices.Contains(pod.Containers[0].Args, "--v=4") {
		t.Errorf("the log level is not 4: %q", pod.Containers[0].Args)
	}
	if len(pod.Tolerations) != 1 || len(pod.ImagePullSecrets) != 1 {
		t.Errorf("tolerations %v, pull secrets %v; want one of each", pod.Tolerations, pod.ImagePullSecrets)
	}
}
