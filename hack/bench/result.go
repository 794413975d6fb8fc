// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"
)

// The rows of the table.
const (
	rowUpdate  = "update → answered"
	rowHeld    = "update → held"
	rowScaled  = "update → first batch scaled"
	rowPaused  = "update → step 1 waits"
	rowGrown   = "approval → next batch scaled"
	rowNext    = "approval → next step waits"
	rowHealthy = "last approval → Healthy"
	rowWhole   = "update → Healthy"
)

var rows = []string{rowUpdate, rowHeld, rowScaled, rowPaused, rowGrown, rowNext, rowHealthy, rowWhole}

// result is what a round has shown.
type result struct {
	releases int
	began    time.Time
	took     time.Duration
	still    time.Duration // the longest time that nothing changed
	lines    []*timeline
	spent    *spent
}

// print prints the table; floor is the same change of Deployments that nobody holds.
func (r *result) print(out io.Writer, floor *result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%d releases in %s\tp50\tp90\tp99\tmost\tof\n", r.releases, r.took.Round(time.Millisecond))
	measured := r.durations()
	for _, row := range rows {
		writeRow(w, row, measured[row])
	}
	writeRow(w, "unheld: update → complete", floor.durations()[rowWhole])
	sent, lost := 0, 0
	for _, t := range r.lines {
		s, l := t.approvals()
		sent, lost = sent+s, lost+l
	}
	fmt.Fprintf(w, "\napprovals lost\t%d of %d\n", lost, sent)
	fmt.Fprintf(w, "longest standstill\t%.3f s\n", r.still.Seconds())
	r.writeSpent(w, floor)
	return w.Flush()
}

func (r *result) durations() map[string][]time.Duration {
	all := map[string][]time.Duration{}
	for _, t := range r.lines {
		for row, d := range t.durations() {
			all[row] = append(all[row], d...)
		}
	}
	return all
}

func writeRow(w io.Writer, row string, d []time.Duration) {
	if len(d) == 0 {
		return
	}
	slices.Sort(d)
	at := func(p float64) string { return fmt.Sprintf("%.3f s", quantile(d, p).Seconds()) }
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\n", row, at(0.5), at(0.9), at(0.99), at(1), len(d))
}

// writeSpent prints what one release costs.
func (r *result) writeSpent(w io.Writer, floor *result) {
	each := func(n float64) string { return fmt.Sprintf("%.1f", n/float64(r.releases)) }
	fmt.Fprintln(w, "\nper release\treleased\tunheld")
	sum, bare := 0, 0
	for _, resource := range slices.Sorted(maps.Keys(r.spent.writes)) {
		n, of := r.spent.writes[resource], floor.spent.writes[resource]
		sum, bare = sum+n, bare+of
		fmt.Fprintf(w, "writes of %s\t%s\t%s\n", resource, each(float64(n)), each(float64(of)))
	}
	if len(r.spent.writes) > 0 {
		fmt.Fprintf(w, "writes in all\t%s\t%s\n", each(float64(sum)), each(float64(bare)))
	}
	for _, what := range slices.Sorted(maps.Keys(r.spent.requests)) {
		if r.spent.requests[what]+floor.spent.requests[what] == 0 {
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", what, each(r.spent.requests[what]), each(floor.spent.requests[what]))
	}
	for _, name := range slices.Sorted(maps.Keys(r.spent.cpu)) {
		fmt.Fprintf(w, "CPU of %s, ms\t%s\t%s\n", name,
			each(float64(r.spent.cpu[name].Milliseconds())), each(float64(floor.spent.cpu[name].Milliseconds())))
	}
	fmt.Fprintln(w, "\nnow\tMiB")
	for _, name := range slices.Sorted(maps.Keys(r.spent.memory)) {
		fmt.Fprintf(w, "memory of %s\t%d\n", name, r.spent.memory[name]>>20)
	}
	for _, name := range slices.Sorted(maps.Keys(r.spent.stored)) {
		fmt.Fprintf(w, "stored in the etcd %s\t%.1f\n", name, float64(r.spent.stored[name])/(1<<20))
	}
}
