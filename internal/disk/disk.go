// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package disk answers: how is a file written so that a reader, or a machine that
// lost its power, finds the old one or the new one?
//
// It must not know what is in a file.
package disk

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// Replace writes a file, of mode 0600, that is there as a whole, on disk, or not
// at all.
func Replace(path string, write func(io.Writer) error) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-") // it has mode 0600
	if err != nil {
		return err
	}
	err = write(temporary)
	if err == nil {
		err = temporary.Sync()
	}
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir makes names of files survive a loss of power.
func SyncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
