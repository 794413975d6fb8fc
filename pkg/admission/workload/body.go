// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// What a caller may cost who has no name. A workload with its managed fields has some
// ten KiB, and a request holds two of them; one that does not fit is refused in words,
// and the failure policy decides.
const (
	longestBody = 1 << 20
	bodyTimeout = 5 * time.Second
	// mostInFlight bounds what is read of all requests that are not answered yet.
	mostInFlight = 32 << 20
)

// errBusy is the answer while too much is in flight.
var errBusy = errors.New("too many admission reviews are under way; try again")

// inFlight counts the bytes of requests that are not answered yet.
type inFlight struct{ atomic.Int64 }

// read returns a body, and what gives its share back.
func (f *inFlight) read(w http.ResponseWriter, r *http.Request, now time.Time) (body []byte, done func(), err error) {
	counted := &counting{of: http.MaxBytesReader(w, r.Body, longestBody), all: f}
	done = func() { f.Add(-counted.n) }
	// A recorder of a test has no deadline, and a server always has.
	if err := http.NewResponseController(w).SetReadDeadline(now.Add(bodyTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, done, fmt.Errorf("limiting the time of a request: %w", err)
	}
	body, err = io.ReadAll(counted)
	return body, done, err
}

// counting fails when too much is in flight.
type counting struct {
	of  io.Reader
	all *inFlight
	n   int64
}

// Read implements io.Reader.
func (c *counting) Read(p []byte) (int, error) {
	n, err := c.of.Read(p)
	c.n += int64(n)
	if c.all.Add(int64(n)) > mostInFlight {
		return n, errBusy
	}
	return n, err
}

// statusOf is how a body that was not read is answered.
func statusOf(err error) int {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, errBusy):
		return http.StatusServiceUnavailable
	default:
		return http.StatusBadRequest
	}
}
