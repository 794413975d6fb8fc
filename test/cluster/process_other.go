// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package cluster

import (
	"errors"
	"syscall"
)

// childAttributes cannot promise here what it promises on Linux: if we are
// killed with SIGKILL, the children stay.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

func limitFiles(int) error { return errors.New("no limit for another process can be set here") }
