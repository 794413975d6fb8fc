// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/http"
	"sync/atomic"
	"time"
)

// leaving lets callers go while everything is still answered. kube-apiserver
// keeps its connections for as long as it can, and would be told to come again
// once the server drains. Half of the delay is left for load balancers to see
// that this replica is not ready, so that who leaves does not come back to it.
func leaving(inner http.Handler, told <-chan struct{}, delay time.Duration) http.Handler {
	if delay == 0 {
		return inner
	}
	var leave atomic.Bool
	go func() {
		<-told
		time.AfterFunc(delay/2, func() { leave.Store(true) })
	}()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if leave.Load() {
			// The connection ends once what it carries is answered, by a GOAWAY in HTTP/2.
			w.Header().Set("Connection", "close")
		}
		inner.ServeHTTP(w, r)
	})
}
