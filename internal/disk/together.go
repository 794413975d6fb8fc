// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// current is the name of a symbolic link to the subdirectory with the current files. Renaming this
// link replaces all files at once. kubelet uses the same name when it mounts Secrets.
const current = "..data"

// ReplaceTogether replaces several files of a directory in one step, such as a certificate and its
// key. A reader that resolves the links sees either all old or all new files, even after a power
// failure. Each name in the directory is a symbolic link through ..data, which is replaced by
// one rename.
//
// A reader that opens two names one after the other may still get one old and one new file, if the
// replacement happens in between. Such a reader must read again if the files do not match.
func ReplaceTogether(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the directory %s: %w", dir, err)
	}
	before, err := os.Readlink(filepath.Join(dir, current))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if before != "" && holds(filepath.Join(dir, before), files) {
		return linkAll(dir, files) // a link may be missing if the program ended after the rename
	}
	next, err := os.MkdirTemp(dir, "..") // it has mode 0700
	if err != nil {
		return err
	}
	for name, data := range files {
		err = errors.Join(err, Replace(filepath.Join(next, name), func(out io.Writer) error {
			_, err := out.Write(data)
			return err
		}))
	}
	if err == nil {
		err = link(dir, current, filepath.Base(next))
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(next))
	}
	if err := linkAll(dir, files); err != nil {
		return err
	}
	return removeOld(dir, filepath.Base(next))
}

// removeOld removes the subdirectories of earlier files, including those that a killed program
// left.
func removeOld(dir, now string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), "..") && e.Name() != now {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// holds reports whether a directory has these files.
func holds(dir string, files map[string][]byte) bool {
	for name, data := range files {
		if have, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(have, data) {
			return false
		}
	}
	return true
}

// linkAll makes a link of the name of each file.
func linkAll(dir string, files map[string][]byte) error {
	for name := range files {
		to := filepath.Join(current, name)
		if have, err := os.Readlink(filepath.Join(dir, name)); err == nil && have == to {
			continue
		}
		if err := link(dir, name, to); err != nil {
			return err
		}
	}
	return nil
}

// link creates or replaces the symbolic link name by one rename.
func link(dir, name, to string) error {
	temporary := filepath.Join(dir, "."+name+"-link")
	if err := os.Remove(temporary); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Symlink(to, temporary); err != nil {
		return err
	}
	if err := os.Rename(temporary, filepath.Join(dir, name)); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return SyncDir(dir)
}
