// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && clients

package e2e

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	weir "github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
	"github.com/weir-rollouts/weir/test/cluster"
)

// runHelm renders the chart, and returns what it prints to standard output and to standard error.
func runHelm(t *testing.T, flags ...string) (out, message bytes.Buffer, err error) {
	t.Helper()
	args := append([]string{"template", "weir", filepath.Join("..", "..", "charts", "weir"), "--kube-version=1.37.1"}, flags...)
	cmd := exec.CommandContext(t.Context(), externalClientFile("helm"), args...)
	cmd.Stdout, cmd.Stderr = &out, &message
	err = cmd.Run()
	return out, message, err
}

// renderChart renders the chart and parses the objects.
func renderChart(t *testing.T, flags ...string) []*unstructured.Unstructured {
	t.Helper()
	out, message, err := runHelm(t, flags...)
	if err != nil {
		t.Fatalf("helm template %s: %v\n%s", strings.Join(flags, " "), err, message.String())
	}
	objects, err := cluster.Decode(&out)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// TestChartRefusesUnknownValues checks that unknown values and misspelled keys are refused.
// Otherwise, such a value could render no server and no volume, and an upgrade would delete those
// of the installation.
func TestChartRefusesUnknownValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ flag, want string }{
		{"--set=storage=vol", `storage is "vol"; set volume, etcd or external`},
		{"--set=storage=Volume", `storage is "Volume"; set volume, etcd or external`},
		{"--set=storage=", `storage is ""; set volume, etcd or external`},
		{"--set=storage=null", "storage"},
		{"--set=storge=etcd", "storge"},
		{"--set-string=oneProcess=true", "/oneProcess"},
		{"--set=oneProcess=yes", "/oneProcess"},
		{"--set-string=policies=false", "/policies"},
		{"--set=policies=null", "policies"},
		{"--set-string=installation.createNamespace=false", "/installation/createNamespace"},
		{"--set=installation.namespace=", "/installation/namespace"},
		{"--set=etcd.server=https://etcd.example:2379", "server"},
		{"--set=image.pullPolicy=Sometimes", "/image/pullPolicy"},
		{"--set=resources.limit.memory=1Gi", "limit"},
		{"--set=service.port=api", "/service/port"},
		{"--set=rollout.log.level=all", "/rollout/log/level"},
	} {
		t.Run(c.flag, func(t *testing.T) {
			t.Parallel()
			out, message, err := runHelm(t, c.flag)
			if err == nil {
				t.Fatalf("helm template %s renders\n%s", c.flag, out.String())
			}
			if !strings.Contains(message.String(), c.want) {
				t.Errorf("the message does not contain %q:\n%s", c.want, message.String())
			}
		})
	}
	_, message, err := runHelm(t, "--skip-schema-validation", "--set-string=oneProcess=true")
	if want := `oneProcess is "true"; set true or false`; err == nil || !strings.Contains(message.String(), want) {
		t.Errorf("without the schema: error %v, want %q:\n%s", err, want, message.String())
	}
}

// TestChartKeepsData checks that Helm keeps objects with data when a value changes or the release
// is uninstalled: the volume, and the namespaces, because deleting them deletes the volume.
func TestChartKeepsData(t *testing.T) {
	t.Parallel()
	for _, storage := range []string{"volume", "etcd"} {
		for _, o := range renderChart(t, "--set=storage="+storage) {
			kept := o.GetAnnotations()["helm.sh/resource-policy"] == "keep"
			if want := o.GetKind() == "PersistentVolumeClaim" || o.GetKind() == "Namespace"; kept != want {
				t.Errorf("storage=%s: Helm keeps %s %s: %t, want %t", storage, o.GetKind(), o.GetName(), kept, want)
			}
		}
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
	objects := renderChart(t, "--values="+filepath.Join("testdata", "chart-values.yaml"))
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
