// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build clients

// Package charts tests what the chart renders. make chart runs it; no test needs a cluster. The
// end-to-end tests apply the same renderings to a real control plane.
package charts

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/weir-rollouts/weir/internal/golden"
	"github.com/weir-rollouts/weir/test/helm"
)

// valueFiles are the files for which the renderings are recorded.
func valueFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "values", "*.yaml"))
	if err != nil || len(files) < 10 {
		t.Fatalf("found %d files of values, error %v", len(files), err)
	}
	return files
}

func render(t *testing.T, flags ...string) map[string]*unstructured.Unstructured {
	t.Helper()
	objects, err := helm.Render(t.Context(), flags...)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		name := o.GetKind() + " " + o.GetName()
		if byName[name] != nil {
			t.Errorf("%s is rendered twice", name)
		}
		byName[name] = o
	}
	return byName
}

// TestLint checks that helm lint has no complaint for any file of values.
func TestLint(t *testing.T) {
	t.Parallel()
	for _, file := range append(valueFiles(t), filepath.Join("testdata", "0.1.0", "values.yaml")) {
		out, err := helm.Run(t.Context(), "lint", "--strict", "--kube-version=1.37.1", "--values="+file, helm.Chart())
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		for line := range strings.Lines(string(out)) {
			if strings.HasPrefix(line, "[") && !strings.Contains(line, "icon is recommended") {
				t.Errorf("%s: %s", file, line)
			}
		}
	}
}

// TestRenderings compares the rendering for each file of values with a golden file. The default is
// recorded in full; for the other files, the difference from it is recorded.
func TestRenderings(t *testing.T) {
	t.Parallel()
	byDefault := render(t)
	for _, file := range valueFiles(t) {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := render(t, "--values="+file)
			if name == "default" {
				golden.File(t, "default.golden", changes(t, nil, got))
				return
			}
			golden.File(t, name+".golden", changes(t, byDefault, got))
		})
	}
}

// changes returns the changes that lead from some objects to others, in the order of their names.
func changes(t *testing.T, from, to map[string]*unstructured.Unstructured) string {
	t.Helper()
	all := maps.Clone(to)
	maps.Copy(all, from)
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch before, now := from[name], to[name]; {
		case before == nil:
			fmt.Fprintf(&out, "# added: %s\n%s", name, golden.Text(t, now))
		case now == nil:
			fmt.Fprintf(&out, "# removed: %s\n", name)
		default:
			if diff := golden.Diff(golden.Text(t, before), golden.Text(t, now)); diff != "" {
				fmt.Fprintf(&out, "# changed: %s\n%s", name, diff)
			}
		}
	}
	return out.String()
}

