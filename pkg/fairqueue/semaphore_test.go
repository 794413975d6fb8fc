// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package fairqueue_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-rollouts/weir/pkg/fairqueue"
)

// TestSemaphore has an owner with a hundred callers, none of which releases the semaphore: two are
// admitted, and the callers of other owners take turns. Each name is one caller, in the order in
// which the callers are admitted.
func TestSemaphore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := fairqueue.NewSemaphore(4, 2)
		ctx, cancel := context.WithCancel(t.Context())
		var in []string
		leaves := map[string]func(){}
		come := func(owner, name string) {
			go func() {
				leave, err := g.Acquire(ctx, owner)
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
					return
				}
				in, leaves[name] = append(in, name), leave
			}()
			synctest.Wait()
		}
		for i := range 100 {
			come("greedy", fmt.Sprint("greedy-", i))
		}
		for _, name := range []string{"a1", "a2", "a3", "b1", "b2"} {
			come(name[:1], name)
		}
		leave := func(name string) {
			leaves[name]()
			synctest.Wait()
		}
		leave("a1")
		leave("a2")
		if diff := cmp.Diff([]string{"greedy-0", "greedy-1", "a1", "a2", "a3", "b1"}, in); diff != "" {
			t.Errorf("let in (-want +got):\n%s", diff)
		}
		leave("b1")
		leave("greedy-0")
		if diff := cmp.Diff([]string{"b2", "greedy-2"}, in[6:]); diff != "" {
			t.Errorf("let in then (-want +got):\n%s", diff)
		}
		cancel() // those who wait go away, and their places are not lost
		synctest.Wait()
		for _, name := range []string{"greedy-1", "greedy-2", "a3", "b2"} {
			leave(name)
		}
		ctx = t.Context()
		before := len(in)
		for i := range 5 {
			come(fmt.Sprint("new-", i%3), fmt.Sprint("late-", i))
		}
		if got := len(in) - before; got != 4 {
			t.Errorf("%d are let in through an empty gate, want 4", got)
		}
		for i := range 4 {
			leave(fmt.Sprint("late-", i))
		}
		leave("late-4")
	})
}
