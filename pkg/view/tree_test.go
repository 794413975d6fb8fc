// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package view_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
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
		} else if o, err = r.Trimmed(u.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		a.Objects = append(a.Objects, o)
	}
	return a
}

// tree is what somebody sees that may not do some things.
func (w world) tree(t *testing.T, forbidden ...string) view.Tree {
	t.Helper()
	seen := view.NewSeen(nil)
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
	mine, unread := seen.For(func(r view.Read) bool { return !sets.New(forbidden...).Has(r.Permission()) })
	if unread {
		t.Error("something was not read")
	}
	return view.Of(mine, now)
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
	if tree.Again > 0 {
		fmt.Fprintf(&out, "again in %s\n", tree.Again)
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

// Each file is a Rollout and what belongs to it; the tree of it is beside it.
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

// A pod that is kept has nothing of what users write into one.
func TestTrimmed(t *testing.T) {
	pod := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": "web", "annotations": map[string]any{"a": "b"}, "managedFields": []any{map[string]any{"manager": "m"}}},
		"spec": map[string]any{"nodeName": "n", "containers": []any{map[string]any{
			"name": "app", "image": "web:v1", "env": []any{map[string]any{"name": "SECRET", "value": "s"}},
		}}},
	}}
	read := view.Read{Role: "pod", Kind: pod.GroupVersionKind()}
	o, err := read.Trimmed(pod)
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

// However many objects others put beside a workload, say that it owns them, and write into
// them: the work for the tree grows with their number and no faster, and its size is bounded.
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
