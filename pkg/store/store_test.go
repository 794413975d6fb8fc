// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A data directory in memory is refused without --ephemeral.
func TestStoreInMemory(t *testing.T) {
	t.Parallel()
	const memory = "/dev/shm"
	if volatile, err := isInMemory(memory); err != nil || !volatile {
		t.Fatalf("%s is in memory: %t (%v), want true", memory, volatile, err)
	}
	tests := map[string]struct {
		options Options
		refused bool
	}{
		"in memory":             {Options{DataDir: filepath.Join(memory, "weir", "not", "there", "yet")}, true},
		"in memory, ephemeral":  {Options{DataDir: memory, Ephemeral: true}, false},
		"on disk":               {Options{DataDir: t.TempDir()}, false},
		"on disk, not there":    {Options{DataDir: filepath.Join(t.TempDir(), "a", "b")}, false},
		"nowhere":               {Options{}, true},
		"nowhere, if ephemeral": {Options{Ephemeral: true}, true},
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

// An emptyDir volume is recognized by the path at which the kubelet stores it.
func TestOnEmptyDir(t *testing.T) {
	t.Parallel()
	const pod = "/var/lib/kubelet/pods/5b1f0a0e/volumes/"
	mounts := strings.Join([]string{
		"600 500 0:50 / / ro,relatime master:1 - overlay overlay ro",
		"601 600 8:1 " + pod + "kubernetes.io~empty-dir/data /var/lib/weir rw,relatime - ext4 /dev/sda1 rw",
		"602 600 8:2 / /var/lib/weir/kept rw,relatime - ext4 /dev/sdb rw",
		"603 600 8:1 " + pod + "kubernetes.io~csi/pvc/mount /var/lib/weird rw,relatime - ext4 /dev/sda1 rw", "",
	}, "\n")
	for dir, want := range map[string]bool{
		"/var/lib/weir": true, "/var/lib/weir/data": true, "/var/lib/weir/kept": false, "/var/lib/weir/kept/data": false,
		"/var/lib/weird": false, "/var/lib": false, "/": false,
	} {
		if got := isOnEmptyDir(mounts, dir); got != want {
			t.Errorf("%s is on an emptyDir: %t, want %t", dir, got, want)
		}
	}
}

// Only one process at a time can use a data directory. The next process finds the data.
func TestStoreIsLocked(t *testing.T) {
	t.Parallel()
	o := Options{DataDir: filepath.Join(t.TempDir(), strings.Repeat("long", 30))}
	first, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := Start(t.Context(), o); err == nil {
		second.Close()
		t.Error("a second process got the data directory")
	}
	if _, err := os.Stat(strings.TrimPrefix(first.Endpoint(), "unix://")); err != nil {
		t.Errorf("the first lost its socket: %v", err)
	}
	first.Close()
	third, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	third.Close()
}
