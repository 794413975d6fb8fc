// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package heap answers one question: how much memory does a process of Weir take
// so as to spend less time on collecting garbage?
package heap

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

const (
	// percent is how much is allocated, of what is in use, until garbage is collected. With
	// the default of 100 a busy process of a few dozen MiB does so several times a second.
	percent = 300
	// defaultLimit bounds the heap where no container has a limit.
	defaultLimit = 700 << 20
	// containerLimit is the file that has the memory limit of the container, in bytes.
	containerLimit = "/sys/fs/cgroup/memory.max"
)

// Grow sets how much is allocated, and the limit, unless the environment says otherwise.
func Grow() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit(containerLimit))
	}
}

// Container returns the memory limit of the container in bytes; 0 if there is none.
func Container() int64 { return memoryIn(containerLimit) }

// limit is four fifths of the memory limit in the file: the rest is for what an etcd of
// weir-apiserver maps.
func limit(file string) int64 {
	if most := memoryIn(file); most > 0 {
		return most / 5 * 4
	}
	return defaultLimit
}

// memoryIn returns the memory limit in a file; 0 if it has none.
func memoryIn(file string) int64 {
	content, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	most, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
	if err != nil { // the word max
		return 0
	}
	return most
}
