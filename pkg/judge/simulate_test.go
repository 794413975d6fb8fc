// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// attempts is the number of simulated releases. docs/analysis-statistics.md has the output of `make judge`.
var attempts = flag.Int("attempts", 1000, "how many releases to simulate for each row")

const hour = 120 // windows of 30 s

// world makes up traffic: requests are independent of each other, but for clumps.
type world struct {
	*rand.Rand
	newRate, oldRate   float64 // requests in a window
	newFails, oldFails float64
	clump              float64 // mean number of requests that fail together; 0 is one
	outage             int     // windows, from a random one, in which both fail 30 %
	good               int     // windows in which the new version is as good as stable, at first
}

func newWorld(seed uint64, perSecond, share, oldFails, newFails float64) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 1)), newFails: newFails, oldFails: oldFails}
	w.newRate, w.oldRate = perSecond*30*share, perSecond*30*(1-share)
	return w
}

// poisson draws by inversion, in parts that a float64 can hold.
func (w *world) poisson(mean float64) float64 {
	k := 0.0
	for ; mean > 500; mean -= 500 {
		k += w.small(500)
	}
	return k + w.small(mean)
}

// small walks outwards from the mode, so that it takes as many steps as the deviation.
func (w *world) small(mean float64) float64 {
	if mean <= 0 {
		return 0
	}
	mode := math.Floor(mean)
	gamma, _ := math.Lgamma(mode + 1)
	at := math.Exp(mode*math.Log(mean) - mean - gamma)
	u := w.Float64() - at
	low, high, pLow, pHigh := mode, mode, at, at
	for u > 0 {
		high++
		pHigh *= mean / high
		if u -= pHigh; u <= 0 {
			return high
		}
		if low > 0 {
			pLow *= low / mean
			low--
			if u -= pLow; u <= 0 {
				return low
			}
		} else if pHigh < 1e-300 {
			break
		}
	}
	return mode
}

// bad draws clumps: each has one to 2·clump-1 requests.
func (w *world) bad(mean float64) float64 {
	if w.clump <= 1 {
		return w.poisson(mean)
	}
	sum := 0.0
	for range int(w.poisson(mean / w.clump)) {
		sum += float64(1 + w.IntN(int(2*w.clump)-1))
	}
	return sum
}

func (w *world) count(requests, fails float64) Count {
	bad := w.bad(requests * fails)
	return Count{Total: bad + w.poisson(requests*(1-fails)), Bad: bad}
}

// measure measures windows.
func (w *world) measure(windows int) []Window {
	at := make([]Window, windows)
	from := windows
	if w.outage > 0 {
		from = w.IntN(windows - w.outage)
	}
	for k := range at {
		newFails, oldFails := w.newFails, w.oldFails
		if k < w.good {
			newFails = oldFails
		}
		if k >= from && k < from+w.outage {
			newFails, oldFails = 0.3, 0.3
		}
		at[k] = Window{Start: window(k), Known: true, Counts: []Pair{{w.count(w.newRate, newFails), w.count(w.oldRate, oldFails)}}}
	}
	return at
}

// past is an hour of stable alone.
func (w *world) past() []Window {
	at := make([]Window, hour)
	for k := range at {
		at[k] = Window{Known: true, Counts: []Pair{{Old: w.count(w.oldRate+w.newRate, w.oldFails)}}}
	}
	return at
}

// single is an hour in which nothing clumps: dispersion 1.
func single() []Window {
	at := make([]Window, 2)
	for k := range at {
		at[k] = Window{Known: true, Counts: []Pair{{Old: Count{1e4, 100}}}}
	}
	return at
}

// maxWrongVerdicts returns the highest number of wrong verdicts that the chance alpha explains, except in
// one case in a thousand.
func maxWrongVerdicts(n int, alpha float64) int {
	p := math.Exp(float64(n) * math.Log1p(-alpha))
	k, sum := 0, p
	for ; sum < 0.999; k++ {
		p *= float64(n-k) / float64(k+1) * alpha / (1 - alpha)
		sum += p
	}
	return k
}

func verdicts(w *world, c Check, n int, data func() Data) (failed, passed int) {
	for range n {
		switch v := Judge(c, data(), start, start.Add(hour*c.Every)); v.Is {
		case Failed:
			failed++
		case Passed:
			passed++
		}
	}
	return failed, passed
}

