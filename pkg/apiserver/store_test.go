// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Data in memory is refused, unless that is what somebody wants.
func TestStoreInMemory(t *testing.T) {
	t.Parallel()
	const memory = "/dev/shm"
	if volatile, err := inMemory(memory); err != nil || !volatile {
		t.Fatalf("%s is in memory: %t (%v), want true", memory, volatile, err)
	}
	tests := map[string]struct {
		options StoreOptions
		refused bool
	}{
		"in memory":             {StoreOptions{DataDir: filepath.Join(memory, "weir", "not", "there", "yet")}, true},
		"in memory, ephemeral":  {StoreOptions{DataDir: memory, Ephemeral: true}, false},
		"on disk":               {StoreOptions{DataDir: t.TempDir()}, false},
		"on disk, not there":    {StoreOptions{DataDir: filepath.Join(t.TempDir(), "a", "b")}, false},
		"nowhere":               {StoreOptions{}, true},
		"nowhere, if ephemeral": {StoreOptions{Ephemeral: true}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if errs := tt.options.Validate(); (len(errs) > 0) != tt.refused {
				t.Errorf("refused with %v, want refused %t", errs, tt.refused)
			}
		})
	}
}

// One process at a time has the data, and the next one finds it.
func TestStoreIsLocked(t *testing.T) {
	t.Parallel()
	o := StoreOptions{DataDir: filepath.Join(t.TempDir(), strings.Repeat("long", 30))}
	first, err := StartStore(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := StartStore(t.Context(), o); err == nil {
		second.Close()
		t.Error("a second process got the data directory")
	}
	if _, err := os.Stat(strings.TrimPrefix(first.Endpoint(), "unix://")); err != nil {
		t.Errorf("the first lost its socket: %v", err)
	}
	first.Close()
	third, err := StartStore(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	third.Close()
}
