// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package golden answers in tests whether changes are those that were reviewed:
// it writes each as what it does to its object and compares that with a file.
// Run a test with -update to rewrite the files; explain every line that differs.
package golden

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/weir-rollouts/weir/pkg/object"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Changes compares changes, written as what each does to its object, with
// testdata/<name>.out.yaml.
func Changes(t *testing.T, name string, changes []object.Change) {
	t.Helper()
	var b strings.Builder
	for _, c := range changes {
		switch {
		case c.Base == nil:
			fmt.Fprintf(&b, "# create %s\n%s", Title(c.Want), Text(t, c.Want))
		case c.Want == nil:
			fmt.Fprintf(&b, "# delete %s\n", Title(c.Base))
		default:
			fmt.Fprintf(&b, "# update %s\n%s", Title(c.Base), Diff(Text(t, c.Base), Text(t, c.Want)))
		}
	}
	if len(changes) == 0 {
		b.WriteString("# nothing\n")
	}
	File(t, name+".out.yaml", b.String())
}

// File compares a text with testdata/<name>.
func File(t *testing.T, name, got string) {
	t.Helper()
	At(t, filepath.Join("testdata", name), got)
}

// At compares a text with a file of the repository that is made by a test.
func At(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// Title names an object by kind and name.
func Title(o object.Object) string {
	if u, ok := o.(*unstructured.Unstructured); ok {
		return u.GetKind() + " " + u.GetName()
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1.") + " " + o.GetName()
}

// Text is an object as YAML.
func Text(t *testing.T, o runtime.Object) string {
	t.Helper()
	data, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Diff is the shortest line difference of two texts, without common lines.
func Diff(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	common := make([][]int, len(x)+1)
	for i := range common {
		common[i] = make([]int, len(y)+1)
	}
	for i, v := range slices.Backward(x) {
		for j := len(y) - 1; j >= 0; j-- {
			if v == y[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var out strings.Builder
	i, j := 0, 0
	for i < len(x) || j < len(y) {
		switch {
		case i < len(x) && j < len(y) && x[i] == y[j]:
			i, j = i+1, j+1
		case j == len(y) || (i < len(x) && common[i+1][j] >= common[i][j+1]):
			fmt.Fprintf(&out, "-%s\n", x[i])
			i++
		default:
			fmt.Fprintf(&out, "+%s\n", y[j])
			j++
		}
	}
	return out.String()
}
