// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// TestReplaceTogether reads two files while they are replaced again and again: both are of
// the same moment.
func TestReplaceTogether(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// An earlier version left plain files.
	for _, name := range []string{"tls.crt", "tls.key"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("before"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write := func(i int) {
		data := []byte(strconv.Itoa(i))
		if err := ReplaceTogether(dir, map[string][]byte{"tls.crt": data, "tls.key": data}); err != nil {
			t.Error(err)
		}
	}
	write(0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 300 {
			write(i)
			write(i) // nothing changes
		}
	}()
	read := 0
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		cert, key, err := both(dir)
		switch {
		case errors.Is(err, os.ErrNotExist): // replaced meanwhile
		case err != nil:
			t.Fatal(err)
		case cert != key:
			t.Fatalf("the certificate is of %s and the key of %s", cert, key)
		default:
			read++
		}
	}
	cert, err := os.ReadFile(filepath.Join(dir, "tls.crt"))
	if err != nil || string(cert) != "299" || read == 0 {
		t.Errorf("at the end it has %q (%v), read %d times", cert, err, read)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 4 {
		t.Errorf("the directory has %v (%v), want two links, ..data and what that leads to", left, err)
	}
}

// both reads the two files from the directory that has them.
func both(dir string) (cert, key string, err error) {
	path, err := filepath.EvalSymlinks(filepath.Join(dir, "tls.crt"))
	if err != nil {
		return "", "", err
	}
	c, err := os.ReadFile(path)
	if err != nil {
		return "", "", err
	}
	k, err := os.ReadFile(filepath.Join(filepath.Dir(path), "tls.key"))
	return string(c), string(k), err
}

// TestReplaceTogetherHalfway ends a replacement between the files: the old ones stay together.
func TestReplaceTogetherHalfway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := ReplaceTogether(dir, map[string][]byte{"tls.crt": []byte("old"), "tls.key": []byte("old")}); err != nil {
		t.Fatal(err)
	}
	// No file can have this name, so that one of the new ones cannot be written.
	if err := ReplaceTogether(dir, map[string][]byte{"tls.crt": []byte("new"), "tls.key": []byte("new"), "no/file": nil}); err == nil {
		t.Fatal("a file is written that cannot be")
	}
	if cert, key, err := both(dir); err != nil || cert != "old" || key != "old" {
		t.Errorf("the certificate is %s and the key is %s (%v), want the old ones", cert, key, err)
	}
}
