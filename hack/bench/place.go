// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/weir-rollouts/weir/test/cluster"
)

// place is the control plane, and what can be measured of it.
type place struct {
	kubeconfig string
	podReady   cluster.Range
	stores     named
	processes  named
	// apart runs the controllers in a process of their own.
	apart bool
	// profiles is a directory for profiles of Weir's processes, if wanted.
	profiles string
	// heap is the limit of memory of Weir's processes; empty has theirs.
	heap string
	// profiling has Weir's processes serve profiles, as do those.
	profiling bool

	config *rest.Config
	// servers are where requests are counted.
	servers []*rest.Config
	// controller is the page of metrics of weir-controller.
	controller string
	own        *cluster.Cluster
	// stops end what runs beside a control plane of our own, and fail ends the
	// measurement if that ends by itself.
	stops []func()
	fail  func(error)
}

// limitHeap sets the limit of memory. The runtime of a process that cannot read it ends it.
func (p *place) limitHeap(text string) error {
	if !memory.MatchString(text) {
		return errors.New("want a size such as 560MiB")
	}
	p.heap = text
	return nil
}

var memory = regexp.MustCompile(`^[1-9][0-9]*(B|KiB|MiB|GiB|TiB)?$`)

func (p *place) open(ctx context.Context, s system) error {
	if p.kubeconfig == "" {
		return s.start(ctx, p)
	}
	var err error
	if p.config, err = clientcmd.BuildConfigFromFlags("", p.kubeconfig); err != nil {
		return fmt.Errorf("reading %s: %w", p.kubeconfig, err)
	}
	p.unlimited()
	return nil
}

// unlimited lets the driver go as fast as it can.
func (p *place) unlimited() {
	p.config.QPS = -1
	p.servers = append(p.servers, p.config)
}

// plane starts a control plane of our own.
func (p *place) plane(ctx context.Context, options cluster.Options) error {
	options.PodReady, options.Log = p.podReady, os.Stderr
	var err error
	if p.own, err = cluster.Start(ctx, options); err != nil {
		return fmt.Errorf("starting a control plane: %w", err)
	}
	p.config = p.own.Config()
	p.unlimited()
	p.stores = append(p.stores, entry{"cluster", "http://" + p.own.Address(cluster.Etcd)})
	return p.count(cluster.KubeAPIServer, cluster.Etcd, cluster.ControllerManager, cluster.Scheduler, cluster.Kwok)
}

// count has the CPU and memory of processes of the cluster measured.
func (p *place) count(names ...string) error {
	for _, name := range names {
		pid, err := p.own.Pid(name)
		if err != nil {
			return err
		}
		p.processes = append(p.processes, entry{name, strconv.Itoa(pid)})
	}
	return nil
}

// spawn starts a process beside the control plane, and waits until it is healthy.
func (p *place) spawn(ctx context.Context, name string, cmd *exec.Cmd, log, healthz string) error {
	out, err := os.Create(log)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", name, err)
	}
	ended := make(chan struct{})
	p.stops = append(p.stops, func() {
		_ = cmd.Process.Kill() // it has nothing to lose
		<-ended
	})
	go func() {
		_ = cmd.Wait() // ProcessState says all there is to say
		p.fail(fmt.Errorf("%s ended: %s, see %s", name, cmd.ProcessState, log))
		close(ended)
	}()
	p.processes = append(p.processes, entry{name, strconv.Itoa(cmd.Process.Pid)})
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := until(ctx, func(ctx context.Context) (bool, error) { return answers(ctx, healthz) }); err != nil {
		return fmt.Errorf("waiting for %s, see %s: %w", name, log, err)
	}
	return nil
}

// answers reports whether a page is served.
func answers(ctx context.Context, url string) (bool, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, nil //nolint:nilerr // it does not listen yet
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK, nil
}

func (p *place) close() error {
	for _, stop := range p.stops {
		stop()
	}
	if p.own == nil {
		return nil
	}
	return p.own.Stop()
}
