// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/weir-rollouts/weir/test/cluster"
)

// mostElsewhere is how many cores others may use before a pair does not count.
const mostElsewhere = 0.1

// visit is what one system did on one control plane.
type visit struct {
	floor, released *result
	// own are the processes of the system.
	own []string
}

// match is a visit of the peer and one of Weir, one right after the other.
type match struct{ peer, weir visit }

// compare drives the peer and Weir in turn, in the order A B B A, each time on a
// control plane of its own, so that neither always has the later one.
func compare(ctx context.Context, o options) error {
	var matches []match
	for i := range o.pairs {
		var m match
		turns := []struct {
			name string
			system
			to *visit
		}{{o.peer, peers[o.peer](o), &m.peer}, {"weir", weir{o}, &m.weir}}
		if i%2 == 1 {
			slices.Reverse(turns)
		}
		for _, turn := range turns {
			var err error
			if *turn.to, err = o.visit(ctx, turn.system); err != nil {
				return fmt.Errorf("pair %d: driving %s: %w", i+1, turn.name, err)
			}
			fmt.Printf("# pair %d of %d: %s: %s\n", i+1, o.pairs, turn.name, turn.to)
		}
		matches = append(matches, m)
	}
	return printMatches(os.Stdout, o.peer, matches)
}

func (o options) visit(ctx context.Context, s system) (visit, error) {
	v := visit{own: s.processes()}
	err := with(ctx, o, s, func(ctx context.Context, b *bench) error {
		var err error
		if v.floor, err = b.ready(ctx); err != nil {
			return err
		}
		v.released, err = b.round(ctx, 1)
		return err
	})
	return v, err
}

func (v *visit) String() string {
	mark := ""
	if v.loaded() {
		mark = ": LOADED"
	}
	return fmt.Sprintf("%d releases in %.1f s, unheld %.1f s, others used %.2f and %.2f cores%s", v.released.releases,
		v.released.took.Seconds(), v.floor.took.Seconds(), v.released.elsewhere(), v.floor.elsewhere(), mark)
}

// loaded reports whether other processes of the machine were in the way.
func (v *visit) loaded() bool {
	return max(v.released.elsewhere(), v.floor.elsewhere()) > mostElsewhere
}

// elsewhere is how many cores others used on average.
func (r *result) elsewhere() float64 { return r.spent.elsewhere.Seconds() / r.took.Seconds() }

// median is of a row of the timelines, in seconds.
func (r *result) median(row string) float64 {
	d := r.durations()[row]
	if len(d) == 0 {
		return math.NaN()
	}
	slices.Sort(d)
	return quantile(d, 0.5).Seconds()
}

// cpu is what these processes used for one release, or all of them, in milliseconds.
func (r *result) cpu(names ...string) float64 {
	var sum time.Duration
	for name, used := range r.spent.cpu {
		if len(names) == 0 || slices.Contains(names, name) {
			sum += used
		}
	}
	return float64(sum.Milliseconds()) / float64(r.releases)
}

// revisions are those of the store for one release.
func (r *result) revisions() float64 {
	sum := 0
	for _, n := range r.spent.writes {
		sum += n
	}
	return float64(sum) / float64(r.releases)
}

func (r *result) lost() float64 {
	sum := 0
	for _, t := range r.lines {
		_, lost := t.approvals()
		sum += lost
	}
	return float64(sum)
}

func timed(row string) func(visit) float64 {
	return func(v visit) float64 { return v.released.median(row) }
}

func used(name string) func(visit) float64 {
	return func(v visit) float64 { return v.released.cpu(name) }
}

func above(name ...string) func(visit) float64 {
	return func(v visit) float64 { return v.released.cpu(name...) - v.floor.cpu(name...) }
}

// compared are the rows of the table, as seconds, milliseconds of CPU for one
// release, or numbers.
var compared = []struct {
	name   string
	digits int
	of     func(visit) float64
}{
	{"all releases, s", 2, func(v visit) float64 { return v.released.took.Seconds() }},
	{rowUpdate + ", s", 3, timed(rowUpdate)},
	{rowScaled + ", s", 3, timed(rowScaled)},
	{rowPaused + ", s", 3, timed(rowPaused)},
	{rowGrown + ", s", 3, timed(rowGrown)},
	{rowNext + ", s", 3, timed(rowNext)},
	{rowHealthy + ", s", 3, timed(rowHealthy)},
	{"approvals lost", 0, func(v visit) float64 { return v.released.lost() }},
	{"store revisions", 1, func(v visit) float64 { return v.released.revisions() }},
	{"CPU of the system itself, ms", 0, func(v visit) float64 { return v.released.cpu(v.own...) }},
	{"CPU of kube-apiserver, ms", 0, used(cluster.KubeAPIServer)},
	{"… above unheld", 0, above(cluster.KubeAPIServer)},
	{"… divided by unheld", 2, func(v visit) float64 {
		return v.released.cpu(cluster.KubeAPIServer) / v.floor.cpu(cluster.KubeAPIServer)
	}},
	{"CPU of kube-controller-manager, ms", 0, used(cluster.ControllerManager)},
	{"… above unheld", 0, above(cluster.ControllerManager)},
	{"CPU of all processes, ms", 0, func(v visit) float64 { return v.released.cpu() }},
	{"… above unheld", 0, above()},
	{"unheld: all Deployments, s", 2, func(v visit) float64 { return v.floor.took.Seconds() }},
	{"unheld: store revisions", 1, func(v visit) float64 { return v.floor.revisions() }},
	{"unheld: CPU of kube-apiserver, ms", 0, func(v visit) float64 { return v.floor.cpu(cluster.KubeAPIServer) }},
	{"unheld: CPU of all processes, ms", 0, func(v visit) float64 { return v.floor.cpu() }},
}

// printMatches prints one table of all matches without other load, or of all if
// there is none.
func printMatches(out io.Writer, peer string, all []match) error {
	quiet := slices.DeleteFunc(slices.Clone(all), func(m match) bool { return m.peer.loaded() || m.weir.loaded() })
	counted := fmt.Sprintf("pairs without other load: %d of %d", len(quiet), len(all))
	if len(quiet) == 0 {
		quiet, counted = all, fmt.Sprintf("pairs, ALL WITH OTHER LOAD: %d", len(all))
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\n%s: median (least to most)\t%s\tweir\tweir ÷ %s\n", counted, peer, peer)
	for _, row := range compared {
		var theirs, ours, ratios []float64
		for _, m := range quiet {
			a, b := row.of(m.peer), row.of(m.weir)
			theirs, ours, ratios = append(theirs, a), append(ours, b), append(ratios, ratio(b, a))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", row.name, spread(theirs, row.digits), spread(ours, row.digits), spread(ratios, 2))
	}
	return w.Flush()
}

// ratio is none of what is not above nothing.
func ratio(a, b float64) float64 {
	if a < 0 || b <= 0 {
		return math.NaN()
	}
	return a / b
}

// spread is the median and what it lies between; no number if any is none.
func spread(of []float64, digits int) string {
	if slices.ContainsFunc(of, math.IsNaN) {
		return "–"
	}
	slices.Sort(of)
	middle := (of[(len(of)-1)/2] + of[len(of)/2]) / 2
	return fmt.Sprintf("%.*f (%.*f to %.*f)", digits, middle, digits, of[0], digits, of[len(of)-1])
}
