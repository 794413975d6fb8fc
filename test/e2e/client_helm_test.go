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

// helm renders the chart.
func helm(t *testing.T, flags ...string) []*unstructured.Unstructured {
	t.Helper()
	args := append([]string{"template", "weir", filepath.Join("..", "..", "charts", "weir"), "--kube-version=1.37.1"}, flags...)
	var out, message bytes.Buffer
	cmd := exec.CommandContext(t.Context(), theirs("helm"), args...)
	cmd.Stdout, cmd.Stderr = &out, &message
	if err := cmd.Run(); err != nil {
		t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, message.String())
	}
	objects, err := cluster.Decode(&out)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// The chart installs what kubectl apply -k does.
func TestChartIsTheManifests(t *testing.T) {
	t.Parallel()
	values := map[string]string{"small-apart": "--set=replicaCount=1"}
	for _, i := range installations {
		t.Run(i.dir, func(t *testing.T) {
			t.Parallel()
			want, err := here.cluster.Render(t.Context(), i.dir)
			if err != nil {
				t.Fatal(err)
			}
			flags := []string{
				"--set=storage=" + i.storage, "--set=image.tag=latest", fmt.Sprintf("--set=oneProcess=%t", i.oneProcess),
				"--set=etcd.servers=https://etcd.example:2379",
			}
			if value := values[i.dir]; value != "" {
				flags = append(flags, value)
			}
			got := helm(t, flags...)
			for _, o := range got {
				withoutValues(t, o)
			}
			if diff := cmp.Diff(byName(want), byName(got)); diff != "" {
				t.Errorf("kustomize (-), helm (+):\n%s", diff)
			}
		})
	}
}

// withoutValues takes out what the chart always says and the manifests never do.
func withoutValues(t *testing.T, o *unstructured.Unstructured) {
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

// A file of values written for the chart of OpenKruise Rollouts installs Weir,
// in the namespace that it names.
func TestChartTakesTheirValues(t *testing.T) {
	t.Parallel()
	objects := helm(t, "--values="+filepath.Join("testdata", "chart-values.yaml"))
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
		for _, complaint := range complaints(t, o) {
			t.Errorf("%s %s: %s", o.GetKind(), o.GetName(), complaint)
		}
	}
	if found["Namespace kruise-rollout"] {
		t.Error("the namespace is made, though installation.createNamespace is false")
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
