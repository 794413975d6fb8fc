// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package view_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/view"
)

var update = flag.Bool("update", false, "write the golden files anew")

var now = time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC)

// world is what is stored.
type world []*unstructured.Unstructured

func read(t *testing.T, file string) world {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	var w world
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		u := &unstructured.Unstructured{}
		switch err := decoder.Decode(&u.Object); {
		case errors.Is(err, io.EOF):
			return w
		case err != nil:
			t.Fatal(err)
		}
		w = append(w, u)
	}
}

// pods adds pods of the only one there is.
func (w world) pods(n int) world {
	for _, u := range w {
		if u.GetKind() != "Pod" {
			continue
		}
		for i := range n {
			more := u.DeepCopy()
			more.SetName(fmt.Sprintf("%s-%03d", u.GetName(), i))
			more.SetUID("")
			w = append(w, more)
		}
		break
	}
	return w
}

// hub makes an object of our group out of one of the wire.
func hub[H any](t *testing.T, u *unstructured.Unstructured, wire runtime.Object) *H {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, wire); err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	out := new(H)
	if err := scheme.Convert(wire, out, nil); err != nil {
		t.Fatal(err)
	}
	return out
}

// answer is what a server would answer.
func (w world) answer(t *testing.T, r view.Read) view.Answer {
	t.Helper()
	var a view.Answer
	selector, err := labels.Parse(r.Labels)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range w {
		if u.GroupVersionKind() != r.Kind || r.Name != "" && u.GetName() != r.Name || !selector.Matches(labels.Set(u.GetLabels())) {
			continue
		}
		var o object.Object
		if u.GetKind() == "BatchRelease" {
			o = hub[rollouts.BatchRelease](t, u, &v1beta1.BatchRelease{})
		} else if o, err = r.TrimObject(u.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		a.Objects = append(a.Objects, o)
	}
	return a
}

// tree is what somebody sees that may not do some things.
func (w world) tree(t *testing.T, forbidden ...string) view.Tree {
	t.Helper()
	seen := view.NewObserved(nil)
	for _, u := range w {
		if u.GetKind() == "Rollout" {
			seen.Rollout = hub[rollouts.Rollout](t, u, &v1beta1.Rollout{})
		}
	}
	for next := seen.Next(); len(next) > 0; next = seen.Next() {
		for _, r := range next {
			seen.Answers[r] = w.answer(t, r)
		}
	}
	mine, unread := seen.ForViewer(func(r view.Read) bool { return !sets.New(forbidden...).Has(r.Permission()) })
	if unread {
		t.Error("something was not read")
	}
	return view.BuildTree(mine, now)
}

// draw has a line for each node, below its parent.
func draw(t *testing.T, tree view.Tree) string {
	t.Helper()
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NODE\tREVISION\tHEALTH\tREADY\tPODS\tDESIRED\tTRAFFIC\tBATCH\tMESSAGE")
	depth := map[string]int{}
	for _, n := range tree.Nodes {
		above, ok := depth[n.Parent]
		if !ok && n.Parent != "" {
			t.Errorf("%s %s comes before its parent %q", n.Role, n.Name, n.Parent)
		}
		if _, twice := depth[n.ID]; twice {
			t.Errorf("the ID %q is there twice", n.ID)
		}
		depth[n.ID] = above + 1
		line := []string{
			strings.Repeat("  ", above) + n.Role + " " + n.Name, n.Revision, n.Health,
			number(n.Ready), number(n.Pods), number(n.Desired), number(n.Traffic), number(&n.Batch), n.Message,
		}
		fmt.Fprintln(w, strings.Join(line, "\t"))
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, h := range tree.Hidden {
		fmt.Fprintf(&out, "hidden: %s %s, %s %s\n", number(h.Count), h.Kind, h.Permission, h.Message)
	}
	if tree.RequeueAfter > 0 {
		fmt.Fprintf(&out, "again in %s\n", tree.RequeueAfter)
	}
	var trimmed []string
	for line := range strings.SplitSeq(out.String(), "\n") {
		trimmed = append(trimmed, strings.TrimRight(line, " "))
	}
	return strings.Join(trimmed, "\n")
}

func number(n *int32) string {
	if n == nil {
		return "-"
	}
	return strconv.Itoa(int(*n))
}

// TestTrees compares the tree of each file, a Rollout with its objects, with a golden file.
func TestTrees(t *testing.T) {
	tests := []struct {
		name, file string
		more       int
		forbidden  []string
	}{
		{name: "step", file: "step"},
		{name: "step-no-pods", file: "step", forbidden: []string{"list pods"}},
		{name: "step-no-sets", file: "step", forbidden: []string{"list replicasets.apps", "get services"}},
		{name: "step-200", file: "step", more: 201},
		{name: "extra", file: "extra"},
		{name: "ordered", file: "ordered"},
		{name: "ordered-no-pods", file: "ordered", forbidden: []string{"list pods"}},
		{name: "gone", file: "gone"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := draw(t, read(t, tt.file+".in.yaml").pods(tt.more).tree(t, tt.forbidden...))
			golden := filepath.Join("testdata", tt.name+".out.txt")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", golden, diff)
			}
		})
	}
}

