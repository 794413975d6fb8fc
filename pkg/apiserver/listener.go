// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// MaxConnectionsPerAddress is the maximum number of connections from one address. kube-apiserver needs a few for
	// all its reviews; idle connections of other clients occupy memory.
	MaxConnectionsPerAddress = 128
	// maxConnections is the maximum number of connections from all addresses. A connection takes some 50 KiB of
	// memory.
	maxConnections = 2048
)

// limitedListener limits the number of open connections. Above MaxConnectionsPerAddress, it closes the new
// connection. Above maxConnections, it closes the oldest connection of the address that has the most, so that a
// client with a few connections, such as kube-apiserver, is always served.
//
// Connections of the aggregator do not count, because each watch over a websocket is one of them.
type limitedListener struct {
	net.Listener
	mu   sync.Mutex
	open int
	// byHost are the connections of each address, the oldest first.
	byHost map[string][]*limitedConn
	// byAddress are the connections by address and port.
	byAddress map[string]*limitedConn
}

func newLimitedListener(l net.Listener) *limitedListener {
	return &limitedListener{Listener: l, byHost: map[string][]*limitedConn{}, byAddress: map[string]*limitedConn{}}
}

func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		address := conn.RemoteAddr().String()
		// An address without a port counts as one host.
		host, _, _ := net.SplitHostPort(address)
		if c := l.add(&limitedConn{Conn: conn, limits: l, host: host, address: address}); c != nil {
			return c, nil
		}
		_ = conn.Close() // no request is lost: the server has not read from the connection
	}
}

// add counts a connection. It returns nil if the address has too many.
func (l *limitedListener) add(c *limitedConn) net.Conn {
	l.mu.Lock()
	var evicted *limitedConn
	defer func() {
		l.mu.Unlock()
		if evicted != nil {
			_ = evicted.Conn.Close() // its server observes the end of the connection, and closes it too
		}
	}()
	if len(l.byHost[c.host]) >= MaxConnectionsPerAddress {
		return nil
	}
	if l.open >= maxConnections {
		var most []*limitedConn
		for _, conns := range l.byHost {
			if len(conns) > len(most) {
				most = conns
			}
		}
		evicted = most[0]
		l.remove(evicted)
	}
	l.open++
	l.byHost[c.host] = append(l.byHost[c.host], c)
	l.byAddress[c.address] = c
	return c
}

// remove stops counting a connection. The caller must hold the lock.
func (l *limitedListener) remove(c *limitedConn) {
	if l.byAddress[c.address] != c {
		return // it does not count any longer
	}
	delete(l.byAddress, c.address)
	l.open--
	l.byHost[c.host] = slices.DeleteFunc(l.byHost[c.host], func(other *limitedConn) bool { return other == c })
	if len(l.byHost[c.host]) == 0 {
		delete(l.byHost, c.host)
	}
}

// exempt stops counting the connection from an address.
func (l *limitedListener) exempt(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.byAddress[address]; c != nil {
		l.remove(c)
	}
}

// counts reports whether the connection from an address counts.
func (l *limitedListener) counts(address string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byAddress[address] != nil
}

// limitedConn counts as an open connection until it is closed.
type limitedConn struct {
	net.Conn
	limits        *limitedListener
	host, address string
}

func (c *limitedConn) Close() error {
	c.limits.mu.Lock()
	c.limits.remove(c)
	c.limits.mu.Unlock()
	return c.Conn.Close()
}

// exemptAggregator stops counting the connections on which isAggregator recognises the aggregator.
func exemptAggregator(inner http.Handler, connections *limitedListener, isAggregator func(*http.Request) bool) http.Handler {
	if connections == nil {
		return inner
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if connections.counts(r.RemoteAddr) && isAggregator(r) {
			connections.exempt(r.RemoteAddr)
		}
		inner.ServeHTTP(w, r)
	})
}

// limitBodyTime limits how long a client may take to send a body. Without the limit, a client that is refused
// could keep its connection open by sending the rest of a small body slowly, because the server reads it to use the
// connection again. Requests without a body, such as watches, have no limit.
func limitBodyTime(inner http.Handler, limit time.Duration, now func() time.Time) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			// Requests of this process have a connection without deadlines, and their client is trusted.
			_ = http.NewResponseController(w).SetReadDeadline(now().Add(limit))
		}
		inner.ServeHTTP(w, r)
	})
}
