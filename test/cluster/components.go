// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/weir-rollouts/weir/test/patience"
)

// program is the command of a process and its readiness check.
type program struct {
	path string
	args []string
	// env is added to the environment.
	env []string
	// ready is called until it returns nil; nil means that the process is ready once it runs.
	ready func(ctx context.Context) error
}

// startTimeout only ends a process that hangs.
const startTimeout = patience.Long

func (c *Cluster) program(name string) program {
	p := program{path: filepath.Join(c.opts.Bin, name)}
	switch deployment(name) {
	case Etcd:
		p.args, p.ready = c.etcdArgs(), httpOK("http://"+c.Address(Etcd)+"/readyz")
	case KubeAPIServer:
		p.args, p.ready = c.apiserverArgs(), c.apiserverReady
	case ControllerManager:
		p.args, p.ready = c.controllerManagerArgs(), httpOK("https://"+c.Address(name)+"/healthz")
	case Scheduler:
		p.args, p.ready = c.schedulerArgs(), httpOK("https://"+c.Address(name)+"/healthz")
	case Kwok:
		p.args = []string{"--kubeconfig=" + c.path(Kwok+".kubeconfig"), "--config=" + c.path(stagesFile),
			"--manage-all-nodes", "--cidr=10.244.0.0/16"}
	case WeirEtcd:
		p.path, p.args = filepath.Join(c.opts.Bin, Etcd), c.weirEtcdArgs()
		p.ready = httpOK("http://" + c.Address(weirEtcdMetrics) + "/readyz")
	case WeirAPIServer:
		p.path, p.args, p.env = filepath.Join(c.opts.WeirBin, WeirAPIServer), c.weirAPIServerArgs(name), c.opts.WeirEnv
		p.ready = func(ctx context.Context) error {
			if err := c.weirReady(ctx, name); err != nil || c.opts.Apart || slices.Contains(c.extraArgsOf(name), withoutControllers) {
				return err
			}
			return c.controllerReady(name)(ctx)
		}
	case WeirController:
		p.path, p.args, p.env = filepath.Join(c.opts.WeirBin, WeirController), c.weirControllerArgs(name), c.opts.WeirEnv
		p.ready = c.controllerReady(name)
	}
	return p
}

// extraArgsOf are the additional arguments of a process.
func (c *Cluster) extraArgsOf(name string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.extraArgs[name]
}

func (c *Cluster) controllerReady(name string) func(context.Context) error {
	return httpOK("http://127.0.0.1:" + c.port(replicaPort(controllerHealth, name)) + "/readyz")
}

func (c *Cluster) etcdArgs() []string {
	client := "http://" + c.Address(Etcd)
	peer := "http://127.0.0.1:" + c.port(etcdPeer)
	return []string{
		"--data-dir=" + c.path("etcd"),
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=default=" + peer,
		// A test cluster may be lost in a power failure. Without fsync, etcd is much faster.
		"--unsafe-no-fsync",
		"--watch-progress-notify-interval=5s",
		"--log-level=warn",
	}
}

