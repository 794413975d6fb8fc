// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package cluster

import (
	"errors"
	"syscall"
)

// childAttributes has no effect here: unlike on Linux, the children continue if this process is
// killed with SIGKILL.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

func limitFiles(int) error { return errors.New("this system cannot limit another process") }
