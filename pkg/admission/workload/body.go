// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// What a caller may cost who has no name. A workload has some KiB, and a request holds
// two of them; one that does not fit is refused in words, and the failure policy decides.
const (
	// longestBody bounds what is kept of a body, and longestSent what is sent: etcd keeps
	// no object of more than 1.5 MiB, of which managed fields may be nearly all.
	longestBody = 1 << 20
	longestSent = 4 << 20
	bodyTimeout = 5 * time.Second
	// mostInFlight bounds what is read of all requests that are not answered yet, and
	// mostOfOne what of those from one address.
	mostInFlight = 32 << 20
	mostOfOne    = mostInFlight / 4
)

// errBusy is the answer while too much is in flight.
var errBusy = errors.New("too many admission reviews are under way; try again")

// inFlight counts the bytes of requests that are not answered yet. One client address may
// use a quarter of the memory. One namespace may use half of that, because all reviews may come
// from one kube-apiserver. If there is no room, the request whose body has been arriving the
// longest is cut off, so that slow clients cannot block kube-apiserver.
type inFlight struct {
	sync.Mutex
	all int64
	by  map[string]int64
	// coming are the bodies that are still being read, the oldest first.
	coming []*body
}

// body is what is read of one request.
type body struct {
	from string
	// head is the beginning of the body, kept until the namespace is found in it. share is the
	// key in inFlight.by under which the namespace's bytes are counted; empty until then.
	head   []byte
	share  string
	of     io.Reader
	all    *inFlight
	n      int64
	ousted bool   // by another one
	cut    func() // ends a read that waits
}

// read returns a body, and what gives its share back.
func (f *inFlight) read(w http.ResponseWriter, r *http.Request, now time.Time) (data []byte, done func(), err error) {
	control := http.NewResponseController(w)
	b := &body{from: address(r), of: &withoutManaged{of: http.MaxBytesReader(w, r.Body, longestSent)}, all: f, cut: func() {
		_ = control.SetReadDeadline(now) // without one, the body ends by itself
	}}
	done = func() { f.leave(b) }
	// A recorder of a test has no deadline, and a server always has.
	if err := control.SetReadDeadline(now.Add(bodyTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, done, fmt.Errorf("limiting the time of a request: %w", err)
	}
	f.enter(b)
	data, err = io.ReadAll(b)
	if f.end(b) {
		return nil, done, errBusy
	}
	return data, done, err
}

// address is that of the other end, without its port.
func address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

func (f *inFlight) enter(b *body) {
	f.Lock()
	defer f.Unlock()
	f.coming = append(f.coming, b)
}

func (f *inFlight) leave(b *body) {
	f.Lock()
	defer f.Unlock()
	f.count(b, -b.n)
}

// end notes that no more is read of a body, and tells whether it had to give way.
func (f *inFlight) end(b *body) bool {
	f.Lock()
	defer f.Unlock()
	f.coming = slices.DeleteFunc(f.coming, func(o *body) bool { return o == b })
	return b.ousted
}

func (f *inFlight) count(b *body, n int64) {
	if f.by == nil {
		f.by = map[string]int64{}
	}
	b.n, f.all = b.n+n, f.all+n
	f.add(b.from, n)
	if b.share != "" {
		f.add(b.share, n)
	}
}

func (f *inFlight) add(key string, n int64) {
	if f.by[key] += n; f.by[key] == 0 {
		delete(f.by, key)
	}
}

// take counts bytes of a body.
func (f *inFlight) take(b *body, n int64) error {
	f.Lock()
	defer f.Unlock()
	if b.ousted {
		return errBusy
	}
	if f.count(b, n); b.n > longestBody {
		return &http.MaxBytesError{Limit: longestBody}
	}
	if f.by[b.from] > mostOfOne || f.by[b.share] > mostOfNamespace {
		return errBusy
	}
	for f.all > mostInFlight {
		i := slices.IndexFunc(f.coming, func(o *body) bool { return o.n > 0 })
		if i < 0 || f.coming[i] == b {
			return errBusy
		}
		f.oust(f.coming[i])
	}
	return nil
}

// oust ends a body, and gives its share to others at once.
func (f *inFlight) oust(b *body) {
	b.ousted = true
	f.count(b, -b.n)
	b.cut()
}

// Read implements io.Reader. It fails when too much is kept of it, or is in flight.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.of.Read(p)
	b.notice(p[:n])
	if refused := b.all.take(b, int64(n)); refused != nil {
		return n, refused
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
