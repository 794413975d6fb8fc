// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// Connections are closed after half of the delay, and not before: until then, a client could connect to
// this replica again. All requests are answered.
func TestDrainConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan struct{})
		server := drainConnections(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusCreated)
		}), told, 10*time.Second)
		closes := func() bool {
			synctest.Wait()
			w := httptest.NewRecorder()
			server.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
			if w.Code != http.StatusCreated {
				t.Errorf("answered %d", w.Code)
			}
			return w.Header().Get("Connection") == "close"
		}
		before := closes()
		close(told)
		atOnce := closes()
		<-time.After(5 * time.Second)
		if later := closes(); before || atOnce || !later {
			t.Errorf("let go before it was told %t, at once %t, later %t", before, atOnce, later)
		}
	})
}
