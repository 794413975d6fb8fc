// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/weir-rollouts/weir/pkg/controller/lease"
)

// TestGuard checks that writes are allowed while the lease is held and was renewed recently,
// counted from the beginning of the renewal. Reads are always allowed.
func TestGuard(t *testing.T) {
	const limit = 5 * time.Second
	tests := map[string]struct {
		doing func(*story)
		want  error
	}{
		"never held":                {func(*story) {}, lease.ErrStale},
		"taken":                     {func(s *story) { s.take() }, nil},
		"at the limit":              {func(s *story) { s.take(); s.later(limit) }, nil},
		"frozen":                    {func(s *story) { s.take(); s.later(limit + 1) }, lease.ErrStale},
		"renewed":                   {func(s *story) { s.take(); s.later(limit); s.hold("me"); s.later(limit) }, nil},
		"renewed after a gap":       {func(s *story) { s.take(); s.later(time.Hour); s.hold("me") }, nil},
		"restored":                  {func(s *story) { s.take(); s.hold("") }, lease.ErrStale},
		"the renewal failed":        {func(s *story) { s.take(); s.later(limit); s.fail(); s.later(1) }, lease.ErrStale},
		"the renewal took too long": {func(s *story) { s.takes = limit + 1; s.take() }, lease.ErrStale},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newStory(t, limit)
			tt.doing(s)
			for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
				if err := s.send(method); !errors.Is(err, tt.want) {
					t.Errorf("%s: %v, want %v", method, err, tt.want)
				}
			}
			if err := s.send(http.MethodGet); err != nil {
				t.Errorf("a read: %v", err)
			}
		})
	}
}

// TestRest checks that a record has the remaining lease duration of its holder since the first
// read.
func TestRest(t *testing.T) {
	s := newStory(t, time.Second)
	renew := func(at int64) {
		record := resourcelock.LeaderElectionRecord{HolderIdentity: "other", LeaseDurationSeconds: 8, RenewTime: metav1.Unix(at, 0)}
		if err := errors.Join(s.read(), s.lease.Interface.Update(t.Context(), record)); err != nil {
			t.Fatal(err)
		}
	}
	s.take()
	renew(1)
	for _, tt := range []struct {
		later time.Duration
		renew int64
		want  int
	}{{0, 0, 8}, {6100 * time.Millisecond, 0, 2}, {0, 2, 8}, {7 * time.Second, 0, 1}, {time.Second, 0, 0}, {time.Hour, 0, 0}, {0, 3, 8}} {
		if s.later(tt.later); tt.renew > 0 {
			renew(tt.renew)
		}
		record, _, err := s.lease.Get(t.Context())
		if err != nil || record.LeaseDurationSeconds != tt.want || record.HolderIdentity != "other" {
			t.Errorf("after %s, renewed at %d: %+v, want %d s (%v)", tt.later, tt.renew, record, tt.want, err)
		}
	}
}

// story is a process with its lease.
type story struct {
	t      *testing.T
	clock  *clocktesting.FakePassiveClock
	lease  *lease.Lease
	client *http.Client
	url    string
	// takes is how long each write of the lease takes.
	takes time.Duration
}

// slow is a lock whose writes take time.
type slow struct {
	resourcelock.Interface
	story *story
}

func (l slow) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.story.later(l.story.takes)
	return l.Interface.Create(ctx, record)
}

func newStory(t *testing.T, limit time.Duration) *story {
	t.Helper()
	cluster := fake.NewClientset()
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, "weir-system", "weir-controller",
		cluster.CoreV1(), cluster.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: "me"})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	s := &story{t: t, clock: clocktesting.NewFakePassiveClock(time.Now()), url: server.URL}
	s.lease = &lease.Lease{Interface: slow{lock, s}, MaxAge: limit, Clock: s.clock}
	s.client = &http.Client{Transport: s.lease.Guard(server.Client().Transport)}
	return s
}

func (s *story) take() {
	if err := s.lease.Create(s.t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "me"}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *story) hold(who string) {
	if err := s.lease.Update(s.t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: who}); err != nil {
		s.t.Fatal(err)
	}
}

// fail renews a lease that exists already as if it did not.
func (s *story) fail() {
	if err := s.lease.Create(s.t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "me"}); err == nil {
		s.t.Fatal("a lease was created twice")
	}
}

// read reads the record so that it can be written, as another process does.
func (s *story) read() error {
	_, _, err := s.lease.Interface.Get(s.t.Context())
	return err
}

func (s *story) send(method string) error {
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.url, nil)
	if err != nil {
		return err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

func (s *story) later(d time.Duration) { s.clock.SetTime(s.clock.Now().Add(d)) }