// TestValuesOfFirstVersion checks an upgrade from 0.1.0: a file with all values of that version renders
// the same as no file, apart from the resources, which it sets. Fields that Kubernetes does not let
// an upgrade change are those that 0.1.0 rendered.
func TestValuesOfFirstVersion(t *testing.T) {
	t.Parallel()
	file := filepath.Join("testdata", "0.1.0", "values.yaml")
	if diff := cmp.Diff(render(t, "--set=resources.limits.memory=1Gi,resources.requests.cpu=100m,resources.requests.memory=256Mi"),
		render(t, "--values="+file)); diff != "" {
		t.Errorf("no file (-), file of 0.1.0 (+):\n%s", diff)
	}

	data, err := os.ReadFile(filepath.Join("testdata", "0.1.0", "immutable.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var storages map[string]map[string]map[string]any
	if err := yaml.Unmarshal(data, &storages); err != nil {
		t.Fatal(err)
	}
	for storage, objects := range storages {
		got := render(t, "--values="+file, "--set=storage="+storage, "--set=etcd.servers=https://etcd.example:2379")
		found := 0
		for name, immutable := range objects {
			o := got[name]
			if o == nil {
				continue // an upgrade may delete objects
			}
			found++
			for field, want := range immutable {
				if diff := cmp.Diff(normalized(t, want), keep(want, normalized(t, o.Object[field]))); diff != "" {
					t.Errorf("storage=%s: %s of %s cannot be upgraded (-0.1.0, +now):\n%s", storage, field, name, diff)
				}
			}
		}
		if found < 4 {
			t.Errorf("storage=%s: only %d objects of 0.1.0 are left", storage, found)
		}
	}
}

// keep returns the fields of got that want has, too. Other fields of a spec may change.
func keep(want, got any) any {
	wanted, ok := want.(map[string]any)
	if !ok {
		return got
	}
	fields, _ := got.(map[string]any)
	kept := map[string]any{}
	for field := range wanted {
		if value, found := fields[field]; found {
			kept[field] = value
		}
	}
	return kept
}

func normalized(t *testing.T, value any) any {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRefusedValues checks that unknown values, misspelled keys and values that contradict each other
// are refused. Otherwise, such a value could render no server and no volume, and an upgrade would
// delete those of the installation.
func TestRefusedValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ flags, want string }{
		{"--set=storage=vol", `storage is "vol"; set volume, etcd or external`},
		{"--set=storage=Volume", `storage is "Volume"; set volume, etcd or external`},
		{"--set=storage=", `storage is ""; set volume, etcd or external`},
		{"--set=storage=null", "the value storage is missing"},
		{"--set=storge=etcd", "storge"},
		{"--set-string=oneProcess=true", "/oneProcess"},
		{"--skip-schema-validation --set-string=oneProcess=true", `oneProcess is "true"; set true or false`},
		{"--set=oneProcess=yes", "/oneProcess"},
		{"--set-string=policies=false", "/policies"},
		{"--set=policies=null", "the value policies is missing"},
		{"--set-string=installation.createNamespace=false", "/installation/createNamespace"},
		{"--set=installation.namespace=", "/installation/namespace"},
		{"--set=etcd.server=https://etcd.example:2379", "server"},
		{"--set=storage=external", "etcd.servers must name your etcd"},
		{"--set=etcd.existingSecret=mine", "etcd.existingSecret is for storage=external"},
		{"--set=image.pullPolicy=Sometimes", "/image/pullPolicy"},
		{"--set=image.digest=latest", "/image/digest"},
		{"--set=image.repository=weir@sha256:0", "/image/repository"},
		{"--set=imagePullSecrets={mirror}", "/imagePullSecrets/0"},
		{"--set=resources.limit.memory=1Gi", "limit"},
		{"--set=readinessProbe.httpGet.path=/", "httpGet"},
		{"--set=readinessProbe.periodSeconds=0", "/readinessProbe/periodSeconds"},
		{"--set=podLabels.app\\.kubernetes\\.io/name=mine", "app.kubernetes.io/name"},
		{"--set=extraArgs={v=4}", "/extraArgs/0"},
		{"--set=extraArgs=--v=4", "/extraArgs"},
		{"--set=controller.extraArgs={--concurrency=2}", "the controllers run in weir-apiserver: set extraArgs"},
		{"--set=persistence.size=plenty", "/persistence/size"},
		{"--set=nameOverride=releases", `nameOverride is "releases"; leave it empty`},
		{"--set=fullnameOverride=releases", `fullnameOverride is "releases"; leave it empty`},
		{"--set=serviceAccount.name=releases", `serviceAccount.name is "releases"; leave it empty`},
		{"--set=tls.existingSecret=mine", "tls.existingSecret needs tls.caBundle"},
		{"--set=tls.annotations.a=b", "set tls.existingSecret too"},
		{"--set=tls.existingSecret=mine,tls.annotations.a=b,certManager.enabled=true", "set one of them"},
		{"--set=tls.existingSecret=mine,tls.caBundle=LS0tLS1CRUdJTg==", "/tls/caBundle"},
		{"--set=networkPolicy.from[0].cidr=10.0.0.0/8", "cidr"},
		{"--set=serviceMonitor.interval=often", "/serviceMonitor/interval"},
		{"--set=podDisruptionBudget.minAvailable=most", "/podDisruptionBudget/minAvailable"},
		{"--set=service.port=api", "/service/port"},
		{"--set=rollout.log.level=all", "/rollout/log/level"},
		{"--set=tls=null", "run it with --reset-then-reuse-values"},
		{"--kube-version=1.35.0", "set policies=false"},
	} {
		t.Run(c.flags, func(t *testing.T) {
			t.Parallel()
			objects, err := helm.Render(t.Context(), strings.Fields(c.flags)...)
			if err == nil {
				t.Fatalf("helm template %s renders %d objects", c.flags, len(objects))
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("the message does not contain %q:\n%v", c.want, err)
			}
		})
	}
}

// TestKeptData checks that Helm keeps objects with data when a value changes or the release is
// uninstalled: the volume, and the namespaces, because deleting them deletes the volume.
func TestKeptData(t *testing.T) {
	t.Parallel()
	for _, storage := range []string{"volume", "etcd"} {
		for name, o := range render(t, "--set=storage="+storage) {
			kept := o.GetAnnotations()["helm.sh/resource-policy"] == "keep"
			if want := o.GetKind() == "PersistentVolumeClaim" || o.GetKind() == "Namespace"; kept != want {
				t.Errorf("storage=%s: Helm keeps %s: %t, want %t", storage, name, kept, want)
			}
		}
	}
}
