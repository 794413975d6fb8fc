// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weir-rollouts/weir/pkg/apiserver/apiservertest"
)

// recordings contains the stored data of each version of Weir, one file for each key, as TestRecord of
// test/e2e found it in etcd. The recording of a released version never changes, and stays as long as an
// upgrade from that version is supported. The recording of the next version is recreated by "make record
// VERSION=…" if a stored field is added.
const (
	recordings = "testdata/stored"
	prefix     = "/registry/rollouts.kruise.io/"
)

// served are the API versions of each resource, the storage version first.
var served = map[string][]string{
	"rollouts":         {"v1beta1", "v1alpha1"},
	"batchreleases":    {"v1beta1", "v1alpha1"},
	"trafficroutings":  {"v1alpha1"},
	"rollouthistories": {"v1alpha1"},
}

// object is a stored object, or its JSON.
type object map[string]any

func objectOf(t *testing.T, data []byte) object {
	t.Helper()
	o := object{}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&o); err != nil {
		t.Fatalf("decoding %s: %v", data, err)
	}
	return o
}

func (o object) in(field string) map[string]any {
	m, _ := o[field].(map[string]any)
	return m
}

// recorded reads a recording, by key.
func recorded(t *testing.T, version string) map[string]object {
	t.Helper()
	root := filepath.Join(recordings, version)
	all := map[string]object{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		key, err := filepath.Rel(root, strings.TrimSuffix(path, ".json"))
		all[filepath.ToSlash(key)] = objectOf(t, data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatalf("there is nothing in %s", root)
	}
	return all
}

// startOn starts a server with the data of a recording.
func startOn(t *testing.T, stored map[string]object) *apiservertest.Server {
	t.Helper()
	dir := t.TempDir()
	before := start(t, dir)
	etcd := etcdOf(t, before)
	for key, o := range stored {
		data, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := etcd.Put(t.Context(), prefix+key, string(data)); err != nil {
			t.Fatal(err)
		}
	}
	stop(t, before)
	s := start(t, dir)
	t.Cleanup(func() { stop(t, s) })
	return s
}

// older are annotations in which v1alpha1 stores values for which it has no field. A write in that version
// leaves them: docs/compatibility.md.
var older = []string{"rollouts.kruise.io/rolling-style", "rollouts.kruise.io/trafficrouting"}

// stands compares an object with the recording, except for managed fields.
func stands(t *testing.T, what string, want, got object) {
	t.Helper()
	was, _ := want.in("metadata")["annotations"].(map[string]any)
	is, _ := got.in("metadata")["annotations"].(map[string]any)
	for _, key := range older {
		if was[key] == nil {
			delete(is, key)
		}
	}
	if len(is) == 0 {
		delete(got.in("metadata"), "annotations")
	}
	unwritten := cmpopts.IgnoreMapEntries(func(key string, _ any) bool {
		return key == "resourceVersion" || key == "managedFields"
	})
	if diff := cmp.Diff(want, got, unwritten); diff != "" {
		t.Errorf("%s (-recorded +now):\n%s", what, diff)
	}
}

// Objects that earlier versions have stored are served completely: reading and writing them in any API
// version loses and adds nothing, also during a release. Workloads stay claimed.
func TestStored(t *testing.T) {
	t.Parallel()
	versions, err := os.ReadDir(recordings)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range versions {
		t.Run(version.Name(), func(t *testing.T) {
			t.Parallel()
			stored := recorded(t, version.Name())
			s := startOn(t, stored)
			for key, was := range stored {
				resource, rest, _ := strings.Cut(key, "/")
				namespace, name, _ := strings.Cut(rest, "/")
				for _, version := range served[resource] {
					path := fmt.Sprintf("/apis/rollouts.kruise.io/%s/namespaces/%s/%s/%s", version, namespace, resource, name)
					t.Run(version+"/"+key, func(t *testing.T) { keeps(t, s, key, path, was) })
				}
				if resource == "rollouts" {
					t.Run("claim/"+key, func(t *testing.T) { claimed(t, s, namespace, was) })
				}
			}
		})
	}
}

// keeps reads and writes an object, and compares the stored result.
func keeps(t *testing.T, s *apiservertest.Server, key, path string, was object) {
	stored := func() object {
		t.Helper()
		got, err := etcdOf(t, s).Get(t.Context(), prefix+key)
		if err != nil || len(got.Kvs) != 1 {
			t.Fatalf("reading from etcd: %v, %v", got, err)
		}
		return objectOf(t, got.Kvs[0].Value)
	}
	read := want(t, http.StatusOK, s, "GET", path, "")
	if now := objectOf(t, []byte(read)); now["apiVersion"] == was["apiVersion"] {
		stands(t, "it reads", was, now)
	}
	want(t, http.StatusOK, s, "PUT", path, read)
	stands(t, "after what was read is written", was, stored())
	if strings.Contains(path, fmt.Sprint("/", was["apiVersion"], "/")) { // the version in which controllers write
		want(t, http.StatusOK, s, "PUT", path+"/status", want(t, http.StatusOK, s, "GET", path, ""))
		stands(t, "after the status that was read is written", was, stored())
	}
	want(t, http.StatusOK, s, "PATCH", path, `{"metadata":{"labels":{"upgrade":"done"}}}`)
	labelled := stored()
	labels, _ := labelled.in("metadata")["labels"].(map[string]any)
	if labels["upgrade"] != "done" {
		t.Errorf("the labels are %v after one was added", labels)
	}
	want(t, http.StatusOK, s, "PATCH", path, `{"metadata":{"labels":{"upgrade":null}}}`)
	stands(t, "after a label came and went", was, stored())
}

// claimed requires that a second Rollout of the workload is refused, unless the first one has returned the
// workload and only the finalizer of another controller keeps it.
func claimed(t *testing.T, s *apiservertest.Server, namespace string, was object) {
	path := "/apis/rollouts.kruise.io/v1beta1/namespaces/" + namespace + "/rollouts?dryRun=All"
	twin, err := json.Marshal(object{
		"apiVersion": "rollouts.kruise.io/v1beta1", "kind": "Rollout", "metadata": map[string]any{"name": "twin"},
		"spec": map[string]any{
			"workloadRef": was.in("spec")["workloadRef"],
			"strategy":    map[string]any{"canary": map[string]any{"steps": []any{map[string]any{"replicas": "100%"}}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if was.in("metadata")["deletionTimestamp"] != nil && was.in("status")["workloadUID"] == nil {
		want(t, http.StatusCreated, s, "POST", path, string(twin))
		return
	}
	answer := want(t, http.StatusConflict, s, "POST", path, string(twin))
	if name := fmt.Sprint(was.in("metadata")["name"]); !strings.Contains(answer, namespace+"/"+name) {
		t.Errorf("a second Rollout is told %s, want the name of the first", answer)
	}
}
