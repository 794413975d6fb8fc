// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package heap

import (
	"os"
	"path/filepath"
	"testing"
)

// A container's limit leaves a fifth to what is not the heap; without one there is a default.
func TestLimit(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]int64{"1000000\n": 800000, "max\n": defaultLimit, "": defaultLimit} {
		file := filepath.Join(t.TempDir(), "memory.max")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := limit(file); got != want {
			t.Errorf("with %q: %d bytes, want %d", content, got, want)
		}
		container := int64(0)
		if want != defaultLimit {
			container = 1000000
		}
		if got := memoryIn(file); got != container {
			t.Errorf("with %q the container has %d bytes, want %d", content, got, container)
		}
	}
	if got := limit(filepath.Join(t.TempDir(), "none")); got != defaultLimit {
		t.Errorf("outside of a container: %d bytes", got)
	}
}
