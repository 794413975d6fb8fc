// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package cluster

import "syscall"

// childAttributes cannot promise here what it promises on Linux: if we are
// killed with SIGKILL, the children stay.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