// TestGoodVersions checks that good versions fail no more often than a check promises, although
// each one is judged after each window for an hour.
func TestGoodVersions(t *testing.T) {
	t.Parallel()
	relative, rate := sampleCheck(Counts), sampleCheck(SuccessRate)
	alone := sampleCheck(SuccessRate)
	alone.Traffic = NewOnly
	clumped := func(c float64) func(*world) { return func(w *world) { w.clump = c } }
	for i, row := range []struct {
		name      string
		check     Check
		old, new  float64
		change    func(*world)
		single    bool    // measured as if nothing clumped
		atLeast   float64 // share of wrong verdicts; a broken assumption shows
		perSecond float64
	}{
		{name: "0.1 % errors, comparison alone", check: relative, old: 0.001, new: 0.001},
		{name: "1 % errors, comparison alone", check: relative, old: 0.01, new: 0.01},
		{name: "1 % errors, 98.5 % asked for, both", check: rate, old: 0.01, new: 0.01},
		{name: "no errors of stable, 0.1 % of new: the edge", check: relative, old: 0, new: 0.001, single: true},
		{name: "0.1 → 0.25 %: the edge of the comparison", check: relative, old: 0.001, new: 0.0025, single: true},
		{name: "1 → 1.6 %: the edge of the comparison", check: relative, old: 0.01, new: 0.016, single: true},
		{name: "1 %, 500/s: the edge of the objective", check: alone, old: 0.01, new: 0.01, single: true, perSecond: 500},
		{name: "clumps of 5, counted singly", check: relative, old: 0.01, new: 0.01, change: clumped(5), single: true, atLeast: 0.002},
		{name: "clumps of 8, counted singly", check: relative, old: 0.01, new: 0.01, change: clumped(8), single: true, atLeast: 0.05},
		{name: "clumps of 3", check: relative, old: 0.01, new: 0.01, change: clumped(3)},
		{name: "clumps of 8", check: relative, old: 0.01, new: 0.01, change: clumped(8)},
		{name: "both fail 30 % for 5 min, objective alone", check: alone, old: 0.001, new: 0.001, change: func(w *world) { w.outage = 10 }, single: true, atLeast: 0.99},
		{name: "both fail 30 % for 5 min", check: rate, old: 0.001, new: 0.001, change: func(w *world) { w.outage = 10 }, single: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if row.perSecond == 0 {
				row.perSecond = 50
			}
			w := newWorld(uint64(i), row.perSecond, 0.1, row.old, row.new)
			if row.change != nil {
				row.change(w)
			}
			failed, passed := verdicts(w, row.check, *attempts, func() Data {
				past := single()
				if !row.single {
					past = w.past()
				}
				return Data{Windows: w.measure(hour), Past: past}
			})
			t.Logf("%-45s %5d of %d failed, %d passed", row.name, failed, *attempts, passed)
			most := maxWrongVerdicts(*attempts, row.check.Alpha)
			if share := float64(failed) / float64(*attempts); row.atLeast > 0 && share < row.atLeast {
				t.Errorf("only %d failed: the row shows nothing", failed)
			} else if row.atLeast == 0 && failed > most {
				t.Errorf("%d failed, chance explains at most %d", failed, most)
			}
		})
	}
}

var slowBounds = []float64{5, 10, 25, 50, 75, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10000}

// latencies spreads requests over buckets: log-normal, with the median in ms.
func (w *world) latencies(requests, median float64) []Count {
	counts := make([]Count, len(slowBounds))
	sum, above := 0.0, 0.0
	for i, bound := range slices.Backward(slowBounds) {
		slower := 0.5 * math.Erfc(math.Log(bound/median)/(0.8*math.Sqrt2))
		sum += w.poisson(requests * (slower - above))
		above, counts[i].Bad = slower, sum
	}
	sum += w.poisson(requests * (1 - above))
	for i := range counts {
		counts[i].Total = sum
	}
	return counts
}

func latencyData(w *world, windows int, oldMedian, newMedian float64) Data {
	d := Data{Windows: w.measure(windows), Past: w.past()[:40], Bounds: slowBounds}
	for k := range d.Windows {
		old := w.latencies(w.oldRate, oldMedian)
		for i, count := range w.latencies(w.newRate, newMedian) {
			d.Windows[k].Counts = append(d.Windows[k].Counts, Pair{count, old[i]})
		}
	}
	for k := range d.Past {
		for _, count := range w.latencies(w.oldRate+w.newRate, oldMedian) {
			d.Past[k].Counts = append(d.Past[k].Counts, Pair{Old: count})
		}
	}
	return d
}

// TestGoodLatencies checks that the comparison of errors and 14 boundaries is one test with one
// chance to be wrong.
func TestGoodLatencies(t *testing.T) {
	t.Parallel()
	w := newWorld(77, 50, 0.1, 0.01, 0.01)
	n := *attempts / 10
	failed, passed := verdicts(w, sampleCheck(AsGoodAs), n, func() Data { return latencyData(w, hour, 40, 40) })
	t.Logf("errors and %d boundaries: %d of %d failed, %d passed", len(slowBounds), failed, n, passed)
	if most := maxWrongVerdicts(n, 0.001); failed > most {
		t.Errorf("%d failed, chance explains at most %d", failed, most)
	}
	if passed < n*9/10 {
		t.Errorf("only %d passed", passed)
	}
}

