// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// limitFiles makes all writes of a process to files fail.
func limitFiles(pid int) error {
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{}, nil); err != nil {
		return fmt.Errorf("limiting the files of process %d: %w", pid, err)
	}
	return nil
}
