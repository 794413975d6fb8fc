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

// Limits for requests, because clients of this port are not authenticated. A workload has some KiB, and a
// review contains it twice. A larger review is refused with an error message, and the failure policy of the
// webhook decides.
const (
	// maxBodyBytes limits a body without managed fields. maxSentBytes limits the body as it was sent: etcd
	// stores objects of up to 1.5 MiB, and managed fields may be nearly all of one.
	maxBodyBytes = 1 << 20
	maxSentBytes = 4 << 20
	bodyTimeout  = 5 * time.Second
	// maxInFlightBytes limits the bytes of all unanswered requests, and maxAddressBytes the bytes of those
	// from one address.
	maxInFlightBytes = 32 << 20
	maxAddressBytes  = maxInFlightBytes / 4
)

// errBusy is the error for a request while the requests in flight use all memory that they may use.
var errBusy = errors.New("too many admission reviews are in progress; try again")

// inFlight counts the bytes of requests that are not answered yet. One client address may
// use a quarter of the memory. One namespace may use half of that, because all reviews may come
// from one kube-apiserver. If there is no room, the request whose body has been arriving the
// longest is cut off, so that slow clients cannot block kube-apiserver.
type inFlight struct {
	sync.Mutex
	total    int64
	byClient map[string]int64
	// reading are the bodies that are still being read, the oldest first.
	reading []*body
}

// body is the body of one request while it is read.
type body struct {
	address string
	// head is the beginning of the body, kept until the namespace is found in it. namespaceKey is the key
	// in inFlight.byClient under which the bytes are counted for the namespace; empty until then.
	head         []byte
	namespaceKey string
	reader       io.Reader
	limits       *inFlight
	size         int64
	evicted      bool   // an older body is evicted when the memory is full
	interrupt    func() // ends a read that blocks
}

// readBody returns the body of a request. The caller must call done once the request is answered; done
// releases the bytes that were counted for it.
func (f *inFlight) readBody(w http.ResponseWriter, r *http.Request, now time.Time) (data []byte, done func(), err error) {
	control := http.NewResponseController(w)
	b := &body{address: clientAddress(r), reader: &managedFieldsFilter{reader: http.MaxBytesReader(w, r.Body, maxSentBytes)}, limits: f, interrupt: func() {
		_ = control.SetReadDeadline(now) // if deadlines are not supported, the read ends when the client has sent everything
	}}
	done = func() { f.release(b) }
	// httptest.ResponseRecorder supports no deadlines; every http.Server does.
	if err := control.SetReadDeadline(now.Add(bodyTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, done, fmt.Errorf("limiting the time of a request: %w", err)
	}
	f.startReading(b)
	data, err = io.ReadAll(b)
	if f.finishReading(b) {
		return nil, done, errBusy
	}
	return data, done, err
}

// clientAddress returns the client's address without the port.
func clientAddress(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

func (f *inFlight) startReading(b *body) {
	f.Lock()
	defer f.Unlock()
	f.reading = append(f.reading, b)
}

func (f *inFlight) release(b *body) {
	f.Lock()
	defer f.Unlock()
	f.countBytes(b, -b.size)
}

// finishReading removes a body from the list of bodies being read, and reports whether the body was
// evicted.
func (f *inFlight) finishReading(b *body) bool {
	f.Lock()
	defer f.Unlock()
	f.reading = slices.DeleteFunc(f.reading, func(o *body) bool { return o == b })
	return b.evicted
}

func (f *inFlight) countBytes(b *body, n int64) {
	if f.byClient == nil {
		f.byClient = map[string]int64{}
	}
	b.size, f.total = b.size+n, f.total+n
	f.addBytes(b.address, n)
	if b.namespaceKey != "" {
		f.addBytes(b.namespaceKey, n)
	}
}

func (f *inFlight) addBytes(key string, n int64) {
	if f.byClient[key] += n; f.byClient[key] == 0 {
		delete(f.byClient, key)
	}
}

// reserve counts n more bytes of a body. It returns an error if a limit is exceeded.
func (f *inFlight) reserve(b *body, n int64) error {
	f.Lock()
	defer f.Unlock()
	if b.evicted {
		return errBusy
	}
	if f.countBytes(b, n); b.size > maxBodyBytes {
		return &http.MaxBytesError{Limit: maxBodyBytes}
	}
	if f.byClient[b.address] > maxAddressBytes || f.byClient[b.namespaceKey] > maxNamespaceBytes {
		return errBusy
	}
	for f.total > maxInFlightBytes {
		i := slices.IndexFunc(f.reading, func(o *body) bool { return o.size > 0 })
		if i < 0 || f.reading[i] == b {
			return errBusy
		}
		f.evict(f.reading[i])
	}
	return nil
}

// evict ends the read of a body and releases its bytes at once.
func (f *inFlight) evict(b *body) {
	b.evicted = true
	f.countBytes(b, -b.size)
	b.interrupt()
}

// Read implements io.Reader. It fails if the body exceeds a limit.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.reader.Read(p)
	b.findNamespace(p[:n])
	if refused := b.limits.reserve(b, int64(n)); refused != nil {
		return n, refused
	}
	return n, err
}

// httpStatus returns the HTTP status for a body that could not be read.
func httpStatus(err error) int {
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
