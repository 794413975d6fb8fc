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

// lostOnRestart is the reason why a directory loses its content at a restart,
// empty if it keeps it.
func lostOnRestart(dir string) (string, error) {
	memory, err := inMemory(dir)
	if err != nil || memory {
		return "in memory", err
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if errors.Is(err, fs.ErrNotExist) { // not Linux
		return "", nil
	}
	if onEmptyDir(string(mounts), dir) {
		return "on an emptyDir", err
	}
	return "", err
}

// inMemory reports whether the nearest directory that exists is kept in memory.
func inMemory(dir string) (bool, error) {
	var fs unix.Statfs_t
	err := unix.Statfs(dir, &fs)
	for errors.Is(err, unix.ENOENT) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		err = unix.Statfs(dir, &fs)
	}
	return fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC, err
}

// onEmptyDir reports whether a directory is on a volume that is deleted with its
// pod. The kubelet mounts a directory of the node, and its path names the plugin.
func onEmptyDir(mounts, dir string) bool {
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
