// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"
)

// mostAtOnce is how many requests may be unanswered. More are not sent, and the
// wait for their turn counts as theirs.
const mostAtOnce = 500

// mostPatience is how long one request may take.
const mostPatience = 30 * time.Second

// measures are what can be measured besides releases, by -measure.
var measures = map[string]func(*bench, context.Context, *table) error{
	"admission": (*bench).admission,
	"lists":     (*bench).lists,
	"restart":   (*bench).restart,
	"scale":     (*bench).scale,
	"verbs":     (*bench).verbs,
	"views":     (*bench).views,
}

// table is what was measured, by row.
type table struct {
	mu   sync.Mutex
	rows map[string][]time.Duration
}

func newTable() *table { return &table{rows: map[string][]time.Duration{}} }

func (t *table) add(row string, d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows[row] = append(t.rows[row], d)
}

func (t *table) print(out io.Writer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nms\tp50\tp90\tp99\tmost\tof")
	for _, row := range slices.Sorted(maps.Keys(t.rows)) {
		d := t.rows[row]
		slices.Sort(d)
		at := func(p float64) float64 { return float64(quantile(d, p).Microseconds()) / 1000 }
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%d\n", row, at(0.5), at(0.9), at(0.99), at(1), len(d))
	}
	return w.Flush()
}

// quantile is the smallest that so large a share is not above. d is sorted.
func quantile(d []time.Duration, p float64) time.Duration {
	return d[max(0, int(math.Ceil(p*float64(len(d))))-1)]
}

// load sends so many requests a second for a while, whether or not those before
// are answered. A request is timed from when it was due, so that one that had to
// wait for others is as slow as it was for its caller. do names its row.
func (b *bench) load(ctx context.Context, t *table, do func(ctx context.Context, i int) (string, error)) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(mostAtOnce)
	began := time.Now()
	for i := range int(b.requests * b.lasting.Seconds()) {
		due := began.Add(time.Duration(float64(i) / b.requests * float64(time.Second)))
		select {
		case <-ctx.Done():
			return group.Wait()
		case <-time.After(time.Until(due)):
		}
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, mostPatience)
			defer cancel()
			row, err := do(ctx, i)
			if err == nil {
				t.add(row, time.Since(due))
			}
			return err
		})
	}
	return group.Wait()
}
