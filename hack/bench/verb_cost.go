// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// pace is how many verbs a second are sent to measure what one costs: so few that none
// waits for another.
const pace = 40

// costs prints what one refused and one stored verb cost, while nothing else moves.
func (b *bench) costs(ctx context.Context) error {
	idle, err := b.spend(ctx, 0, func(ctx context.Context) error {
		select {
		case <-ctx.Done():
		case <-time.After(b.lasting):
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	for i, what := range []struct {
		name   string
		orders []order
	}{{"refused promote", refused}, {"pause or resume", stored}} {
		slow := *b
		slow.requests = min(b.requests, pace)
		used, err := b.spend(ctx, -1-i, func(ctx context.Context) error {
			return slow.load(ctx, newTable(), slow.inTurn(what.name, what.orders))
		})
		if err != nil {
			return err
		}
		n := float64(int(slow.requests * slow.lasting.Seconds()))
		fmt.Printf("# one %s, ms of CPU:", what.name)
		for _, name := range slices.Sorted(maps.Keys(used.cpu)) {
			fmt.Printf(" %s %.2f,", name, 1000*(used.cpu[name]-idle.cpu[name]).Seconds()/n)
		}
		fmt.Printf(" writes of Rollouts %.2f\n", float64(used.writes["rollouts"])/n)
	}
	return nil
}

// spend is what is spent while that is done, with a profile of that number where one is wanted.
func (b *bench) spend(ctx context.Context, profile int, do func(context.Context) error) (*spent, error) {
	s, err := b.counter.start(ctx, steered)
	if err != nil {
		return nil, err
	}
	group, doing := errgroup.WithContext(ctx)
	if b.place.profiles != "" && profile != 0 {
		group.Go(func() error { return b.place.profile(doing, profile) })
	}
	group.Go(func() error { return do(doing) })
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return s.end(ctx)
}
