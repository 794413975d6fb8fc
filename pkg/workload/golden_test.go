// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/weir-rollouts/weir/pkg/object"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// read returns the Deployment and the ReplicaSets of testdata/<name>.in.yaml.
func read(t *testing.T, name string) (*appsv1.Deployment, []object.Object) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".in.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var d *appsv1.Deployment
	var owned []object.Object
	for i, doc := range bytes.Split(data, []byte("---\n")) {
		if i == 0 {
			d = &appsv1.Deployment{}
			err = yaml.UnmarshalStrict(doc, d)
		} else {
			rs := &appsv1.ReplicaSet{}
			err = yaml.UnmarshalStrict(doc, rs)
			owned = append(owned, rs)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return d, owned
}

// set returns the ReplicaSet of a name.
func set(t *testing.T, owned []object.Object, name string) *appsv1.ReplicaSet {
	t.Helper()
	for _, o := range owned {
		if o.GetName() == name {
			return o.(*appsv1.ReplicaSet)
		}
	}
	t.Fatalf("no replicaset %s", name)
	return nil
}

// apply is a cluster without controllers: every change replaces its object.
func apply(d *appsv1.Deployment, owned []object.Object, changes []object.Change) (*appsv1.Deployment, []object.Object) {
	var next []object.Object
	for _, o := range owned {
		for _, c := range changes {
			if c.Base != nil && c.Base.GetName() == o.GetName() {
				o = c.Want
				break
			}
		}
		if o != nil {
			next = append(next, o)
		}
	}
	for _, c := range changes {
		switch want := c.Want.(type) {
		case *appsv1.Deployment:
			d = want
		case *appsv1.ReplicaSet:
			if c.Base == nil {
				next = append(next, want)
			}
		}
	}
	return d, next
}

// golden compares changes, written as what each does to its object, with
// testdata/<name>.out.yaml.
func golden(t *testing.T, name string, changes []object.Change) {
	t.Helper()
	var b strings.Builder
	for _, c := range changes {
		switch {
		case c.Base == nil:
			fmt.Fprintf(&b, "# create %s\n%s", title(c.Want), text(t, c.Want))
		case c.Want == nil:
			fmt.Fprintf(&b, "# delete %s\n", title(c.Base))
		default:
			fmt.Fprintf(&b, "# update %s\n%s", title(c.Base), lines(text(t, c.Base), text(t, c.Want)))
		}
	}
	if len(changes) == 0 {
		b.WriteString("# nothing\n")
	}
	path := filepath.Join("testdata", name+".out.yaml")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func title(o object.Object) string {
	return strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1.") + " " + o.GetName()
}

func text(t *testing.T, o runtime.Object) string {
	t.Helper()
	data, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// lines is the shortest line difference of two texts, without common lines.
func lines(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	common := make([][]int, len(x)+1)
	for i := range common {
		common[i] = make([]int, len(y)+1)
	}
	for i := len(x) - 1; i >= 0; i-- {
		for j := len(y) - 1; j >= 0; j-- {
			if x[i] == y[j] {
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
