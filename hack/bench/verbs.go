// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// steered is the namespace of releases that wait at step 1 and are told verbs.
const steered = "weir-bench-steered"

// told is how many those are: each is told one verb a second, so that few
// decisions pile up in it.
func (b *bench) told() int { return max(1, int(b.requests)) }

// order is one use of a verb.
type order struct{ verb, body string }

// Of the verbs one is refused, since no step has that number, and two are stored but
// move no pod, each undoing the other.
var (
	refused = []order{{string(rollouts.VerbPromote), `{"expect":{"step":99}}`}}
	stored  = []order{{string(rollouts.VerbPause), "{}"}, {string(rollouts.VerbResume), "{}"}}
)

// verbs tells verbs to releases that wait, first while nothing moves, then while
// others are released.
func (b *bench) verbs(ctx context.Context, t *table) error {
	if err := b.prepare(ctx); err != nil {
		return fmt.Errorf("making the applications: %w", err)
	}
	if err := b.await(ctx, steered, b.told()); err != nil {
		return fmt.Errorf("making releases wait: %w", err)
	}
	if err := b.costs(ctx); err != nil {
		return err
	}
	all := slices.Concat(refused, stored)
	if err := b.load(ctx, t, b.inTurn("none released", all)); err != nil {
		return err
	}
	moving, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- b.again(moving) }()
	defer stop()
	if err := until(ctx, func(ctx context.Context) (bool, error) {
		n, err := b.inFlight(ctx)
		return n == b.releases, err
	}); err != nil {
		return fmt.Errorf("waiting until all are in flight: %w", err)
	}
	if err := b.load(ctx, t, b.inTurn(fmt.Sprintf("%d released", b.releases), all)); err != nil {
		return err
	}
	n, err := b.inFlight(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("# %d of %d are in flight at the end\n", n, b.releases)
	stop()
	return <-ended
}

// inTurn is the request number i: each release has each verb in its turn.
func (b *bench) inTurn(while string, orders []order) func(context.Context, int) (string, error) {
	return func(ctx context.Context, i int) (string, error) {
		o := orders[i/b.told()%len(orders)]
		code, _, err := b.post(ctx, steered, appName(i%b.told()), o.verb, o.body)
		return fmt.Sprintf("%s: %s, answered %d", while, o.verb, code), err
	}
}

// again releases all applications, round after round, until the context ends.
func (b *bench) again(ctx context.Context) error {
	for number := 1; ctx.Err() == nil; number++ {
		if _, err := b.round(ctx, number); err != nil && ctx.Err() == nil {
			return fmt.Errorf("round %d: %w", number, err)
		}
	}
	return nil
}

// await makes applications of one pod whose releases wait at step 1.
func (b *bench) await(ctx context.Context, namespace string, n int) error {
	if err := b.each(ctx, namespace, n, func(name string) []client.Object { return b.system.application(namespace, name, 1) }); err != nil {
		return err
	}
	if err := b.inService(ctx, namespace); err != nil {
		return err
	}
	for i := range n {
		if err := b.patch(ctx, b.system, namespace, appName(i), version(1)); err != nil {
			return err
		}
	}
	return until(ctx, func(ctx context.Context) (bool, error) {
		paused, _, err := b.count(ctx, namespace, func(s state) bool { return s.paused })
		return paused == n, err
	})
}

func (b *bench) inFlight(ctx context.Context) (int, error) {
	n, _, err := b.count(ctx, busy, func(s state) bool { return !s.healthy })
	return n, err
}
