// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"
)

// pace is how many verbs a second are sent to measure what one costs: so few that none
// waits for another.
const pace = 20

// cost prints the CPU that each process takes for one request, and what is stored for it, while nothing else moves.
func (b *bench) cost(ctx context.Context, what string, orders []order) error {
	quiet := *b
	quiet.requests = min(b.requests, pace)
	spent, err := b.counter.start(ctx, steered)
	if err != nil {
		return err
	}
	group, loaded := errgroup.WithContext(ctx)
	if b.place.profiles != "" {
		group.Go(func() error { return b.place.profile(loaded, len(orders)) })
	}
	group.Go(func() error { return quiet.load(loaded, newTable(), quiet.inTurn(what, orders)) })
	if err := group.Wait(); err != nil {
		return err
	}
	if spent, err = spent.end(ctx); err != nil {
		return err
	}
	n := float64(int(quiet.requests * quiet.lasting.Seconds()))
	fmt.Printf("# one %s:", what)
	for _, name := range slices.Sorted(maps.Keys(spent.cpu)) {
		fmt.Printf(" %s %.2f ms,", name, 1000*spent.cpu[name].Seconds()/n)
	}
	fmt.Printf(" writes of Rollouts %.2f\n", float64(spent.writes["rollouts"])/n)
	return nil
}
