// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-rollouts/weir/test/cluster"
)

// restart kills weir-controller, changes all templates while it is down, and
// starts it again.
func (b *bench) restart(ctx context.Context, t *table) error {
	if err := b.prepare(ctx); err != nil {
		return fmt.Errorf("making the applications: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	w := &watcher{system: b.system, paused: func(string, int32) {}}
	w.expect(version(1))
	if err := w.start(ctx, b, busy); err != nil {
		return err
	}
	if err := b.place.own.Kill(cluster.WeirController); err != nil {
		return err
	}
	lines := make([]*timeline, b.releases)
	for i := range lines {
		lines[i] = w.begin(appName(i))
		if err := b.patch(ctx, b.system, busy, appName(i), version(1)); err != nil {
			return fmt.Errorf("changing %s: %w", appName(i), err)
		}
	}
	began := time.Now()
	if err := b.place.own.Start(cluster.WeirController); err != nil {
		return err
	}
	t.add("restart → ready", time.Since(began))
	for i, line := range lines {
		if err := until(ctx, func(context.Context) (bool, error) { return line.isScaled(), nil }); err != nil {
			return fmt.Errorf("waiting for the first batch of %s: %w", appName(i), err)
		}
		t.add("update → held, while it is down", line.held.Sub(line.sent))
		t.add("restart → first batch scaled", line.scaled.Sub(began))
	}
	return nil
}
