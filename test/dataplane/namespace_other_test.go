// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && traffic && !linux

package dataplane

import (
	"errors"
	"runtime"
	"syscall"
)

// rerunInNamespace reports that this system has no network namespaces.
func rerunInNamespace() (int, error) {
	return 0, namespaceError{errors.New(runtime.GOOS + " has no network namespaces")}
}

func connect() error { return nil }

func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
