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

// maxOtherCores is how many cores other processes may use before a pair is left out.
const maxOtherCores = 0.1

// systemRun is what one system did on one control plane.
type systemRun struct {
	unheld, released *result
	// processes are the system's own processes.
	processes []string
}

// pair is a run of the peer and a run of Weir, one directly after the other.
type pair struct{ peer, weir systemRun }

// comparePairs runs the peer and Weir in turn, each time on a new control plane. The order is
// A B B A, so that neither system always comes second.
func comparePairs(ctx context.Context, o options) error {
	var pairs []pair
	for i := range o.pairs {
		var p pair
		turns := []struct {
			name   string
			system system
			run    *systemRun
		}{{o.peer, peers[o.peer](o), &p.peer}, {"weir", weir{o}, &p.weir}}
		if i%2 == 1 {
			slices.Reverse(turns)
		}
		for _, turn := range turns {
			turn.run.processes = turn.system.processes()
			err := withSystem(ctx, o, turn.system, func(ctx context.Context, b *bench) (err error) {
				turn.run.unheld, turn.run.released, err = b.measureReleases(ctx)
				return err
			})
			if err != nil {
				return fmt.Errorf("pair %d: releasing with %s: %w", i+1, turn.name, err)
			}
			fmt.Printf("# pair %d of %d: %s: %s\n", i+1, o.pairs, turn.name, turn.run)
		}
		pairs = append(pairs, p)
	}
	return printPairs(os.Stdout, o.peer, pairs)
}

func (r *systemRun) String() string {
	mark := ""
	if r.isDisturbed() {
		mark = ": DISTURBED by other processes"
	}
	return fmt.Sprintf("%d releases in %.1f s, unheld %.1f s; other processes used %.2f and %.2f cores%s", r.released.releases,
		r.released.took.Seconds(), r.unheld.took.Seconds(), r.released.otherCores(), r.unheld.otherCores(), mark)
}

// isDisturbed reports whether other processes of the machine used too much CPU during the run.
func (r *systemRun) isDisturbed() bool {
	return max(r.released.otherCores(), r.unheld.otherCores()) > maxOtherCores
}

// otherCores returns how many cores other processes used on average.
func (r *result) otherCores() float64 { return r.costs.otherCPU.Seconds() / r.took.Seconds() }

// median returns the median of a row of durations in seconds, NaN if nothing was measured.
func (r *result) median(row string) float64 {
	d := r.durations()[row]
	if len(d) == 0 {
		return math.NaN()
	}
	slices.Sort(d)
	return quantile(d, 0.5).Seconds()
}

// cpu returns the CPU time per release of the named processes, or of all, in milliseconds.
func (r *result) cpu(names ...string) float64 {
	var sum time.Duration
	for name, used := range r.costs.cpu {
		if len(names) == 0 || slices.Contains(names, name) {
			sum += used
		}
	}
	return float64(sum.Milliseconds()) / float64(r.releases)
}

// revisions returns the revisions of all stores per release.
func (r *result) revisions() float64 {
	sum := 0
	for _, n := range r.costs.writes {
		sum += n
	}
	return float64(sum) / float64(r.releases)
}

func medianOf(row string) func(systemRun) float64 {
	return func(r systemRun) float64 { return r.released.median(row) }
}

func cpuOf(name string) func(systemRun) float64 {
	return func(r systemRun) float64 { return r.released.cpu(name) }
}

// cpuAboveUnheld is the CPU time above that of the same change without a release.
func cpuAboveUnheld(names ...string) func(systemRun) float64 {
	return func(r systemRun) float64 { return r.released.cpu(names...) - r.unheld.cpu(names...) }
}

// comparedRows are the rows of the comparison. CPU and revisions are per release.
var comparedRows = []struct {
	name   string
	digits int
	value  func(systemRun) float64
}{
	{"all releases, s", 2, func(r systemRun) float64 { return r.released.took.Seconds() }},
	{rowAnswered + ", s", 3, medianOf(rowAnswered)},
	{rowScaled + ", s", 3, medianOf(rowScaled)},
	{rowFirstWait + ", s", 3, medianOf(rowFirstWait)},
	{rowNextScaled + ", s", 3, medianOf(rowNextScaled)},
	{rowNextWait + ", s", 3, medianOf(rowNextWait)},
	{rowHealthy + ", s", 3, medianOf(rowHealthy)},
	{"approvals lost", 0, func(r systemRun) float64 { _, lost := r.released.approvals(); return float64(lost) }},
	{"store revisions", 1, func(r systemRun) float64 { return r.released.revisions() }},
	{"CPU of the system itself, ms", 0, func(r systemRun) float64 { return r.released.cpu(r.processes...) }},
	{"CPU of kube-apiserver, ms", 0, cpuOf(cluster.KubeAPIServer)},
	{"… above unheld", 0, cpuAboveUnheld(cluster.KubeAPIServer)},
	{"CPU of kube-controller-manager, ms", 0, cpuOf(cluster.ControllerManager)},
	{"… above unheld", 0, cpuAboveUnheld(cluster.ControllerManager)},
	{"CPU of all processes, ms", 0, func(r systemRun) float64 { return r.released.cpu() }},
	{"… above unheld", 0, cpuAboveUnheld()},
	{"unheld: all Deployments, s", 2, func(r systemRun) float64 { return r.unheld.took.Seconds() }},
	{"unheld: store revisions", 1, func(r systemRun) float64 { return r.unheld.revisions() }},
	{"unheld: CPU of kube-apiserver, ms", 0, func(r systemRun) float64 { return r.unheld.cpu(cluster.KubeAPIServer) }},
	{"unheld: CPU of all processes, ms", 0, func(r systemRun) float64 { return r.unheld.cpu() }},
}

// printPairs prints one table of all pairs that were not disturbed, or of all pairs if all were.
func printPairs(out io.Writer, peer string, all []pair) error {
	pairs := slices.DeleteFunc(slices.Clone(all), func(p pair) bool { return p.peer.isDisturbed() || p.weir.isDisturbed() })
	counted := fmt.Sprintf("%d of %d pairs, without those that other processes disturbed", len(pairs), len(all))
	if len(pairs) == 0 {
		pairs, counted = all, fmt.Sprintf("%d pairs, ALL DISTURBED by other processes", len(all))
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\n%s: median (minimum to maximum)\t%s\tweir\tweir ÷ %s\n", counted, peer, peer)
	for _, row := range comparedRows {
		var theirs, ours, ratios []float64
		for _, p := range pairs {
			a, b := row.value(p.peer), row.value(p.weir)
			theirs, ours, ratios = append(theirs, a), append(ours, b), append(ratios, ratio(b, a))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", row.name, spread(theirs, row.digits), spread(ours, row.digits), spread(ratios, 2))
	}
	return w.Flush()
}

// ratio returns a/b, NaN if that says nothing.
func ratio(a, b float64) float64 {
	if a < 0 || b <= 0 {
		return math.NaN()
	}
	return a / b
}

// spread formats the median, the minimum and the maximum, or a dash if a value is missing.
func spread(values []float64, digits int) string {
	if slices.ContainsFunc(values, math.IsNaN) {
		return "–"
	}
	slices.Sort(values)
	median := (values[(len(values)-1)/2] + values[len(values)/2]) / 2
	return fmt.Sprintf("%.*f (%.*f to %.*f)", digits, median, digits, values[0], digits, values[len(values)-1])
}
