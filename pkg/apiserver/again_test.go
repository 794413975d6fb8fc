// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// Controllers that have been the leader are restarted whenever they end, after a pause that grows with each
// failure. Controllers that never become the leader end the server.
func TestKeepRunning(t *testing.T) {
	t.Parallel()
	lost, down := fmt.Errorf("running: %w", ErrLeadLost), errors.New("kube-apiserver does not answer")
	ctx, end := context.WithCancel(t.Context())
	defer end()
	c := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	ends := []error{lost, down, down, lost, nil, down}
	pauses := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, time.Second, 2 * time.Second, 4 * time.Second}
	began := make(chan struct{})
	done := make(chan error, 1)
	n := 0
	go func() {
		done <- keepRunning(ctx, c, func(ctx context.Context) error {
			began <- struct{}{}
			if n == len(ends) {
				<-ctx.Done()
				return ctx.Err()
			}
			n++
			return ends[n-1]
		})
	}()
	<-began
	for i, pause := range pauses {
		for !c.HasWaiters() {
			runtime.Gosched()
		}
		c.Step(pause - 1)
		if !c.HasWaiters() {
			t.Errorf("run %d starts early", i+2)
		}
		c.Step(1)
		<-began
	}
	end()
	if err := <-done; err != nil {
		t.Errorf("ended with the context: %v", err)
	}

	if err := keepRunning(t.Context(), c, func(context.Context) error { return down }); !errors.Is(err, down) {
		t.Errorf("controllers that never led: %v", err)
	}
}
