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
// The kernel ties the parent death signal to the thread that forked, not to the process. Therefore
// one goroutine that is locked to its thread starts all children. When it returns without
// unlocking, the thread ends, and with it all remaining children.
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

// process is a child process.
type process struct {
	name string
	log  string
	cmd  *exec.Cmd
	// exited is closed when the process has ended.
	exited chan struct{}

	mu sync.Mutex
	// ending reports whether the process was asked to end.
	ending bool
}

// launch starts a process in its own process group, so that Ctrl-C does not reach it and Stop can
// end all processes in order. It calls unexpected if the process ends without being asked to.
func (s *spawner) launch(name string, cmd *exec.Cmd, out *os.File, unexpected func(*process)) (*process, error) {
	fmt.Fprintf(out, "--- %s\n", strings.Join(cmd.Args, " "))
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = childAttributes()
	p := &process{name: name, log: out.Name(), cmd: cmd, exited: make(chan struct{})}
	if err := s.start(cmd); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		_ = cmd.Wait() // ProcessState has the result
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

// signal sends a signal to the process; ending reports that the process is expected to end.
func (p *process) signal(sig os.Signal, ending bool) error {
	p.mu.Lock()
	p.ending = p.ending || ending
	p.mu.Unlock()
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("sending %s to %s: %w", sig, p.name, err)
	}
	return nil
}

// stop terminates the process, and kills it after the limit.
func (p *process) stop(limit time.Duration) {
	if !p.running() {
		return
	}
	// Errors do not matter, because SIGKILL follows. A stopped process needs SIGCONT to handle
	// SIGTERM.
	_ = p.signal(syscall.SIGTERM, true)
	_ = p.signal(syscall.SIGCONT, true)
	select {
	case <-p.exited:
		return
	case <-time.After(limit):
	}
	_ = p.signal(syscall.SIGKILL, true) // this can only fail for a process that has ended
	<-p.exited
}

// tail is the end of the log, for error messages.
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

// Kill kills a process with SIGKILL, as in a crash, and returns when it has ended. If the
// controllers run in weir-apiserver, killing weir-controller restarts the server without them.
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

// withoutControllers is a flag with which weir-apiserver runs no controllers.
const withoutControllers = "--controllers=none"

// runsWithoutControllers reports whether the name is that of a controller whose server runs without
// controllers.
func (c *Cluster) runsWithoutControllers(name string) bool {
	server := c.processOf(name)
	return server != name && slices.Contains(c.extraArgsOf(server), withoutControllers)
}

// restartWithoutControllers restarts the server without controllers, if the name is that of a
// controller in it.
func (c *Cluster) restartWithoutControllers(name string) error {
	if server := c.processOf(name); server != name {
		return c.StartWith(server, withoutControllers)
	}
	return nil
}

// End terminates a process as the kubelet does, and returns when it has ended. A replica has the
// grace period of its manifest.
func (c *Cluster) End(name string) error {
	if c.runsWithoutControllers(name) {
		return nil
	}
	p, err := c.find(name)
	if err != nil || !p.running() {
		return err // the controllers in a server end with it
	}
	p.stop(patience.Long)
	return c.restartWithoutControllers(name)
}

// Signal sends a signal to a process, for example SIGSTOP and SIGCONT.
func (c *Cluster) Signal(name string, sig syscall.Signal) error {
	p, err := c.find(name)
	if err != nil {
		return err
	}
	return p.signal(sig, sig == syscall.SIGTERM || sig == syscall.SIGINT || sig == syscall.SIGKILL)
}

// FillDisk makes all writes of a process to files fail, as with a full disk, until the process is
// restarted.
func (c *Cluster) FillDisk(name string) error {
	p, err := c.find(name)
	if err != nil {
		return err
	}
	// The process may end because of this.
	p.mu.Lock()
	p.ending = true
	p.mu.Unlock()
	return limitFiles(p.cmd.Process.Pid)
}

// Start restarts a killed process with the same arguments, ports and data, and returns when it is
// ready.
func (c *Cluster) Start(name string) error { return c.StartWith(name) }

// StartWith is Start with additional arguments, which the process keeps until it is started again.
func (c *Cluster) StartWith(name string, args ...string) error {
	asked := name
	name = c.processOf(name)
	p, err := c.find(name)
	if err != nil {
		return err
	}
	if asked != name || p.running() && slices.Contains(c.extraArgsOf(name), withoutControllers) {
		p.stop(patience.Long) // the server runs without controllers and must be restarted with them
	}
	if p.running() {
		return fmt.Errorf("starting %s: the process is already running", name)
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

// processOf is the name of the process that runs the component with this name.
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
