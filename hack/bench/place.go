// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/weir-rollouts/weir/pkg/store"
	"github.com/weir-rollouts/weir/test/cluster"
)

// place is the control plane, and what can be measured of it.
type place struct {
	kubeconfig string
	podReady   cluster.Range
	stores     named
	processes  named
	// profiles is a directory for profiles of Weir's processes, if wanted.
	profiles string

	config *rest.Config
	// servers are where requests are counted.
	servers []*rest.Config
	// controller is the page of metrics of weir-controller.
	controller string
	own        *cluster.Cluster
}

func (p *place) open(ctx context.Context) error {
	if p.kubeconfig == "" {
		return p.start(ctx)
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
	p.servers = append([]*rest.Config{p.config}, p.servers...)
}

// start starts a control plane of our own, with all that it has to be asked.
func (p *place) start(ctx context.Context) error {
	var err error
	options := cluster.Options{Weir: true, PodReady: p.podReady, Log: os.Stderr}
	if p.profiles != "" {
		options.WeirApiserverArgs, options.WeirControllerArgs = []string{"--profiling"}, []string{"--profiling"}
	}
	if p.own, err = cluster.Start(ctx, options); err != nil {
		return fmt.Errorf("starting a control plane: %w", err)
	}
	p.config = p.own.Config()
	weir := rest.CopyConfig(p.config)
	weir.Host = "https://" + p.own.Address(cluster.WeirAPIServer)
	weir.TLSClientConfig.CAFile, weir.TLSClientConfig.CAData, weir.TLSClientConfig.Insecure = "", nil, true
	p.servers = append(p.servers, weir)
	p.unlimited()
	p.controller = p.own.Metrics()
	for _, name := range []string{cluster.WeirAPIServer, cluster.WeirController, cluster.KubeAPIServer, cluster.Etcd, cluster.ControllerManager, cluster.Scheduler, cluster.Kwok} {
		pid, err := p.own.Pid(name)
		if err != nil {
			return err
		}
		p.processes = append(p.processes, struct{ name, value string }{name, strconv.Itoa(pid)})
	}
	address, err := store.AddressIn(p.own.WeirData())
	if err != nil {
		return err
	}
	p.stores = named{{"cluster", "http://" + p.own.Address(cluster.Etcd)}, {"weir", address}}
	return nil
}

func (p *place) close() error {
	if p.own == nil {
		return nil
	}
	return p.own.Stop()
}
