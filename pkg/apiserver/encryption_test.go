// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/weir-rollouts/weir/pkg/apiserver"
)

// encrypted returns an encryption configuration whose first key encrypts. The name none means no
// encryption.
func encrypted(t *testing.T, keys ...string) func(*apiserver.Options) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	var b strings.Builder
	b.WriteString("apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n" +
		"- resources: ['*.rollouts.kruise.io']\n  providers:\n")
	for _, key := range keys {
		if key == "none" {
			b.WriteString("  - identity: {}\n")
			continue
		}
		secret := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte(key), 32)[:32])
		fmt.Fprintf(&b, "  - secretbox: {keys: [{name: %s, secret: %s}]}\n", key, secret)
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(o *apiserver.Options) { o.Recommended.Etcd.EncryptionProviderConfigFilepath = file }
}

// onDisk reports whether a file of a directory contains the text.
func onDisk(t *testing.T, dir, text string) bool {
	t.Helper()
	found := false
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		found = found || bytes.Contains(data, []byte(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Without the key, stored objects cannot be read from the disk or from a snapshot. After a restart, the
// server can read them. To replace a key, a user rewrites the objects with patches that change nothing.
func TestEncryption(t *testing.T) {
	t.Parallel()
	const secret = "the-password-in-the-template"
	dir := t.TempDir()
	s := start(t, dir, encrypted(t, "a"))
	want(t, http.StatusCreated, s, "POST", list, strings.Replace(rollout, `"name":"web"}`, `"name":"web","annotations":{"a":"`+secret+`"}}`, 1))
	snapshot := filepath.Join(t.TempDir(), "weir.db")
	works(t, "snapshot", snapshot, "--data-dir", filepath.Join(dir, "data"))
	stop(t, s)
	for _, place := range []string{dir, filepath.Dir(snapshot)} {
		if onDisk(t, place, secret) {
			t.Errorf("the secret can be read in %s", place)
		}
		if !onDisk(t, place, "rollouts/ns/web") {
			t.Errorf("keys are never encrypted, but none was found in %s", place)
		}
	}

	for _, keys := range [][]string{{"a"}, {"b", "a"}, {"b"}, {"none", "b"}, {"none"}} {
		s = start(t, dir, encrypted(t, keys...))
		if got := want(t, http.StatusOK, s, "GET", list+"/web", ""); !strings.Contains(got, secret) {
			t.Fatalf("with %v it is read as %s", keys, got)
		}
		want(t, http.StatusConflict, s, "POST", list, named("second", "web"))
		want(t, http.StatusOK, s, "PATCH", list+"/web", "{}")
		stop(t, s)
	}
	if !onDisk(t, dir, secret) {
		t.Error("without encryption it is not on disk, so this test sees nothing")
	}
}

// Earlier decisions are encrypted and rewritten like their Rollout.
func TestEncryptionOfDecisions(t *testing.T) {
	t.Parallel()
	const secret, n = "the-reason-of-the-first", 45
	dir := t.TempDir()
	s := start(t, dir, encrypted(t, "a"))
	want(t, http.StatusCreated, s, "POST", list, rollout)
	want(t, http.StatusOK, s, "PATCH", list+"/web/status", `{"status":{"phase":"Progressing",
		"conditions":[{"type":"Progressing","status":"True","reason":"InRolling"}],
		"canaryStatus":{"currentStepIndex":1,"currentStepState":"StepPaused","canaryRevision":"v2"}}}`)
	for i := range n {
		want(t, http.StatusCreated, s, "POST", list+"/web/jump", fmt.Sprintf(`{"step":1,"reason":"%s-%d"}`, secret, i))
	}
	keys, err := etcdOf(t, s).Get(t.Context(), prefix+"decisions/ns/web/", clientv3.WithPrefix())
	if err != nil || len(keys.Kvs) != 1 {
		t.Fatalf("%d keys of earlier decisions, want 1: %v", keys.Count, err)
	}
	stop(t, s)
	if onDisk(t, dir, secret) {
		t.Error("a decision can be read")
	}
	for _, keys := range [][]string{{"b", "a"}, {"b"}, {"none", "b"}, {"none"}} {
		s = start(t, dir, encrypted(t, keys...))
		if got := strings.Count(want(t, http.StatusOK, s, "GET", list+"/web", ""), secret); got != n {
			t.Errorf("with %v %d decisions are read, want %d", keys, got, n)
		}
		want(t, http.StatusOK, s, "PATCH", list+"/web", "{}")
		stop(t, s)
	}
}
