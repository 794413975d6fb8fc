// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/http"
	"sync/atomic"
	"time"
)

// drainConnections closes connections while every request is still answered.
// kube-apiserver keeps its connections for as long as it can, and would have to
// retry once the server drains. Half of the delay is left for load balancers to
// see that this replica is not ready, so that no caller connects to it again.
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
			// The connection ends once what it carries is answered, by a GOAWAY in HTTP/2.
			w.Header().Set("Connection", "close")
		}
		inner.ServeHTTP(w, r)
	})
}
