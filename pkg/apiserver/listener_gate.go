// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
)

// gateInterval is how often a closed gate checks whether it may open. It does so
// at the start only, for the time it takes to read one ConfigMap.
const gateInterval = 5 * time.Millisecond

// listenerGate accepts no connection until known reports true. The generic server
// listens before it has read the authority of the aggregator's certificate; a
// request in that gap would be answered with 401, to a user who did nothing wrong.
type listenerGate struct {
	net.Listener
	known func() bool

	once   sync.Once
	closed chan struct{}
	close  func()
}

func newListenerGate(l net.Listener, known func() bool) *listenerGate {
	closed := make(chan struct{})
	return &listenerGate{Listener: l, known: known, closed: closed, close: sync.OnceFunc(func() { close(closed) })}
}

// Accept waits for the gate to open, once, and then is the listener's.
func (g *listenerGate) Accept() (net.Conn, error) {
	g.once.Do(g.wait)
	return g.Listener.Accept()
}

func (g *listenerGate) wait() {
	ticker := time.NewTicker(gateInterval)
	defer ticker.Stop()
	for !g.known() {
		select {
		case <-ticker.C:
		case <-g.closed:
			return
		}
	}
}

func (g *listenerGate) Close() error {
	g.close()
	return g.Listener.Close()
}

// frontProxyKnown reports whether the aggregator can be recognised: its
// authority, and the headers in which it names users.
func frontProxyKnown(c *authenticatorfactory.RequestHeaderConfig) func() bool {
	return func() bool {
		return c == nil || (len(c.CAContentProvider.CurrentCABundleContent()) > 0 && len(c.UsernameHeaders.Value()) > 0)
	}
}
