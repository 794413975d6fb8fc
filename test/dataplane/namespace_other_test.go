// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && traffic && !linux

package dataplane

import (
	"errors"
	"runtime"
	"syscall"
)

// again says that there is no network namespace to be had.
func again() (int, error) { return 0, refusal{errors.New(runtime.GOOS + " has none")} }

func connect() error { return nil }

func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
