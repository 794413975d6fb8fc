// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// connectionSplitter distributes connections like a Service: each new connection goes to the next
// ready replica. Existing connections stay.
type connectionSplitter struct {
	// members are the replicas.
	members []backend

	mu        sync.Mutex
	ready     map[string]bool
	next      int
	listeners []net.Listener
	stop      context.CancelFunc
	conns     map[net.Conn]bool
}

type backend struct {
	name string
	// healthy is called periodically.
	healthy func(context.Context) error
}

func newSplitter(members []backend) *connectionSplitter {
	ctx, stop := context.WithCancel(context.Background())
	s := &connectionSplitter{members: members, ready: map[string]bool{}, stop: stop, conns: map[net.Conn]bool{}}
	for _, m := range members {
		go s.probe(ctx, m)
	}
	return s
}

func (s *connectionSplitter) probe(ctx context.Context, m backend) {
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	for {
		asking, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := m.healthy(asking)
		cancel()
		s.setReady(m.name, err == nil)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// setReady records whether a replica is ready. If none is ready, all connections end: kube-apiserver sends no request to
// a Service without endpoints, also on connections that it has.
func (s *connectionSplitter) setReady(name string, ready bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready[name] = ready
	for _, r := range s.ready {
		if r {
			return
		}
	}
	for conn := range s.conns {
		_ = conn.Close() // its copies end
	}
}

// listen accepts connections at an address; port returns the address of a replica.
func (s *connectionSplitter) listen(address string, port func(member string) string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listening for a Service: %w", err)
	}
	s.mu.Lock()
	s.listeners = append(s.listeners, listener)
	s.mu.Unlock()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the listener is closed
			}
			go s.forward(conn, port)
		}
	}()
	return nil
}

// pick chooses a ready replica, or "".
func (s *connectionSplitter) pick() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range s.members {
		s.next = (s.next + 1) % len(s.members)
		if name := s.members[s.next].name; s.ready[name] {
			return name
		}
	}
	return ""
}

func (s *connectionSplitter) forward(from net.Conn, port func(string) string) {
	defer func() { _ = from.Close() }() // either side may have closed the connection
	name := s.pick()
	if name == "" {
		return
	}
	to, err := net.Dial("tcp", "127.0.0.1:"+port(name))
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	s.hold(from, to)
	defer s.drop(from, to)
	var both sync.WaitGroup
	both.Go(func() { copyAndClose(to, from) })
	both.Go(func() { copyAndClose(from, to) })
	both.Wait()
}

// copyAndClose copies until one side has closed, and then closes the other direction.
func copyAndClose(to, from net.Conn) {
	// Both ends observe any end of the connection.
	if _, err := io.Copy(to, from); err != nil {
		_ = to.Close()
		return
	}
	if tcp, ok := to.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
}

func (s *connectionSplitter) hold(conns ...net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range conns {
		s.conns[conn] = true
	}
}

func (s *connectionSplitter) drop(conns ...net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range conns {
		delete(s.conns, conn)
	}
}

func (s *connectionSplitter) close() {
	s.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, listener := range s.listeners {
		_ = listener.Close() // errors of closing do not matter
	}
	for conn := range s.conns {
		_ = conn.Close()
	}
}
