// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/weir-rollouts/weir/artifacts"
)

// Names of the processes, as Kill, Signal and Start take them. Each logs to
// <Dir>/<name>.log.
const (
	Etcd              = "etcd"
	KubeAPIServer     = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kwok              = "kwok"
	WeirAPIServer     = "weir-apiserver"
	WeirController    = "weir-controller"
)

// Range is a range of durations, from which a value is chosen for each pod.
type Range struct {
	Min, Max time.Duration
}

// ParseRange parses "200ms..800ms", or one duration for both ends.
func ParseRange(s string) (Range, error) {
	low, high, found := strings.Cut(s, "..")
	if !found {
		high = low
	}
	var r Range
	var err error
	if r.Min, err = time.ParseDuration(low); err != nil {
		return Range{}, fmt.Errorf("reading range %q: %w", s, err)
	}
	if r.Max, err = time.ParseDuration(high); err != nil {
		return Range{}, fmt.Errorf("reading range %q: %w", s, err)
	}
	if r.Min < 0 || r.Max < r.Min {
		return Range{}, fmt.Errorf("reading range %q: want 0 <= min <= max", s)
	}
	return r, nil
}

// Options configure a cluster. The zero value is a control plane without Weir.
type Options struct {
	// Dir contains all files: certificates, data, kubeconfigs and logs. Empty means a temporary
	// directory, which Stop removes.
	Dir string
	// Nodes is the number of nodes; 0 means 3.
	Nodes int
	// PodReady is the time from the binding of a pod until it is ready; zero means 200ms..800ms.
	PodReady Range
	// Weir also starts and registers weir-apiserver and weir-controller.
	Weir bool
	// WeirReplicas is the number of replicas of each process of Weir, with a Service and an
	// external etcd, as artifacts/ha installs them; Replica returns their names. 0 means one
	// process, as in artifacts/small.
	WeirReplicas int
	// WeirPort is the port of the API and the webhook; 0 means any free port. Replicas have other ports.
	WeirPort int
	// Apart runs weir-controller as separate processes. Otherwise, methods with the name of
	// weir-controller act on the weir-apiserver that runs the controllers.
	Apart bool
	// Audit enables the audit log of kube-apiserver for Weir's processes, and additional permission
	// checks that not every cluster has.
	Audit bool
	// WeirEnv is added to the environment of Weir's processes.
	WeirEnv []string
	// Bin has the Kubernetes binaries; <module root>/bin/kube if empty.
	Bin string
	// WeirBin has weir-apiserver and weir-controller; <module root>/bin if empty.
	WeirBin string
	// Artifacts are the manifests from which Weir is installed; nil means those of this tree.
	Artifacts fs.FS
	// WeirApiserverArgs and WeirControllerArgs are appended to the command lines, so that they
	// override the flags of this package.
	WeirApiserverArgs, WeirControllerArgs []string
	// Log receives progress messages; nil means none.
	Log io.Writer
}

// DetectMutations is an entry for WeirEnv: a process panics soon after it changes an object of a
// cache.
const DetectMutations = "KUBE_CACHE_MUTATION_DETECTOR=true"

func (o Options) complete() (Options, error) {
	if o.Nodes == 0 {
		o.Nodes = 3
	}
	if o.PodReady == (Range{}) {
		o.PodReady = Range{Min: 200 * time.Millisecond, Max: 800 * time.Millisecond}
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	if o.Artifacts == nil {
		o.Artifacts = artifacts.Files
	}
	if o.Bin == "" || o.WeirBin == "" {
		root, err := moduleRoot()
		if err != nil {
			return o, err
		}
		if o.Bin == "" {
			o.Bin = filepath.Join(root, "bin", "kube")
		}
		if o.WeirBin == "" {
			o.WeirBin = filepath.Join(root, "bin")
		}
	}
	for _, dir := range []*string{&o.Dir, &o.Bin, &o.WeirBin} {
		if *dir == "" {
			continue
		}
		abs, err := filepath.Abs(*dir)
		if err != nil {
			return o, fmt.Errorf("resolving %s: %w", *dir, err)
		}
		*dir = abs
	}
	return o, o.checkBinaries()
}

// checkBinaries fails early. Otherwise a missing binary would only be found when half of the
// cluster is running.
func (o Options) checkBinaries() error {
	var missing []error
	check := func(dir, hint string, names ...string) {
		for _, name := range names {
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				missing = append(missing, fmt.Errorf("no %s in %s: run make %s", name, dir, hint))
			}
		}
	}
	check(o.Bin, "kube", Etcd, KubeAPIServer, ControllerManager, Scheduler, Kwok, "kubectl")
	if o.Weir {
		check(o.WeirBin, "build", WeirAPIServer, WeirController)
	}
	return errors.Join(missing...)
}

