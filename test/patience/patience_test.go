// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package patience

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// TestNext checks that a higher slowness applies at once, that it decreases gradually, and that it
// is never less than 1.
func TestNext(t *testing.T) {
	for name, c := range map[string]struct{ before, now, want float64 }{
		"a faster machine":    {1, 0.5, 1},
		"a slow moment":       {1, 8, 8},
		"after a slow moment": {10, 1, 9},
		"not yet slower":      {4, 3.7, 3.7},
	} {
		if got := nextSlowness(c.before, c.now); got != c.want {
			t.Errorf("%s: %v, not %v", name, got, c.want)
		}
	}
	if got := share(time.Second, 4); got != 250*time.Millisecond {
		t.Errorf("a second on a machine four times as slow counts as %s", got)
	}
}

func TestContext(t *testing.T) {
	ctx, cancel := Context(t.Context(), time.Millisecond)
	defer cancel()
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, context.DeadlineExceeded) {
		t.Errorf("the context ended with %v", cause)
	}
}

// TestUntil checks that a wait whose parent context ends reports the last error of the condition.
func TestUntil(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := Until(ctx, "the kettle boils", func(context.Context) error {
		cancel()
		return errors.New("the water is cold")
	})
	if err == nil || !strings.Contains(err.Error(), "the water is cold") || !errors.Is(err, context.Canceled) {
		t.Errorf("the error of the wait is: %v", err)
	}
	if err := Until(t.Context(), "nothing", func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
}
