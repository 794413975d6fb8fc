// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package heap answers one question: how much memory does a process of Weir take
// so as to spend less time on collecting garbage?
package heap

import (
	"os"
	"runtime/debug"
)

// percent is how much is allocated, of what is in use, until garbage is collected.
// With the default of 100 a busy process of a few dozen MiB does so several times
// a second. limit is where memory is the scarcer: in the GiB that each is to do with
// it leaves room for what an etcd of weir-apiserver maps beside.
const (
	percent = 300
	limit   = 700 << 20
)

// Grow sets both, unless the environment says otherwise.
func Grow() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit)
	}
}