// moduleRoot is the closest parent directory with a go.mod, because tests run in the directory of
// their package.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the working directory: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("finding the module root: no go.mod here or above")
		}
		dir = parent
	}
}

// Cluster is a running control plane.
type Cluster struct {
	opts      Options
	temporary bool
	ports     map[string]*port
	pki       *pki
	spawner   *spawner
	// extraArgs are additional arguments of processes.
	extraArgs map[string][]string
	// installed are the arguments of Weir's processes in the manifests.
	installed map[string][]string
	// accounts are the service accounts of Weir's processes.
	accounts map[string]string
	// service is the load balancer of the replicas of weir-apiserver.
	service *connectionSplitter

	mu    sync.Mutex
	procs map[string]*process

	// restarts guards stopping, after which no process is restarted.
	restarts sync.Mutex
	stopping bool
}

// Start starts all processes and returns when the cluster is ready: nodes are Ready, the default
// namespace has its service account and, with Weir, its APIServices are Available. If ctx ends
// before that, or a process fails, everything is stopped again. The cluster outlives ctx; Stop ends
// it.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	opts, err := opts.complete()
	if err != nil {
		return nil, err
	}
	c := &Cluster{opts: opts, ports: map[string]*port{}, procs: map[string]*process{}, installed: map[string][]string{}, accounts: map[string]string{}, extraArgs: map[string][]string{}}
	if opts.Dir == "" {
		if c.opts.Dir, err = os.MkdirTemp("", "weir-cluster-"); err != nil {
			return nil, fmt.Errorf("making the cluster's directory: %w", err)
		}
		c.temporary = true
	} else if err := os.MkdirAll(opts.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the cluster's directory: %w", err)
	}
	c.spawner = newSpawner()
	if err := c.start(ctx); err != nil {
		// The directory is kept, because its logs explain the failure.
		c.temporary = false
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	began := time.Now()
	if err := c.prepare(); err != nil {
		return err
	}
	for _, name := range []string{Etcd, KubeAPIServer} {
		if err := c.run(ctx, name); err != nil {
			return err
		}
	}
	if err := c.createNodes(ctx); err != nil {
		return err
	}
	// These three do not depend on each other and start in parallel.
	for _, name := range []string{ControllerManager, Scheduler, Kwok} {
		if err := c.spawn(name); err != nil {
			return err
		}
	}
	for _, name := range []string{ControllerManager, Scheduler, Kwok} {
		if err := c.await(ctx, name); err != nil {
			return err
		}
	}
	if err := c.awaitNodes(ctx); err != nil {
		return err
	}
	c.logf("control plane ready after %.1f s", time.Since(began).Seconds())
	if !c.opts.Weir {
		return nil
	}
	if err := c.startWeir(ctx); err != nil {
		return err
	}
	c.logf("weir ready after %.1f s", time.Since(began).Seconds())
	return nil
}

// prepare creates what the first process needs: ports, certificates, kubeconfigs, and the pod
// lifecycle of kwok.
func (c *Cluster) prepare() error {
	for _, name := range slices.Concat(portNames, c.weirPorts()) {
		p, err := reservePort()
		if name == WeirAPIServer && c.opts.WeirPort != 0 {
			p.release()
			p, err = fixedPort(c.opts.WeirPort)
		}
		if err != nil {
			return fmt.Errorf("finding a port for %s: %w", name, err)
		}
		c.ports[name] = p
	}
	var err error
	if c.pki, err = newPKI(c.path("pki")); err != nil {
		return err
	}
	for file, user := range map[string]string{
		"kubeconfig":                      "admin",
		ControllerManager + ".kubeconfig": ControllerManager,
		Scheduler + ".kubeconfig":         Scheduler,
		Kwok + ".kubeconfig":              Kwok,
	} {
		if err := c.writeKubeconfig(c.path(file), c.pki.fileUser(user)); err != nil {
			return err
		}
	}
	return errors.Join(c.writeStages(), c.writeAuditPolicy())
}