// TestTrimmed checks that a stored pod has none of the fields that users write.
func TestTrimmed(t *testing.T) {
	pod := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": "web", "annotations": map[string]any{"a": "b"}, "managedFields": []any{map[string]any{"manager": "m"}}},
		"spec": map[string]any{"nodeName": "n", "containers": []any{map[string]any{
			"name": "app", "image": "web:v1", "env": []any{map[string]any{"name": "SECRET", "value": "s"}},
		}}},
	}}
	read := view.Read{Role: "pod", Kind: pod.GroupVersionKind()}
	o, err := read.TrimObject(pod)
	if err != nil {
		t.Fatal(err)
	}
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprint(m)
	for _, gone := range []string{"SECRET", "annotations", "manager"} {
		if strings.Contains(text, gone) {
			t.Errorf("%s is in %s", gone, text)
		}
	}
	if !strings.Contains(text, "web:v1") {
		t.Errorf("there is no image in %s", text)
	}
	if got := (view.Read{Kind: v1beta1.SchemeGroupVersion.WithKind("Rollout"), Name: metav1.NamespaceDefault}).Permission(); got != "get rollouts.rollouts.kruise.io" {
		t.Errorf("the permission is %q", got)
	}
}

// TestCrowd has many large objects that claim to belong to a workload. The work for the tree grows
// linearly with their number, and the size of the tree is limited.
func TestCrowd(t *testing.T) {
	for _, many := range []int{90, 1500} {
		w := read(t, "step.in.yaml")
		long := map[string]any{"name": "app", "image": strings.Repeat("x", 100_000)}
		for _, u := range w {
			if u.GetKind() != "ReplicaSet" && u.GetKind() != "Pod" {
				continue
			}
			for i := range many {
				more := u.DeepCopy()
				more.SetName(fmt.Sprintf("%s-%d", u.GetName(), i))
				more.SetUID(types.UID(more.GetName()))
				if i%2 == 0 {
					more.SetOwnerReferences(nil)
				} else if u.GetKind() == "Pod" {
					more.Object["spec"] = map[string]any{"containers": slices.Repeat([]any{long}, 50)}
				}
				w = append(w, more)
			}
		}
		var tree view.Tree
		cost := testing.AllocsPerRun(1, func() { tree = w.tree(t) })
		if most := float64(400 * len(w)); cost > most { // 154 for each object, however many there are
			t.Errorf("the tree of %d objects takes %.0f allocations, want %.0f at most", len(w), cost, most)
		}
		size := 0
		for _, n := range tree.Nodes {
			size += len(fmt.Sprintf("%+v", n))
		}
		if size > 4<<20 || len(tree.Nodes) > 1000 {
			t.Errorf("there are %d nodes of %d bytes", len(tree.Nodes), size)
		}
	}
}

