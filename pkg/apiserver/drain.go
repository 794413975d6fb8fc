// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/http"
	"sync/atomic"
	"time"
)

// drainConnections closes connections during the shutdown delay, while the server still answers. Otherwise
// kube-apiserver keeps its connections as long as possible, and its requests fail once the server drains.
// The first half of the delay is for load balancers to notice that this replica is not ready, so that no
// client connects to it again.
func drainConnections(inner http.Handler, stopping <-chan struct{}, delay time.Duration) http.Handler {
	if delay == 0 {
		return inner
	}
	var draining atomic.Bool
	go func() {
		<-stopping
		time.AfterFunc(delay/2, func() { draining.Store(true) })
	}()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if draining.Load() {
			// The connection ends after its current requests are answered; in HTTP/2 the server sends a
			// GOAWAY.
			w.Header().Set("Connection", "close")
		}
		inner.ServeHTTP(w, r)
	})
}
