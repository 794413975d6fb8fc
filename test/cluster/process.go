// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/weir-rollouts/weir/test/patience"
)

// spawner starts processes from one thread that lives as long as the cluster.
//
// The kernel ties "kill me when my parent dies" to the thread that forked, not
// to the process. A goroutine that never leaves its thread therefore starts all
// children; when it returns, without unlocking, the thread ends and with it
// whatever child is still there.
type spawner struct {
	requests chan func()
	once     sync.Once
}

func newSpawner() *spawner {
	s := &spawner{requests: make(chan func())}
	go func() {
		runtime.LockOSThread()
		for start := range s.requests {
			start()
		}
	}()
	return s
}

func (s *spawner) start(cmd *exec.Cmd) error {
	result := make(chan error)
	s.requests <- func() { result <- cmd.Start() }
	return <-result
}

func (s *spawner) close() { s.once.Do(func() { close(s.requests) }) }

// process is one child.
type process struct {
	name string
	log  string
	cmd  *exec.Cmd
	// exited is closed when it is gone.
	exited chan struct{}

	mu sync.Mutex
	// ending means that we have asked for the end, so it is not a surprise.
	ending bool
}

// launch starts a process in a group of its own, so that Ctrl-C reaches only us
// and we can end everything in order. unexpected is told of an end nobody asked for.
func (s *spawner) launch(name string, cmd *exec.Cmd, out *os.File, unexpected func(*process)) (*process, error) {
	fmt.Fprintf(out, "--- %s\n", strings.Join(cmd.Args, " "))
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = childAttributes()
	p := &process{name: name, log: out.Name(), cmd: cmd, exited: make(chan struct{})}
	if err := s.start(cmd); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		_ = cmd.Wait() // ProcessState says all there is to say
		close(p.exited)
		p.mu.Lock()
		surprise := !p.ending
		p.mu.Unlock()
		if surprise {
			unexpected(p)
		}
	}()
	return p, nil
}

func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// signal sends sig to the process itself; ending tells that it is meant to go.
func (p *process) signal(sig os.Signal, ending bool) error {
	p.mu.Lock()
	p.ending = p.ending || ending
	p.mu.Unlock()
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("sending %s to %s: %w", sig, p.name, err)
	}
	return nil
}

// stop asks politely, and insists after a while.
func (p *process) stop(limit time.Duration) {
	if !p.running() {
		return
	}
	// Errors do not matter, since SIGKILL follows. SIGCONT is for a process that a
	// test has stopped, which would not see SIGTERM.
	_ = p.signal(syscall.SIGTERM, true)
	_ = p.signal(syscall.SIGCONT, true)
	select {
	case <-p.exited:
		return
	case <-time.After(limit):
	}
	_ = p.signal(syscall.SIGKILL, true) // it can only fail for a process already gone
	<-p.exited
}

// tail is the end of the log, for an error that has to explain itself.
func (p *process) tail() string {
	const size = 4096
	f, err := os.Open(p.log)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > size {
		if _, err := f.Seek(-size, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("end of %s:\n%s", p.log, strings.TrimSpace(string(data)))
}

// Kill ends a process as a crash would, with SIGKILL, and returns when it is gone.
// In one process the controllers are gone when the server runs again without them.
func (c *Cluster) Kill(name string) error {
	if c.runsWithoutControllers(name) {
		return nil
	}
	p, err := c.find(name)
	if err != nil {
		return err
	}
	if err := p.signal(syscall.SIGKILL, true); err != nil {
		return err
	}
	<-p.exited
	return c.restartWithoutControllers(name)
}

// withoutControllers has a weir-apiserver run none.
const withoutControllers = "--controllers=none"

// runsWithoutControllers reports whether a server runs without the controllers that are asked for.
func (c *Cluster) runsWithoutControllers(name string) bool {
	server := c.processOf(name)
	return server != name && slices.Contains(c.extraArgsOf(server), withoutControllers)
}

// restartWithoutControllers starts the server again, without controllers, where these were what was to go.
func (c *Cluster) restartWithoutControllers(name string) error {
	if server := c.processOf(name); server != name {
		return c.StartWith(server, withoutControllers)
	}
	return nil
}

// End asks a process to end, as a kubelet would, and returns when it is gone. A
// replica has as long as its manifest gives it.
func (c *Cluster) End(name string) error {
	if c.runsWithoutControllers(name) {
		return nil
	}
	p, err := c.find(name)
	if err != nil || !p.running() {
		return err // with a server that has ended its controllers have, too
	}
	p.stop(patience.Long)
	return c.restartWithoutControllers(name)
}

// Signal sends a signal to a process, SIGSTOP and SIGCONT for instance.
func (c *Cluster) Signal(name string, sig syscall.Signal) error {
	p, err := c.find(name)
	if err != nil {
		return err
	}
	return p.signal(sig, sig == syscall.SIGTERM || sig == syscall.SIGINT || sig == syscall.SIGKILL)
}

// FillDisk takes the disk away from a process: whatever it writes to a file from
// now on is refused, as by a disk that is full, until it is started again.
func (c *Cluster) FillDisk(name string) error {
	p, err := c.find(name)
	if err != nil {
		return err
	}
	// It may well end by this.
	p.mu.Lock()
	p.ending = true
	p.mu.Unlock()
	return limitFiles(p.cmd.Process.Pid)
}

// Start starts a process again that was killed, with the same arguments, ports
// and data, and returns when it answers.
func (c *Cluster) Start(name string) error { return c.StartWith(name) }

// StartWith is Start with more arguments, which are the process's until it is
// started once more.
func (c *Cluster) StartWith(name string, args ...string) error {
	asked := name
	name = c.processOf(name)
	p, err := c.find(name)
	if err != nil {
		return err
	}
	if asked != name || p.running() && slices.Contains(c.extraArgsOf(name), withoutControllers) {
		p.stop(patience.Long) // it runs without the controllers, which are wanted again
	}
	if p.running() {
		return fmt.Errorf("starting %s: it is running", name)
	}
	c.mu.Lock()
	c.extraArgs[name] = args
	c.mu.Unlock()
	ctx, cancel := patience.Context(context.Background(), patience.Long)
	defer cancel()
	return c.run(ctx, name)
}

// Pid is the process id of a process, running or not.
func (c *Cluster) Pid(name string) (int, error) {
	p, err := c.find(name)
	if err != nil {
		return 0, err
	}
	return p.cmd.Process.Pid, nil
}

// processOf is the process that has what is asked of the one of a name.
func (c *Cluster) processOf(name string) string {
	if rest, found := strings.CutPrefix(name, WeirController); found && !c.opts.Apart {
		return WeirAPIServer + rest
	}
	return name
}

func (c *Cluster) find(name string) (*process, error) {
	name = c.processOf(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.procs[name]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("finding process %q: this cluster has none of that name", name)
}
