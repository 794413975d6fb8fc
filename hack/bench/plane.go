// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"time"

	"k8s.io/client-go/rest"

	"github.com/weir-rollouts/weir/test/cluster"
)

// plane is a control plane, and where its costs are measured.
type plane struct {
	cluster *cluster.Cluster
	// config is for kube-apiserver, without a client-side limit of requests.
	config *rest.Config
	// weir is for weir-apiserver itself, past kube-apiserver; nil without Weir.
	weir *rest.Config
	// etcds are the URLs of the stores whose revisions are counted, by name.
	etcds map[string]string
	// pids are the processes whose CPU and memory are measured, by name.
	pids map[string]int
	// stops end the processes that spawn has started.
	stops []func()
	// fail ends the measurement when such a process ends.
	fail func(error)
}

// start starts the control plane.
func (p *plane) start(ctx context.Context, podReady cluster.Range, options cluster.Options) error {
	options.PodReady, options.Log = podReady, os.Stderr
	var err error
	if p.cluster, err = cluster.Start(ctx, options); err != nil {
		return fmt.Errorf("starting a control plane: %w", err)
	}
	p.config = p.cluster.Config()
	p.config.QPS = -1
	p.etcds = map[string]string{"cluster": "http://" + p.cluster.Address(cluster.Etcd)}
	p.pids = map[string]int{}
	return p.measureProcesses(cluster.KubeAPIServer, cluster.Etcd, cluster.ControllerManager, cluster.Scheduler, cluster.Kwok)
}

// measureProcesses adds processes of the cluster to those whose costs are measured.
func (p *plane) measureProcesses(names ...string) error {
	for _, name := range names {
		var err error
		if p.pids[name], err = p.cluster.Pid(name); err != nil {
			return err
		}
	}
	return nil
}

// spawn starts a further process, and waits until its health page answers.
func (p *plane) spawn(ctx context.Context, name string, cmd *exec.Cmd, log, healthz string) error {
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
		_ = cmd.Process.Kill() // it has nothing to store
		<-ended
	})
	go func() {
		_ = cmd.Wait() // ProcessState has the result
		p.fail(fmt.Errorf("%s ended: %s, see %s", name, cmd.ProcessState, log))
		close(ended)
	}()
	p.pids[name] = cmd.Process.Pid
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := waitUntil(ctx, func(ctx context.Context) (bool, error) { return answersOK(ctx, healthz) }); err != nil {
		return fmt.Errorf("waiting for %s, see %s: %w", name, log, err)
	}
	return nil
}

// answersOK reports whether a page is served.
func answersOK(ctx context.Context, url string) (bool, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, nil //nolint:nilerr // the process does not listen yet
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK, nil
}

func (p *plane) stop() error {
	for _, stop := range p.stops {
		stop()
	}
	if p.cluster == nil {
		return nil
	}
	return p.cluster.Stop()
}
