// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"context"
	"io"
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

// A body that does not end costs what was sent of it, for a few seconds at most, and
// all of them together no more than there is room for.
func TestBodiesAreBounded(t *testing.T) {
	t.Parallel()
	h := &Handler{Rollouts: named{}}
	var open []*io.PipeWriter
	answers := make(chan int)
	send := func() *io.PipeWriter {
		body, w := io.Pipe()
		go func() {
			recorder := httptest.NewRecorder()
			h.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, Path, body))
			answers <- recorder.Code
		}()
		return w
	}
	most := bytes.Repeat([]byte(" "), longestBody)
	for range mostInFlight / longestBody {
		w := send()
		open = append(open, w)
		if _, err := w.Write(most); err != nil {
			t.Fatal(err)
		}
	}
	go func(w *io.PipeWriter) { _, _ = w.Write([]byte(" ")) }(send())
	if code := <-answers; code != http.StatusServiceUnavailable {
		t.Errorf("one more is answered with %d, want 503", code)
	}
	for _, w := range open {
		if err := w.CloseWithError(io.ErrUnexpectedEOF); err != nil {
			t.Fatal(err)
		}
		if code := <-answers; code != http.StatusBadRequest {
			t.Errorf("one that was cut off is answered with %d, want 400", code)
		}
	}
	if n := h.bodies.Load(); n != 0 {
		t.Errorf("%d bytes are in flight though all is answered", n)
	}
}

// The time of a body is limited where there is a connection.
func TestBodiesEnd(t *testing.T) {
	t.Parallel()
	deadline := &timed{ResponseRecorder: httptest.NewRecorder()}
	(&Handler{Rollouts: named{}}).ServeHTTP(deadline, httptest.NewRequest(http.MethodPost, Path, strings.NewReader("{}")))
	if left := deadline.after; left <= 0 || left > bodyTimeout {
		t.Errorf("a body may take %s, want %s", left, bodyTimeout)
	}
}

// timed keeps how much time is left for a body.
type timed struct {
	*httptest.ResponseRecorder
	after time.Duration
}

// SetReadDeadline is what a connection has.
func (d *timed) SetReadDeadline(at time.Time) error {
	d.after = time.Until(at)
	return nil
}

// slow is a store that answers when it is told to, and knows how many wait.
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

// However many ask for what is stored, one read runs at a time. Each is answered by
// a read that began after it asked.
func TestReadsAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slow{release: make(chan struct{})}
		r := newReads(s)
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
