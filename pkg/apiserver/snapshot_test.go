// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apiserver"
	"github.com/weir-rollouts/weir/pkg/apiserver/apiservertest"
)

// weir runs a command line.
func weir(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := apiserver.NewCommand(nil)
	var out, told bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&told)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String() + told.String(), err
}

func works(t *testing.T, args ...string) string {
	t.Helper()
	out, err := weir(t, args...)
	if err != nil {
		t.Fatalf("weir-apiserver %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func want(t *testing.T, code int, s *apiservertest.Server, method, path, body string) string {
	t.Helper()
	contentType := "application/json"
	if method == http.MethodPatch {
		contentType = "application/merge-patch+json"
	}
	got, answer := do(t, s, method, path, contentType, body)
	if got != code {
		t.Fatalf("%s %s: %d, want %d: %s", method, path, got, code, answer)
	}
	return answer
}

func stop(t *testing.T, s *apiservertest.Server) {
	t.Helper()
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
}

func named(name, workload string) string {
	return strings.NewReplacer(`"metadata":{"name":"web"}`, `"metadata":{"name":"`+name+`"}`,
		`"kind":"Deployment","name":"web"`, `"kind":"Deployment","name":"`+workload+`"`).Replace(rollout)
}

func versionOf(t *testing.T, object string) string {
	t.Helper()
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal([]byte(object), &o); err != nil {
		t.Fatal(err)
	}
	return o.ResourceVersion
}

// After a restore, all objects and claims are byte for byte as in the snapshot. A watch from a later
// revision gets an error that tells the client to list again.
func TestSnapshotAndRestore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "weir.db")
	s := start(t, filepath.Join(dir, "lost"))
	want(t, http.StatusCreated, s, "POST", list, rollout)
	before := want(t, http.StatusOK, s, "PATCH", list+"/web/status", `{"status":{"phase":"Healthy","message":"kept"}}`)
	if out := works(t, "snapshot", file, "--data-dir", filepath.Join(dir, "lost", "data")); !strings.Contains(out, "saved 2 objects") {
		t.Errorf("a Rollout and its claim were saved, and it says %q", out)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the snapshot may be read by others: %v (%v)", info.Mode(), err)
	}
	later := versionOf(t, want(t, http.StatusCreated, s, "POST", list, named("later", "other")))
	stop(t, s)

	works(t, "restore", file, "--data-dir", filepath.Join(dir, "new", "data"))
	s = start(t, filepath.Join(dir, "new"))
	defer stop(t, s)
	if after := want(t, http.StatusOK, s, "GET", list+"/web", ""); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	want(t, http.StatusNotFound, s, "GET", list+"/later", "")
	want(t, http.StatusConflict, s, "POST", list, named("second", "web"))
	for _, known := range []string{versionOf(t, before), later} {
		_, answer := do(t, s, "GET", list+"?watch=true&timeoutSeconds=5&resourceVersion="+known, "", "")
		if !strings.Contains(answer, `"code":410`) {
			t.Errorf("a watch from version %s is answered %q, want 410", known, answer)
		}
	}
	want(t, http.StatusCreated, s, "POST", list, named("later", "other"))
}

// A snapshot can be sent to another machine.
func TestSnapshotThroughPipe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	want(t, http.StatusCreated, s, "POST", list, rollout)
	stop(t, s)
	run := func(in string, args ...string) string {
		cmd := apiserver.NewCommand(nil)
		var out bytes.Buffer
		cmd.SetIn(strings.NewReader(in))
		cmd.SetOut(&out)
		cmd.SetErr(&bytes.Buffer{})
		cmd.SetArgs(args)
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	snapshot := run("", "snapshot", "-", "--data-dir", filepath.Join(dir, "data"))
	run(snapshot, "restore", "-", "--data-dir", filepath.Join(dir, "new", "data"))
	s = start(t, filepath.Join(dir, "new"))
	defer stop(t, s)
	want(t, http.StatusOK, s, "GET", list+"/web", "")
}

// The subcommands have their own help, and the server's help lists them.
func TestHelpOfCommands(t *testing.T) {
	t.Parallel()
	for line, says := range map[string]string{
		"--help": "restore|snapshot", "snapshot --help": "--etcd-servers", "restore --help": "--data-dir",
	} {
		if out := works(t, strings.Fields(line)...); !strings.Contains(out, says) {
			t.Errorf("%s does not say %q:\n%s", line, says, out)
		}
	}
	for _, line := range []string{"snapshot", "restore a b", "snapshot /none/of/it --data-dir /none", "unknown"} {
		if out, err := weir(t, strings.Fields(line)...); err == nil {
			t.Errorf("weir-apiserver %s was accepted: %s", line, out)
		}
	}
}
