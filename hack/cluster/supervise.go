// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/weir-rollouts/weir/test/cluster"
)

// logFile has the output of the supervisor.
const logFile = "cluster.log"

// readyFD is the pipe on which the supervisor reports to up: readyWord, or an error.
const readyFD = 3

// up starts the supervisor and waits until everything is ready.
func up(dir string, flags []string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making %s: %w", dir, err)
	}
	lock, err := lockPid(dir)
	if err != nil {
		return err
	}
	// The supervisor takes the lock again. It fails if another supervisor was faster.
	if err := lock.Close(); err != nil {
		return fmt.Errorf("unlocking %s: %w", dir, err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	log, err := os.Create(filepath.Join(dir, logFile))
	if err != nil {
		return fmt.Errorf("making the log: %w", err)
	}
	defer log.Close()
	reader, writer, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("making a pipe: %w", err)
	}
	defer reader.Close()
	cmd := exec.Command(self, append(append([]string{"supervise"}, flags...), dir)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{writer}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return errors.Join(fmt.Errorf("starting the supervisor: %w", err), writer.Close())
	}
	if err := writer.Close(); err != nil {
		return fmt.Errorf("closing the pipe: %w", err)
	}
	if err := awaitReady(cmd, reader); err != nil {
		return err
	}
	fmt.Fprintf(os.Stdout, "Ready. To use it: . %s\n", filepath.Join(dir, "env"))
	return nil
}

// awaitReady waits until the supervisor is ready or has ended. Ctrl-C ends both processes.
func awaitReady(cmd *exec.Cmd, reader io.Reader) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	answered := make(chan string, 1)
	go func() {
		message, err := io.ReadAll(reader)
		if err != nil {
			message = append(message, err.Error()...)
		}
		answered <- string(message)
	}()
	select {
	case message := <-answered:
		if message == readyWord {
			return nil
		}
		if message == "" {
			message = "the supervisor ended without a message; see " + logFile
		}
		return errors.Join(errors.New(message), ignoreExit(cmd.Wait()))
	case <-ctx.Done():
		err := cmd.Process.Signal(syscall.SIGTERM)
		return errors.Join(errors.New("interrupted"), err, ignoreExit(cmd.Wait()))
	}
}

const readyWord = "ready"

// ignoreExit removes an exit code, because the supervisor has reported its error already.
func ignoreExit(err error) error {
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil
	}
	return err
}

// supervise runs the cluster until SIGTERM.
func supervise(opts cluster.Options, users []string) error {
	// The processes of the cluster must not inherit the pipe.
	syscall.CloseOnExec(readyFD)
	tell := os.NewFile(readyFD, "ready")
	answer := func(word string) error {
		_, err := io.WriteString(tell, word)
		return errors.Join(err, tell.Close())
	}
	if err := runCluster(opts, users, answer); err != nil {
		// up may have ended, or may have its answer. The log has the error, too.
		_ = answer(err.Error())
		return err
	}
	return nil
}

func runCluster(opts cluster.Options, users []string, answer func(string) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	lock, err := lockPid(opts.Dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := removeData(opts.Dir); err != nil {
		return err
	}
	if err := writePid(lock); err != nil {
		return err
	}
	opts.Log = os.Stderr
	c, err := cluster.Start(ctx, opts)
	if err != nil {
		return errors.Join(err, removePid(opts.Dir))
	}
	err = errors.Join(writeEnv(c), writeUsers(c, users))
	if err == nil {
		err = answer(readyWord)
	}
	if err != nil {
		return errors.Join(err, c.Stop(), removePid(opts.Dir))
	}
	<-ctx.Done()
	// A second signal ends this process at once, and its children with it.
	stop()
	return errors.Join(c.Stop(), removeData(opts.Dir), removePid(opts.Dir))
}

// writeEnv writes the file that a shell sources to use the cluster with kubectl and its plugin weir.
func writeEnv(c *cluster.Cluster) error {
	text := fmt.Sprintf("export KUBECONFIG=%s\nexport PATH=%s:%s:$PATH\n", quote(c.Kubeconfig()), quote(c.Bin()), quote(c.WeirBin()))
	if err := os.WriteFile(filepath.Join(c.Dir(), "env"), []byte(text), 0o644); err != nil {
		return fmt.Errorf("writing env: %w", err)
	}
	return nil
}

// writeUsers writes a kubeconfig for each user.
func writeUsers(c *cluster.Cluster, users []string) error {
	for _, name := range users {
		if _, err := c.KubeconfigAs(name); err != nil {
			return err
		}
	}
	return nil
}

// quote quotes a string for a POSIX shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// down ends the cluster of a directory, waits until all its processes have ended, and removes its data.
func down(dir string) error {
	if _, err := os.Stat(dir); err != nil {
		return fmt.Errorf("finding the cluster: %w", err)
	}
	lock, err := lockPid(dir)
	if err == nil {
		// The supervisor has ended, and its children with it.
		defer lock.Close()
		fmt.Fprintf(os.Stdout, "No cluster is running in %s.\n", dir)
		return errors.Join(removeData(dir), removePid(dir))
	}
	var running *runningError
	if !errors.As(err, &running) {
		return err
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := syscall.Kill(running.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("ending process %d: %w", running.pid, err)
		}
		if lock := awaitLock(dir, time.Minute); lock != nil {
			defer lock.Close()
			return errors.Join(removeData(dir), removePid(dir))
		}
	}
	return fmt.Errorf("ending process %d: it still runs", running.pid)
}

// awaitLock waits until the supervisor has ended and its lock is free. It returns nil after the timeout.
func awaitLock(dir string, timeout time.Duration) *os.File {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(timeout)
	for {
		if lock, err := lockPid(dir); err == nil {
			return lock
		}
		select {
		case <-deadline:
			return nil
		case <-ticker.C:
		}
	}
}
