// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"io"
	"net"
	"testing"
)

// One address can open a limited number of connections. Each closed connection makes room for another.
func TestConnectionsAreShared(t *testing.T) {
	t.Parallel()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := newLimitedListener(plain)
	t.Cleanup(func() { _ = l.Close() })
	accepted := make(chan net.Conn)
	go func() {
		defer close(accepted)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", plain.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	var open []net.Conn
	for range maxConnectionsPerAddress {
		dial()
		open = append(open, <-accepted)
	}
	if n, err := dial().Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("one more reads %d bytes (%v), want that it is closed", n, err)
	}
	if err := open[0].Close(); err != nil {
		t.Fatal(err)
	}
	again := dial()
	conn := <-accepted
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(again, make([]byte, 1)); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
}
