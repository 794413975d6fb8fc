// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"testing"
)

// Manifests can be read from the standard input, as with kubectl.
func TestStandardInput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rollout.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {name: web}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stdin
	os.Stdin = in
	t.Cleanup(func() { os.Stdin = before; in.Close() })
	found, err := readFiles([]string{"-"})
	if err != nil || len(found) != 1 || found[0].GetName() != "web" {
		t.Errorf("%v %v", found, err)
	}
}
