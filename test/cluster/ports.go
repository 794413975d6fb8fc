// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
)

// Names of ports beyond the one each server has under its own name.
const (
	etcdPeer          = "etcd-peer"
	weirWebhook       = "weir-webhook"
	controllerHealth  = "weir-controller-health"
	controllerMetrics = "weir-controller-metrics"
	weirEtcdPeer      = "weir-etcd-peer"
	weirEtcdMetrics   = "weir-etcd-metrics"
)

var portNames = []string{
	Etcd, etcdPeer, KubeAPIServer, ControllerManager, Scheduler,
	WeirAPIServer, weirWebhook, controllerHealth, controllerMetrics,
}

// port is a reserved port of 127.0.0.1.
type port struct {
	number int
	claim  net.Listener
}

// reservePort finds a free port. It uses ports below the ephemeral range, because an outgoing
// connection could otherwise take the port while its process restarts. An abstract Unix socket,
// which the kernel removes with this process, reserves the number against other clusters on this
// machine.
func reservePort() (*port, error) {
	const first, last, attempts = 20000, 29999, 200
	for range attempts {
		number := first + rand.IntN(last-first+1)
		claim, err := claimPort(number)
		if err != nil {
			continue
		}
		probe, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", number))
		if err == nil {
			err = probe.Close()
		}
		p := &port{number: number, claim: claim}
		if err == nil {
			return p, nil
		}
		p.release()
	}
	return nil, errors.New("no free port between 20000 and 29999 on 127.0.0.1")
}

// fixedPort reserves a port that the caller has chosen.
func fixedPort(number int) (*port, error) {
	claim, err := claimPort(number)
	if err != nil {
		return nil, err
	}
	return &port{number: number, claim: claim}, nil
}

func claimPort(number int) (net.Listener, error) {
	if runtime.GOOS != "linux" {
		return nil, nil
	}
	return net.Listen("unix", fmt.Sprintf("@weir-cluster-port-%d", number))
}

func (p *port) release() {
	if p.claim != nil {
		_ = p.claim.Close() // the listener only reserves the number
		p.claim = nil
	}
}