// timeUntil folds an hour; the fold ends where the check fails or, unless it shall fail,
// passes.
func timeUntil(c Check, d Data, want State) (time.Duration, float64) {
	for k := range d.Windows {
		d.Carry = Fold(c, Data{Windows: d.Windows[k : k+1], Past: d.Past, Bounds: d.Bounds, Carry: d.Carry}, start, window(k+1))
		if d.Carry.Is == want {
			return window(k + 1).Sub(start), d.Carry.Harm.Counts[0].New.Total
		}
		if d.Carry.Is == Failed {
			break
		}
	}
	return math.MaxInt64, math.Inf(1)
}

func median[T time.Duration | float64](of []T) T {
	slices.Sort(of)
	return of[len(of)/2]
}

func inWords(d time.Duration) string {
	if d == math.MaxInt64 {
		return "over 1 h"
	}
	return d.String()
}

// TestTimes measures the time until bad versions fail and good ones pass, with the dispersion
// measured in the hour before the release. With fewer than 20 failed requests in this hour, a
// dispersion of 2 is assumed.
func TestTimes(t *testing.T) {
	t.Parallel()
	rate, relative := sampleCheck(SuccessRate), sampleCheck(Counts)
	rate.AtLeast, relative.AtLeast = 0, 0
	for i, row := range []struct {
		check    Check
		old, new float64
		clump    float64
		good     int
		want     State
		most     [3]time.Duration // at 5, 50 and 500 requests a second
	}{
		{check: rate, old: 0, new: 1, want: Failed, most: [3]time.Duration{time.Minute, time.Minute, time.Minute}},
		{check: rate, old: 0.001, new: 0.2, want: Failed, most: [3]time.Duration{3 * time.Minute, time.Minute, time.Minute}},
		{check: rate, old: 0.001, new: 0.05, want: Failed, most: [3]time.Duration{15 * time.Minute, 2 * time.Minute, time.Minute}},
		{check: relative, old: 0.001, new: 0.05, want: Failed, most: [3]time.Duration{12 * time.Minute, 90 * time.Second, time.Minute}},
		{check: relative, old: 0.001, new: 0.02, want: Failed, most: [3]time.Duration{30 * time.Minute, 4 * time.Minute, time.Minute}},
		{check: relative, old: 0.01, new: 0.03, want: Failed, most: [3]time.Duration{math.MaxInt64, 13 * time.Minute, 150 * time.Second}},
		{check: relative, old: 0.001, new: 0.05, clump: 5, want: Failed, most: [3]time.Duration{math.MaxInt64, 5 * time.Minute, time.Minute}},
		{check: rate, old: 0.001, new: 1, good: 60, want: Failed, most: [3]time.Duration{2 * time.Minute, time.Minute, time.Minute}},
		{check: rate, old: 0.001, new: 0.05, good: 60, want: Failed, most: [3]time.Duration{25 * time.Minute, 3 * time.Minute, time.Minute}},
		{check: relative, old: 0.001, new: 0.05, good: 60, want: Failed, most: [3]time.Duration{16 * time.Minute, 3 * time.Minute, time.Minute}},
		{check: rate, old: 0.001, new: 0.001, want: Passed, most: [3]time.Duration{25 * time.Minute, 150 * time.Second, time.Minute}},
		{check: relative, old: 0.01, new: 0.01, want: Passed, most: [3]time.Duration{math.MaxInt64, 6 * time.Minute, 90 * time.Second}},
		{check: rate, old: 0.01, new: 0.01, want: Passed, most: [3]time.Duration{math.MaxInt64, 15 * time.Minute, 90 * time.Second}},
	} {
		name := fmt.Sprintf("%s %g to %g %%, clumps of %g, good for %d windows, %s", row.check.Rule, 100*row.old, 100*row.new, row.clump, row.good, row.want)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var line []string
			n := max(*attempts/20, 30)
			fewest := math.Inf(1)
			for j, perSecond := range []float64{5, 50, 500} {
				w := newWorld(uint64(100+10*i+j), perSecond, 0.1, row.old, row.new)
				w.clump, w.good = row.clump, row.good
				times, requests := []time.Duration{}, []float64{}
				for range n {
					took, count := timeUntil(row.check, Data{Windows: w.measure(hour), Past: w.past()}, row.want)
					if took != math.MaxInt64 {
						took -= time.Duration(row.good) * every
					}
					times, requests = append(times, took), append(requests, count)
				}
				took := median(times)
				fewest = min(fewest, median(requests))
				line = append(line, inWords(took))
				if took > row.most[j] {
					t.Errorf("at %g/s it takes %s, more than %s", perSecond, inWords(took), row.most[j])
				}
			}
			t.Logf("%-45s %5.0f requests; at 5, 50, 500/s: %s", name, fewest, strings.Join(line, ", "))
		})
	}
}
