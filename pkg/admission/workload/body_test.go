// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// sender sends bodies that do not end.
type sender struct {
	*testing.T
	h       *Handler
	open    []*io.PipeWriter
	answers chan int
}

// send starts n bodies from an address.
func (s *sender) send(from string, n int) {
	s.Helper()
	body, w := io.Pipe()
	go func() {
		recorder, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, Path, body)
		r.RemoteAddr = net.JoinHostPort(from, "1234")
		s.h.ServeHTTP(recorder, r)
		_ = body.CloseWithError(io.ErrClosedPipe)
		s.answers <- recorder.Code
	}()
	s.open = append(s.open, w)
	if _, err := w.Write(bytes.Repeat([]byte(" "), n)); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		s.Fatal(err)
	}
	synctest.Wait() // all of it is counted
}

// end closes all bodies, and returns the number of responses by status.
func (s *sender) end() map[int]int {
	codes := map[int]int{}
	for _, w := range s.open {
		_ = w.CloseWithError(io.ErrUnexpectedEOF)
	}
	for range s.open {
		codes[<-s.answers]++
	}
	if f := &s.h.bodies; f.total != 0 || len(f.byClient) > 0 || len(f.reading) > 0 {
		s.Errorf("%d bytes of %d addresses are in flight, and %d bodies coming, though all is answered", f.total, len(f.byClient), len(f.reading))
	}
	return codes
}

// A body that does not end occupies memory for the bytes that were sent, for a few seconds at most. All
// such bodies together, and those of one address, stay within their limits.
func TestBodiesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &sender{T: t, h: &Handler{Rollouts: named{}}, answers: make(chan int, 100)}
		for range maxAddressBytes / maxBodyBytes {
			s.send("10.0.0.1", maxBodyBytes)
		}
		s.send("10.0.0.1", 1)
		if code := <-s.answers; code != http.StatusServiceUnavailable {
			t.Errorf("one more is answered with %d, want 503", code)
		}
		s.answers <- http.StatusServiceUnavailable
		if got := s.end(); got[http.StatusBadRequest] != maxAddressBytes/maxBodyBytes {
			t.Errorf("answered with %v, want 400 for what was cut off", got)
		}
	})
}

// If many addresses send bodies that do not end, there is still room for a review of kube-apiserver: the
// oldest body is evicted.
func TestSlowBodiesGiveWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &sender{T: t, h: &Handler{Rollouts: named{}}, answers: make(chan int, 100)}
		const addresses = 16
		for i := range maxInFlightBytes / maxBodyBytes {
			s.send(fmt.Sprintf("10.0.0.%d", i%addresses), maxBodyBytes)
		}
		review := marshal(t, reviewOf(t, sent{as: "alice", old: deployment(), update: deployment(image("v2"))}))
		for range 3 {
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, Path, bytes.NewReader(review))
			r.RemoteAddr = "10.1.0.1:443"
			if s.h.ServeHTTP(w, r); w.Code != http.StatusOK {
				t.Errorf("a review of kube-apiserver is answered with %d: %s", w.Code, w.Body)
			}
		}
		if s.h.bodies.total > maxInFlightBytes {
			t.Errorf("%d bytes are in flight", s.h.bodies.total)
		}
		if got := s.end(); got[http.StatusServiceUnavailable] != 1 {
			t.Errorf("answered with %v, want that one has given way", got)
		}
	})
}

// Evicting a body does not wait for its reader.
func TestOustedEndsAtOnce(t *testing.T) {
	t.Parallel()
	f := &inFlight{}
	cut := false
	slow, fast := &body{address: "a", limits: f, interrupt: func() { cut = true }}, &body{address: "b", limits: f}
	f.startReading(slow)
	f.startReading(fast)
	f.countBytes(slow, maxInFlightBytes)
	if err := f.reserve(fast, 1); err != nil || !cut || !f.finishReading(slow) {
		t.Errorf("got %v, cut %t, want that the slow one ends", err, cut)
	}
}

// The time of a body is limited if the connection supports deadlines.
func TestBodiesEnd(t *testing.T) {
	t.Parallel()
	deadline := &timed{ResponseRecorder: httptest.NewRecorder()}
	(&Handler{Rollouts: named{}}).ServeHTTP(deadline, httptest.NewRequest(http.MethodPost, Path, strings.NewReader("{}")))
	if left := deadline.after; left <= 0 || left > bodyTimeout {
		t.Errorf("a body may take %s, want %s", left, bodyTimeout)
	}
}

// timed records the deadline of a body.
type timed struct {
	*httptest.ResponseRecorder
	after time.Duration
}

// SetReadDeadline implements the interface that http.ResponseController looks for.
func (d *timed) SetReadDeadline(at time.Time) error {
	d.after = time.Until(at)
	return nil
}

// slow is a source that answers on demand, and counts its waiting callers.
type slow struct {
	shelf
	release chan struct{}
	running int
	most    int
}

func (s *slow) List(ctx context.Context, o *metainternalversion.ListOptions) (runtime.Object, error) {
	s.running++
	s.most = max(s.most, s.running)
	<-s.release
	s.running--
	return s.shelf.List(ctx, o)
}

// One read runs at a time, even for many callers. Each caller gets the result of a read that began after
// its call.
func TestReadsAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slow{release: make(chan struct{})}
		r := newLiveReader(s)
		answers := make(chan *rollouts.RolloutList, 20)
		ask := func(namespace string) {
			go func() {
				list, err := r.list(t.Context(), namespace)
				if err != nil {
					t.Error(err)
				}
				answers <- list
			}()
			synctest.Wait()
		}
		ask("a")
		for range 9 {
			ask("a") // the read that runs is no answer to these
			ask("b")
		}
		close(s.release)
		for range 19 {
			<-answers
		}
		if len(s.asked) != 3 || s.most != 1 {
			t.Errorf("%d reads, %d at once: %v; want 3, one at a time", len(s.asked), s.most, s.asked)
		}
	})
}
