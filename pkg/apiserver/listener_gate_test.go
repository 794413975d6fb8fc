// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net"
	"sync/atomic"
	"testing"
)

// A connection made while the gate is closed is neither refused nor accepted.
func TestListenerGate(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]bool{"opens": true, "is closed for good": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			var known atomic.Bool
			asked := make(chan struct{}, 1)
			g := newListenerGate(listener, func() bool {
				select {
				case asked <- struct{}{}:
				default:
				}
				return known.Load()
			})
			accepted := make(chan error, 1)
			go func() {
				conn, err := g.Accept()
				if err == nil {
					err = conn.Close()
				}
				accepted <- err
			}()
			conn, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }() // nothing was written
			// The gate has asked twice, so it has waited after the first answer.
			<-asked
			<-asked
			select {
			case err := <-accepted:
				t.Fatalf("accepted before the gate was open: %v", err)
			default:
			}
			if open {
				known.Store(true)
			} else if err := g.Close(); err != nil {
				t.Fatal(err)
			}
			if err := <-accepted; (err == nil) != open {
				t.Errorf("accepting: %v, but open is %t", err, open)
			}
		})
	}
}
