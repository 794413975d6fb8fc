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
	// unlimited is where memory is the scarcer in a process that has no limit.
	unlimited = 700 << 20
	// ofContainer is where that of a container has a limit.
	ofContainer = "/sys/fs/cgroup/memory.max"
)

// Grow sets both, unless the environment says otherwise.
func Grow() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit(ofContainer))
	}
}

// limit is four fifths of what the container may take, which the file names: the rest is
// for what an etcd of weir-apiserver maps.
func limit(file string) int64 {
	content, err := os.ReadFile(file)
	if err != nil {
		return unlimited
	}
	most, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
	if err != nil { // the word max
		return unlimited
	}
	return most / 5 * 4
}