func (c *Cluster) apiserverArgs() []string {
	file := c.pki.file
	return append(c.auditArgs(),
		"--etcd-servers=http://"+c.Address(Etcd),
		"--bind-address=127.0.0.1", "--secure-port="+c.port(KubeAPIServer),
		// Without these flags, kube-apiserver looks for a non-loopback interface, and does not
		// start on a machine without one.
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.96.0.0/16",
		"--tls-cert-file="+file(KubeAPIServer+".crt"), "--tls-private-key-file="+file(KubeAPIServer+".key"),
		"--client-ca-file="+file("ca.crt"),
		"--service-account-key-file="+file("sa.pub"), "--service-account-signing-key-file="+file("sa.key"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-extend-token-expiration=false",
		"--authorization-mode=RBAC",
		"--allow-privileged=true",
		"--requestheader-client-ca-file="+file("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-uid-headers=X-Remote-Uid",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file="+file("front-proxy-client.crt"),
		"--proxy-client-key-file="+file("front-proxy-client.key"),
	)
}

func (c *Cluster) controllerManagerArgs() []string {
	return append(c.componentArgs(ControllerManager),
		"--service-account-private-key-file="+c.pki.file("sa.key"),
		"--root-ca-file="+c.pki.file("ca.crt"),
		"--use-service-account-credentials",
	)
}

func (c *Cluster) schedulerArgs() []string { return c.componentArgs(Scheduler) }

// componentArgs raise the client-side rate limits, which would otherwise dominate a test with many
// pods.
func (c *Cluster) componentArgs(name string) []string {
	return []string{
		"--kubeconfig=" + c.path(name+".kubeconfig"),
		"--bind-address=127.0.0.1", "--secure-port=" + c.port(name),
		"--leader-elect=false",
		"--kube-api-qps=2000", "--kube-api-burst=2000",
	}
}

func (c *Cluster) apiserverReady(ctx context.Context) error {
	client, err := rest.HTTPClientFor(c.Config())
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	return get(ctx, client, "https://"+c.Address(KubeAPIServer)+"/readyz")
}

// httpOK accepts any certificate: kube-scheduler and kube-controller-manager use self-signed ones,
// and this is only a health check on a port of this machine.
func httpOK(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		transport := &http.Transport{
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
			DisableKeepAlives: true,
		}
		return get(ctx, &http.Client{Transport: transport}, url)
	}
}

func get(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // errors of single attempts do not matter
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, 2048))
	if err != nil {
		return err
	}
	return fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(body)))
}

// run starts a process and waits until it is ready.
func (c *Cluster) run(ctx context.Context, name string) error {
	if err := c.spawn(name); err != nil {
		return err
	}
	return c.await(ctx, name)
}

func (c *Cluster) spawn(name string) error {
	// The first start creates the log, a restart appends to it.
	mode := os.O_CREATE | os.O_WRONLY | os.O_APPEND
	if _, err := c.find(name); err != nil {
		mode |= os.O_TRUNC
	}
	log, err := os.OpenFile(c.path(name+".log"), mode, 0o644)
	if err != nil {
		return fmt.Errorf("opening the log of %s: %w", name, err)
	}
	defer log.Close()
	program := c.program(name)
	c.mu.Lock()
	args := slices.Concat(program.args, c.extraArgs[name])
	c.mu.Unlock()
	cmd := exec.Command(program.path, args...)
	cmd.Dir = c.opts.Dir
	cmd.Env = append(os.Environ(), program.env...)
	p, err := c.spawner.launch(name, cmd, log, func(p *process) {
		c.logf("%s ended unexpectedly: %s", p.name, p.cmd.ProcessState)
		c.restart(p)
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.procs[name] = p
	return nil
}

// restart does what the kubelet does for controllers that have exited, for example because their
// lease expired on a busy machine. A process that panicked, which has another exit code, is not
// restarted.
func (c *Cluster) restart(p *process) {
	c.restarts.Lock()
	defer c.restarts.Unlock()
	if deployment(p.name) != c.processOf(WeirController) || p.cmd.ProcessState.ExitCode() != 1 || c.stopping {
		return
	}
	if err := c.spawn(p.name); err != nil {
		c.logf("restarting %s: %v", p.name, err)
	}
}

func (c *Cluster) await(ctx context.Context, name string) error {
	ready := c.program(name).ready
	if ready == nil {
		return nil
	}
	began := time.Now()
	if err := c.poll(ctx, "waiting for "+name, ready); err != nil {
		p, findErr := c.find(name)
		if findErr == nil && c.firstDead() == nil {
			err = fmt.Errorf("%w\n%s", err, p.tail())
		}
		return errors.Join(err, findErr)
	}
	c.logf("%s ready after %.1f s", name, time.Since(began).Seconds())
	return nil
}

// poll waits until the condition returns nil, as long as all processes run.
func (c *Cluster) poll(ctx context.Context, doing string, ask func(context.Context) error) error {
	ctx, cancel := patience.Context(ctx, startTimeout)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		if dead := c.firstDead(); dead != nil {
			return fmt.Errorf("%s: %s ended: %s\n%s", doing, dead.name, dead.cmd.ProcessState, dead.tail())
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w, last answer: %w", doing, context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}

// firstDead returns a process that ended unexpectedly.
func (c *Cluster) firstDead() *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.procs {
		p.mu.Lock()
		ending := p.ending
		p.mu.Unlock()
		if !ending && !p.running() {
			return p
		}
	}
	return nil
}
