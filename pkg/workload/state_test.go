// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/weir-rollouts/weir/pkg/object"
)

// readState returns the Deployment and the ReplicaSets of testdata/<name>.in.yaml.
func readState(t testing.TB, name string) (*appsv1.Deployment, []object.Object) {
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

// findSet returns the ReplicaSet of a name.
func findSet(t *testing.T, owned []object.Object, name string) *appsv1.ReplicaSet {
	t.Helper()
	for _, o := range owned {
		if o.GetName() == name {
			return o.(*appsv1.ReplicaSet)
		}
	}
	t.Fatalf("no replicaset %s", name)
	return nil
}

// applyChanges applies changes as a cluster without controllers does: every change replaces its object.
func applyChanges(d *appsv1.Deployment, owned []object.Object, changes []object.Change) (*appsv1.Deployment, []object.Object) {
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

// rowOf returns the first row of a kind.
func rowOf(t *testing.T, kind schema.GroupVersionKind) Row {
	t.Helper()
	for _, r := range Table {
		if r.GVK == kind {
			return r
		}
	}
	t.Fatalf("no row of %s", kind)
	return Row{}
}
