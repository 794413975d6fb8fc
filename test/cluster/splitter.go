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

// connectionSplitter is what a Service is to its callers: each new connection goes to the
// next replica that is ready. Those that are there stay where they are.
type connectionSplitter struct {
	// members are the replicas, and where each listens.
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
	// healthy is asked all the time.
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
		asking, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := m.healthy(asking)
		cancel()
		s.mu.Lock()
		s.ready[m.name] = err == nil
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// listen splits what comes to an address; port tells where a member listens.
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
				return // it is closed
			}
			go s.forward(conn, port)
		}
	}()
	return nil
}

// pick chooses a member, or none.
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
	defer func() { _ = from.Close() }() // either side may have closed it
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

// copyAndClose copies until one side has no more to say, and tells the other.
func copyAndClose(to, from net.Conn) {
	// Whatever ends a connection, its ends see it.
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
		_ = listener.Close() // nobody waits for it
	}
	for conn := range s.conns {
		_ = conn.Close()
	}
}
