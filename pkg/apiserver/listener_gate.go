// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
)

// gateInterval is how often a closed gate checks whether it may open. The gate is closed only at the start,
// until one ConfigMap is read.
const gateInterval = 5 * time.Millisecond

// listenerGate accepts no connection until known reports true. The generic server listens before it has
// read the CA of the aggregator's certificate. It would answer requests in that interval with 401.
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

// Accept waits until the gate opens, and then accepts connections.
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

// isFrontProxyKnown returns a function that reports whether the server can authenticate the aggregator: it
// needs the CA and the names of the headers with the user.
func isFrontProxyKnown(c *authenticatorfactory.RequestHeaderConfig) func() bool {
	return func() bool {
		return c == nil || (len(c.CAContentProvider.CurrentCABundleContent()) > 0 && len(c.UsernameHeaders.Value()) > 0)
	}
}

// isFromFrontProxy returns a function that reports whether the client of a request has shown the certificate of the
// aggregator.
func isFromFrontProxy(c *authenticatorfactory.RequestHeaderConfig) func(*http.Request) bool {
	return func(r *http.Request) bool {
		if c == nil || verifyClientCertificate(r.TLS, c.CAContentProvider) != nil {
			return false
		}
		names := c.AllowedClientNames.Value()
		return len(names) == 0 || slices.Contains(names, r.TLS.PeerCertificates[0].Subject.CommonName)
	}
}