// TestTrimmedAnnotations checks that stored objects have only the annotations that a node needs,
// because users can create thousands of objects with large annotations.
func TestTrimmedAnnotations(t *testing.T) {
	const note, ours, revision = "example.com/note", "rollouts.kruise.io/original-deployment-strategy", "deployment.kubernetes.io/revision"
	for _, tt := range []struct {
		role, apiVersion, kind string
		kept                   []string
	}{
		{"workload", "apps/v1", "Deployment", []string{revision, ours}},
		{"workload", "apps.kruise.io/v1alpha1", "CloneSet", []string{revision, ours}},
		{"revision", "apps/v1", "ReplicaSet", []string{revision, ours}},
		{"revision", "apps/v1", "ControllerRevision", []string{revision, ours}},
		{"service", "v1", "Service", []string{revision, ours}},
		{"router", "networking.k8s.io/v1", "Ingress", []string{revision, note, ours}},
		{"router", "gateway.networking.k8s.io/v1", "HTTPRoute", []string{revision, note, ours}},
		{"pod", "v1", "Pod", nil},
		{"scaler", "autoscaling/v2", "HorizontalPodAutoscaler", nil},
		{"budget", "policy/v1", "PodDisruptionBudget", nil},
		{"", "v1", "ResourceQuota", nil},
	} {
		u := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": tt.apiVersion, "kind": tt.kind,
			"metadata": map[string]any{
				"name": "web", "annotations": map[string]any{note: "n", ours: "o", revision: "7"},
				"managedFields": []any{map[string]any{"manager": "m"}},
			},
			"spec": map[string]any{}, "status": map[string]any{},
		}}
		o, err := view.Read{Role: tt.role, Kind: u.GroupVersionKind()}.TrimObject(u)
		if err != nil {
			t.Fatal(err)
		}
		kept := slices.Sorted(maps.Keys(o.GetAnnotations()))
		if diff := cmp.Diff(tt.kept, kept); diff != "" || len(o.GetManagedFields()) > 0 {
			t.Errorf("%s keeps %v and %v (-want +got):\n%s", tt.kind, kept, o.GetManagedFields(), diff)
		}
	}
}

// TestTrimmedScalers checks that autoscalers and budgets, which are stored for the whole namespace,
// have only the fields that a tree and a plan need.
func TestTrimmedScalers(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for kind, object := range map[string]map[string]any{
		"HorizontalPodAutoscaler": {
			"apiVersion": "autoscaling/v2",
			"spec": map[string]any{
				"maxReplicas": int64(7), "scaleTargetRef": map[string]any{"kind": "Deployment", "name": "web"},
				"metrics": []any{map[string]any{"type": "External", "external": map[string]any{"metric": map[string]any{"name": long}, "target": map[string]any{"type": "Value"}}}},
			},
			"status": map[string]any{
				"desiredReplicas": int64(7), "currentReplicas": int64(7),
				"conditions": []any{map[string]any{"type": "AbleToScale", "status": "True", "message": long}},
			},
		},
		"PodDisruptionBudget": {
			"apiVersion": "policy/v1",
			"spec":       map[string]any{"maxUnavailable": int64(7), "selector": map[string]any{"matchLabels": map[string]any{"app": "web"}}},
			"status": map[string]any{
				"desiredHealthy": int64(7), "currentHealthy": int64(7), "disruptionsAllowed": int64(7), "expectedPods": int64(7),
				"disruptedPods": map[string]any{long: "2026-01-02T10:00:00Z"},
			},
		},
	} {
		object["kind"], object["metadata"] = kind, map[string]any{"name": "web"}
		u := &unstructured.Unstructured{Object: object}
		sevens := strings.Count(fmt.Sprint(u.Object), ":7")
		o, err := view.Read{Kind: u.GroupVersionKind()}.TrimObject(u)
		if err != nil {
			t.Fatal(err)
		}
		m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			t.Fatal(err)
		}
		if text := fmt.Sprint(m); strings.Contains(text, long) || strings.Count(text, ":7") != sevens || !strings.Contains(text, "web") {
			t.Errorf("%s is kept as %s", kind, text)
		}
	}
}
