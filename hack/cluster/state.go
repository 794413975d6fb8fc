// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// runningError is the error that a cluster already runs in a directory.
type runningError struct {
	dir string
	pid int
}

func (e *runningError) Error() string {
	return fmt.Sprintf("a cluster is already running in %s (process %d): make cluster-down DIR=%s ends it", e.dir, e.pid, e.dir)
}

// lockPid locks DIR/pid. The kernel releases the lock when the process that holds it ends, so a stale
// file is harmless.
func lockPid(dir string) (*os.File, error) {
	path := filepath.Join(dir, "pid")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil && isCurrent(file) {
		return file, nil
	}
	defer file.Close()
	if err == nil {
		return nil, fmt.Errorf("locking %s: a cluster is ending there; try again", path)
	}
	if !errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 1 {
		return nil, fmt.Errorf("reading %s: a cluster is starting or ending there; try again", path)
	}
	return nil, &runningError{dir: dir, pid: pid}
}

// isCurrent reports whether the path still leads to this file. The previous process removes the file
// before it releases the lock.
func isCurrent(file *os.File) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(file.Name())
	return err == nil && os.SameFile(opened, named)
}

func writePid(lock *os.File) error {
	if err := lock.Truncate(0); err != nil {
		return fmt.Errorf("writing pid: %w", err)
	}
	if _, err := lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return fmt.Errorf("writing pid: %w", err)
	}
	return nil
}

func removePid(dir string) error {
	if err := os.Remove(filepath.Join(dir, "pid")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing pid: %w", err)
	}
	return nil
}

// removeData removes all data except the logs. It also runs before a start, because a cluster that
// crashed leaves its data.
func removeData(dir string) error {
	names := []string{"etcd", "weir-data", "pki", "env", "kwok.yaml", "kubeconfig"}
	configs, err := filepath.Glob(filepath.Join(dir, "*.kubeconfig"))
	if err != nil {
		return fmt.Errorf("listing kubeconfigs: %w", err)
	}
	for _, name := range names {
		configs = append(configs, filepath.Join(dir, name))
	}
	for _, path := range configs {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("removing data: %w", err)
		}
	}
	return nil
}
