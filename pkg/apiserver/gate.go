// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
)

// gateCheck is how often a closed gate looks whether it may open. It happens
// at the start only, for the time it takes to read one ConfigMap.
const gateCheck = 5 * time.Millisecond

// gate accepts no connection before known says so. The generic server listens
// before it has read whom the aggregator's certificate is signed by; a request
// in that gap would be answered with 401, to a user who did nothing wrong.
type gate struct {
	net.Listener
	known func() bool

	once   sync.Once
	closed chan struct{}
	close  sync.Once
}

func newGate(l net.Listener, known func() bool) *gate {
	return &gate{Listener: l, known: known, closed: make(chan struct{})}
}

// Accept waits for the gate to open, once, and then is the listener's.
func (g *gate) Accept() (net.Conn, error) {
	g.once.Do(g.wait)
	return g.Listener.Accept()
}

func (g *gate) wait() {
	ticker := time.NewTicker(gateCheck)
	defer ticker.Stop()
	for !g.known() {
		select {
		case <-ticker.C:
		case <-g.closed:
			return
		}
	}
}

// Close implements net.Listener.
func (g *gate) Close() error {
	g.close.Do(func() { close(g.closed) })
	return g.Listener.Close()
}

// frontProxyKnown tells whether the aggregator can be recognised: its
// authority, and the headers in which it names users.
func frontProxyKnown(c *authenticatorfactory.RequestHeaderConfig) func() bool {
	return func() bool {
		return c == nil || (len(c.CAContentProvider.CurrentCABundleContent()) > 0 && len(c.UsernameHeaders.Value()) > 0)
	}
}