// Stop ends all processes, clients before servers so that no client waits for a stopped server, and
// releases the ports. It may be called twice.
func (c *Cluster) Stop() error {
	c.restarts.Lock()
	c.stopping = true
	c.restarts.Unlock()
	began := time.Now()
	waves := [][]string{
		slices.Concat(c.Replicas(WeirController), c.Replicas(WeirAPIServer), []string{Kwok, Scheduler, ControllerManager}),
		{KubeAPIServer},
		{WeirEtcd, Etcd},
	}
	for _, wave := range waves {
		done := make(chan struct{}, len(wave))
		for _, name := range wave {
			go func() {
				if p, err := c.find(name); err == nil {
					p.stop(10 * time.Second)
					c.logf("%s ended after %.1f s", name, time.Since(began).Seconds())
				}
				done <- struct{}{}
			}()
		}
		for range wave {
			<-done
		}
	}
	if c.service != nil {
		c.service.close()
	}
	c.spawner.close()
	for _, p := range c.ports {
		p.release()
	}
	if c.temporary {
		if err := os.RemoveAll(c.opts.Dir); err != nil {
			return fmt.Errorf("removing the cluster's directory: %w", err)
		}
	}
	return nil
}

// Dir is the directory of this cluster.
func (c *Cluster) Dir() string { return c.opts.Dir }

// Bin is the directory of the Kubernetes binaries, including kubectl.
func (c *Cluster) Bin() string { return c.opts.Bin }

// WeirBin is the directory of Weir's binaries.
func (c *Cluster) WeirBin() string { return c.opts.WeirBin }

// WeirData is the data directory of weir-apiserver.
func (c *Cluster) WeirData() string { return c.path("weir-data") }

// Kubeconfig is the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.path("kubeconfig") }

// Config is a client configuration of the administrator.
func (c *Cluster) Config() *rest.Config {
	return c.config(c.pki.fileUser("admin"))
}

// ConfigAs is a client configuration of a user with a client certificate.
func (c *Cluster) ConfigAs(user string, groups ...string) (*rest.Config, error) {
	pair, err := c.pki.ca.issueClient(user, groups...)
	if err != nil {
		return nil, fmt.Errorf("issuing a certificate for %s: %w", user, err)
	}
	return c.config(credentials{cert: pair.cert, key: pair.key}), nil
}

// KubeconfigAs writes a kubeconfig of a user and returns its path.
func (c *Cluster) KubeconfigAs(user string, groups ...string) (string, error) {
	pair, err := c.pki.ca.issueClient(user, groups...)
	if err != nil {
		return "", fmt.Errorf("issuing a certificate for %s: %w", user, err)
	}
	path := c.path("user-" + url.PathEscape(user) + ".kubeconfig")
	return path, c.writeKubeconfig(path, credentials{cert: pair.cert, key: pair.key})
}

// Address is host:port of a process that serves HTTPS: kube-apiserver,
// kube-controller-manager, kube-scheduler, weir-apiserver.
func (c *Cluster) Address(name string) string {
	return "127.0.0.1:" + c.port(name)
}

// Metrics is the URL of weir-controller's metrics.
func (c *Cluster) Metrics() string { return c.MetricsOf(WeirController) }

// MetricsOf is the URL of the metrics of a replica of weir-controller.
func (c *Cluster) MetricsOf(name string) string {
	return "http://" + c.Address(replicaPort(controllerMetrics, name)) + "/metrics"
}

func (c *Cluster) path(elements ...string) string {
	return filepath.Join(append([]string{c.opts.Dir}, elements...)...)
}

func (c *Cluster) port(name string) string {
	return strconv.Itoa(c.ports[name].number)
}

func (c *Cluster) logf(format string, args ...any) {
	fmt.Fprintf(c.opts.Log, "cluster: "+format+"\n", args...)
}
