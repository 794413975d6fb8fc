// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net"
	"sync"
)

// maxConnectionsPerAddress is the maximum number of connections from one address. kube-apiserver needs a few for all
// its reviews; idle connections of other clients occupy memory.
const maxConnectionsPerAddress = 128

// limitedListener closes connections of an address that exceeds the limit.
type limitedListener struct {
	net.Listener
	mu   sync.Mutex
	open map[string]int
}

func newLimitedListener(l net.Listener) net.Listener {
	return &limitedListener{Listener: l, open: map[string]int{}}
}

func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		// An address without a port counts as one host.
		host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
		if l.acquire(host) {
			return &limitedConn{Conn: conn, release: sync.OnceFunc(func() { l.release(host) })}, nil
		}
		_ = conn.Close() // no request is lost: the server has not read from the connection
	}
}

func (l *limitedListener) acquire(host string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[host] >= maxConnectionsPerAddress {
		return false
	}
	l.open[host]++
	return true
}

func (l *limitedListener) release(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[host]--; l.open[host] <= 0 {
		delete(l.open, host)
	}
}

// limitedConn counts as an open connection until it is closed.
type limitedConn struct {
	net.Conn
	release func()
}

func (c *limitedConn) Close() error {
	c.release()
	return c.Conn.Close()
}
