// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// volatileReason returns why a directory loses its content at a restart; empty if it does not.
func volatileReason(dir string) (string, error) {
	memory, err := isInMemory(dir)
	if err != nil || memory {
		return "in memory", err
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if errors.Is(err, fs.ErrNotExist) { // the system is not Linux
		return "", nil
	}
	if isOnEmptyDir(string(mounts), dir) {
		return "on an emptyDir", err
	}
	return "", err
}

// isInMemory reports whether the directory, or its nearest existing parent, is on a memory file system.
func isInMemory(dir string) (bool, error) {
	var fs unix.Statfs_t
	err := unix.Statfs(dir, &fs)
	for errors.Is(err, unix.ENOENT) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		err = unix.Statfs(dir, &fs)
	}
	return fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC, err
}

// isOnEmptyDir reports whether a directory is on an emptyDir volume, which is deleted with its pod. The
// kubelet bind-mounts a directory of the node, and the path of that directory contains the name of the
// volume plugin.
func isOnEmptyDir(mounts, dir string) bool {
	nearest, source := "", ""
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		root, point := fields[3], fields[4]
		if rest, ok := strings.CutPrefix(dir, strings.TrimSuffix(point, "/")); ok && (rest == "" || rest[0] == '/') && len(point) >= len(nearest) {
			nearest, source = point, root
		}
	}
	return strings.Contains(source, "/kubernetes.io~empty-dir/")
}
