// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"sync"
	"text/tabwriter"
	"time"
)

// The durations of a release, as rows of the table.
const (
	rowAnswered   = "update → answered"
	rowHeld       = "update → held"
	rowScaled     = "update → first batch scaled"
	rowFirstWait  = "update → step 1 waits"
	rowNextScaled = "approval → next batch scaled"
	rowNextWait   = "approval → next step waits"
	rowHealthy    = "last approval → Healthy"
	rowRelease    = "update → Healthy"
)

var durationRows = []string{rowAnswered, rowHeld, rowScaled, rowFirstWait, rowNextScaled, rowNextWait, rowHealthy, rowRelease}

// print prints the table of a round. unheld is the result of the same change of Deployments that
// no system holds.
func (r *result) print(out io.Writer, unheld *result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\n%d releases in %s\tp50\tp90\tp99\tmaximum\tcount\n", r.releases, r.took.Round(time.Millisecond))
	durations := r.durations()
	for _, row := range durationRows {
		printSeconds(w, row, durations[row])
	}
	printSeconds(w, "unheld: update → complete", unheld.durations()[rowRelease])
	sent, lost := r.approvals()
	fmt.Fprintf(w, "\napprovals lost\t%d of %d\n", lost, sent)
	fmt.Fprintf(w, "longest standstill\t%.3f s\n", r.standstill.Seconds())
	r.printCosts(w, unheld)
	return w.Flush()
}

// printCosts prints what one release costs.
func (r *result) printCosts(w io.Writer, unheld *result) {
	perRelease := func(n float64) string { return fmt.Sprintf("%.1f", n/float64(r.releases)) }
	fmt.Fprintln(w, "\nper release\treleased\tunheld")
	writes := 0
	unheldWrites := 0
	for _, resource := range slices.Sorted(maps.Keys(r.costs.writes)) {
		n, m := r.costs.writes[resource], unheld.costs.writes[resource]
		writes, unheldWrites = writes+n, unheldWrites+m
		fmt.Fprintf(w, "writes of %s\t%s\t%s\n", resource, perRelease(float64(n)), perRelease(float64(m)))
	}
	fmt.Fprintf(w, "all writes\t%s\t%s\n", perRelease(float64(writes)), perRelease(float64(unheldWrites)))
	for _, row := range slices.Sorted(maps.Keys(r.costs.requests)) {
		if r.costs.requests[row]+unheld.costs.requests[row] > 0 {
			fmt.Fprintf(w, "%s\t%s\t%s\n", row, perRelease(r.costs.requests[row]), perRelease(unheld.costs.requests[row]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.costs.cpu)) {
		fmt.Fprintf(w, "CPU of %s, ms\t%s\t%s\n", name,
			perRelease(float64(r.costs.cpu[name].Milliseconds())), perRelease(float64(unheld.costs.cpu[name].Milliseconds())))
	}
	fmt.Fprintln(w, "\nat the end\tMiB")
	for _, name := range slices.Sorted(maps.Keys(r.costs.memory)) {
		fmt.Fprintf(w, "memory of %s\t%d\n", name, r.costs.memory[name]>>20)
	}
	for _, name := range slices.Sorted(maps.Keys(r.costs.stored)) {
		fmt.Fprintf(w, "data in the etcd of %s\t%.1f\n", name, float64(r.costs.stored[name])/(1<<20))
	}
}

// printSeconds prints the quantiles of a row.
func printSeconds(w io.Writer, row string, d []time.Duration) {
	if len(d) == 0 {
		return
	}
	slices.Sort(d)
	at := func(p float64) string { return fmt.Sprintf("%.3f s", quantile(d, p).Seconds()) }
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\n", row, at(0.5), at(0.9), at(0.99), at(1), len(d))
}

// durations returns the durations of all releases, by row.
func (r *result) durations() map[string][]time.Duration {
	all := map[string][]time.Duration{}
	for _, t := range r.timelines {
		for row, d := range t.durations() {
			all[row] = append(all[row], d...)
		}
	}
	return all
}

func (r *result) approvals() (sent, lost int) {
	for _, t := range r.timelines {
		s, l := t.approvals()
		sent, lost = sent+s, lost+l
	}
	return sent, lost
}

// quantile returns the smallest duration that is not below the share p of d. d is sorted.
func quantile(d []time.Duration, p float64) time.Duration {
	return d[max(0, int(math.Ceil(p*float64(len(d))))-1)]
}

// latencies are the durations of requests, by row.
type latencies struct {
	mu   sync.Mutex
	rows map[string][]time.Duration
}

func newLatencies() *latencies { return &latencies{rows: map[string][]time.Duration{}} }

func (l *latencies) add(row string, d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rows[row] = append(l.rows[row], d)
}

func (l *latencies) print(out io.Writer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rows) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nms\tp50\tp90\tp99\tmaximum\tcount")
	for _, row := range slices.Sorted(maps.Keys(l.rows)) {
		d := l.rows[row]
		slices.Sort(d)
		at := func(p float64) float64 { return float64(quantile(d, p).Microseconds()) / 1000 }
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%d\n", row, at(0.5), at(0.9), at(0.99), at(1), len(d))
	}
	return w.Flush()
}
