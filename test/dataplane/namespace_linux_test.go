// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && traffic

package dataplane

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// rerunInNamespace runs this program again in a network namespace. Root needs no user namespace;
// other users, and root without the permission, try one.
func rerunInNamespace() (int, error) {
	// The child must end with this process. The kernel ties this to the thread that forked.
	runtime.LockOSThread()
	program, err := os.Executable()
	if err != nil {
		return 1, fmt.Errorf("finding this program: %w", err)
	}
	attempts := []*syscall.SysProcAttr{{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWUSER, Pdeathsig: syscall.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}}
	if os.Getuid() == 0 {
		attempts = slices.Insert(attempts, 0, &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL})
	}
	for _, attributes := range attempts {
		cmd := exec.Command(program, os.Args[1:]...)
		cmd.Env = append(os.Environ(), insideEnv+"=1")
		cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = os.Stdout, os.Stderr, attributes
		if err = cmd.Start(); err == nil {
			return awaitChild(cmd)
		}
	}
	return 0, asNamespaceError(fmt.Errorf("making a namespace: %w", err))
}

// awaitChild waits for the child. The child also receives signals of the terminal.
func awaitChild(cmd *exec.Cmd) (int, error) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	go func() {
		for s := range signals {
			if s == syscall.SIGTERM {
				_ = cmd.Process.Signal(s) // the child may have just ended
			}
		}
	}()
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return 1, fmt.Errorf("waiting for the program inside: %w", err)
	}
	return cmd.ProcessState.ExitCode(), nil
}

// asNamespaceError distinguishes errors of machines that do not allow namespaces from other errors.
func asNamespaceError(err error) error {
	for _, errno := range []error{unix.EPERM, unix.EACCES, unix.EINVAL, unix.ENOSPC, unix.ENOSYS, unix.EUSERS} {
		if errors.Is(err, errno) {
			return namespaceError{err}
		}
	}
	return err
}

// connect enables the loopback interface and adds the addresses of all pods to it: all addresses of
// a network that is added to a loopback interface are local, as with 127.0.0.0/8.
func connect() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening a socket: %w", err)
	}
	defer func() { _ = unix.Close(socket) }() // the socket transfers no data
	up := func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil }
	for _, step := range []struct {
		name    string
		request uint
		set     func(*unix.Ifreq) error
	}{
		{"lo", unix.SIOCSIFFLAGS, up},
		{"lo:pods", unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr([]byte{10, 244, 0, 0}) }},
		{"lo:pods", unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr([]byte{255, 255, 0, 0}) }},
	} {
		ifreq, err := unix.NewIfreq(step.name)
		if err == nil {
			err = step.set(ifreq)
		}
		if err == nil {
			err = unix.IoctlIfreq(socket, step.request, ifreq)
		}
		if err != nil {
			return asNamespaceError(fmt.Errorf("setting up %s: %w", step.name, err))
		}
	}
	return nil
}

// childAttributes make the child end with this process, but not with Ctrl-C.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
