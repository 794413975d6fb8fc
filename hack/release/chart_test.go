// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// TestChart checks that Helm pulls the chart from a registry, as it was packed.
func TestChart(t *testing.T) {
	t.Parallel()
	helm, err := filepath.Abs(filepath.Join("..", "..", "bin", "clients", "helm"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), helm, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+dir)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	chart, err := filepath.Abs(filepath.Join("..", "..", "charts", "weir"))
	if err != nil {
		t.Fatal(err)
	}
	run("package", chart, "--version=1.2.3", "--app-version=v1.2.3")
	packed := filepath.Join(dir, "weir-1.2.3.tgz")
	digest, err := writeChart(&testBuild, packed, filepath.Join(dir, "layout"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := writeChart(&testBuild, packed, filepath.Join(dir, "again"))
	if err != nil || again != digest {
		t.Errorf("the second layout has the digest %s (%v), the first one %s", again, err, digest)
	}

	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	repository := strings.TrimPrefix(server.URL, "http://") + "/charts/weir"
	pushed, err := push(t.Context(), filepath.Join(dir, "layout"), repository+":1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	if want := repository + "@" + digest.String(); pushed != want {
		t.Errorf("pushed %s, want %s", pushed, want)
	}
	pulled := t.TempDir()
	out := run("pull", "oci://"+repository, "--version=1.2.3", "--plain-http", "--destination="+pulled)
	if !strings.Contains(out, digest.String()) {
		t.Errorf("helm pull does not print the digest %s:\n%s", digest, out)
	}
	want, err := os.ReadFile(packed)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(pulled, "weir-1.2.3.tgz")); err != nil || string(got) != string(want) {
		t.Errorf("helm pulls %d bytes (%v), want the %d that were pushed", len(got), err, len(want))
	}
	if out := run("show", "chart", "oci://"+repository, "--version=1.2.3", "--plain-http"); !strings.Contains(out, "appVersion: v1.2.3") {
		t.Errorf("helm show chart prints\n%s", out)
	}
}
