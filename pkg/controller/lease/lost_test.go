// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"errors"
	"testing"
	"time"

	"github.com/weir-rollouts/weir/pkg/controller/lease"
)

// TestLost checks that only controllers that have held the lease report its loss.
func TestLost(t *testing.T) {
	ended := errors.New("ended")
	s := newStory(t, time.Second)
	if err := s.lease.WrapLost(ended); errors.Is(err, lease.ErrLost) || !errors.Is(err, ended) {
		t.Errorf("never held: %v", err)
	}
	s.take()
	s.later(time.Hour)
	if err := s.lease.WrapLost(ended); !errors.Is(err, lease.ErrLost) || !errors.Is(err, ended) {
		t.Errorf("held: %v", err)
	}
	if err := s.lease.WrapLost(nil); err != nil {
		t.Errorf("without an error: %v", err)
	}
	s.hold("")
	if err := s.lease.WrapLost(ended); !errors.Is(err, lease.ErrLost) {
		t.Errorf("restored when it was too late: %v", err)
	}
}
