// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net"
	"sync"
)

// mostConnections is how many connections one address may have. kube-apiserver uses a
// few for all its reviews; idle ones of other clients hold memory.
const mostConnections = 128

// fairListener closes at once what an address opens beyond its share.
type fairListener struct {
	net.Listener
	mu   sync.Mutex
	open map[string]int
}

func newFairListener(l net.Listener) net.Listener {
	return &fairListener{Listener: l, open: map[string]int{}}
}

func (l *fairListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		// An address without a port counts as one host.
		host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
		if l.acquire(host) {
			return &fairConn{Conn: conn, release: sync.OnceFunc(func() { l.release(host) })}, nil
		}
		_ = conn.Close() // nobody has sent anything yet
	}
}

func (l *fairListener) acquire(host string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[host] >= mostConnections {
		return false
	}
	l.open[host]++
	return true
}

func (l *fairListener) release(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[host]--; l.open[host] <= 0 {
		delete(l.open, host)
	}
}

// fairConn counts until it is closed.
type fairConn struct {
	net.Conn
	release func()
}

func (c *fairConn) Close() error {
	c.release()
	return c.Conn.Close()
}
