// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

var start = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

const every = 30 * time.Second

// window is the start of window k.
func window(k int) time.Time { return start.Add(time.Duration(k) * every) }

func sampleCheck(rule Rule) Check {
	return Check{
		Rule: rule, Objective: 0.01, Below: 500, FailAfter: 3, Alpha: 0.001,
		Every: every, AtLeast: time.Minute, Within: time.Hour, Source: "source default", Query: "http_requests_total",
	}
}

// same returns n windows with the same counts, from window k on.
func same(k, n int, counts ...Pair) []Window {
	var of []Window
	for i := range n {
		of = append(of, Window{Start: window(k + i), Known: true, Counts: counts})
	}
	return of
}

// pair reads new and old, bad of total.
func pair(newBad, newTotal, oldBad, oldTotal float64) Pair {
	return Pair{Count{newTotal, newBad}, Count{oldTotal, oldBad}}
}

func with(c Check, change func(*Check)) Check {
	change(&c)
	return c
}

func numbers(values ...float64) []Sample {
	var of []Sample
	for k, value := range values {
		of = append(of, Sample{At: window(k + 1), Value: value})
	}
	return of
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	limit, floor := 5e8, 1.0
	rate, latency, asGood, counts := sampleCheck(SuccessRate), sampleCheck(Latency), sampleCheck(AsGoodAs), sampleCheck(Counts)
	number := with(sampleCheck(Number), func(c *Check) { c.Max = &limit })
	job := with(sampleCheck(Number), func(c *Check) { c.Min, c.FailAfter, c.AtLeast = &floor, 1, 0 })
	down := Fault{Why: "timeout", Since: start}
	nan := math.NaN()
	for _, row := range []struct {
		name  string
		check Check
		data  Data
		since time.Duration // the step began so long after the attempt
		after time.Duration // that the attempt began
		want  string
		wake  time.Duration
	}{
		{
			name: "a worse version is not failed before stable is known to be good in the next window", check: rate, after: 40 * time.Second,
			data: Data{Windows: same(0, 1, pair(50, 1210, 11, 10871))},
			want: "Running: 50 of 1210 requests failed (4.1 %), stable 11 of 10871 (0.1 %); objective 99 %: bad until now, measured until 12:01:00", wake: 20 * time.Second,
		},
		{
			name: "a worse version fails then", check: rate, after: 70 * time.Second,
			data: Data{Windows: same(0, 2, pair(50, 1210, 11, 10871))},
			want: "Failed: 50 of 1210 requests failed (4.1 %), stable 11 of 10871 (0.1 %) until 12:00:30; objective 99 %; dispersion 2 assumed, wrong in less than 1 of 1000000 such releases",
		},
		{
			name: "failures of stable that are counted late excuse the new version", check: rate, after: 70 * time.Second,
			data: Data{Windows: append(same(0, 1, pair(50, 1210, 11, 10871)), same(1, 1, pair(50, 1210, 550, 10871))...)},
			want: "Running: 100 of 2420 requests failed (4.1 %), stable 561 of 21742 (2.6 %); objective 99 %: stable is as bad", wake: 20 * time.Second,
		},
		{
			name: "a worse version fails by comparison alone", check: counts, after: 70 * time.Second,
			data: Data{Windows: append(same(0, 1, pair(16, 400, 4, 3600)), same(1, 1, pair(0, 400, 0, 3600))...)},
			want: "Failed: 16 of 400 requests failed (4 %), stable 4 of 3600 (0.11 %) until 12:00:30; dispersion 2 assumed, wrong in less than 1 of 3800 such releases",
		},
		{
			name: "not if more traffic in the next window may have been there already", check: counts, after: 70 * time.Second,
			data: Data{Windows: append(same(0, 1, pair(16, 400, 4, 3600)), same(1, 1, pair(0, 4000, 0, 3600))...)},
			want: "Running: 16 of 4400 requests failed (0.36 %), stable 4 of 7200 (0.056 %): good until now, measured until 12:01:30", wake: 20 * time.Second,
		},
		{
			name: "a gate only waits", check: with(counts, func(c *Check) { c.Gate = true }), after: 70 * time.Second,
			data: Data{Windows: append(same(0, 1, pair(16, 400, 4, 3600)), same(1, 1, pair(0, 400, 0, 3600))...)},
			want: "Running: 16 of 800 requests failed (2 %), stable 4 of 7200 (0.056 %): neither good nor bad enough yet", wake: 20 * time.Second,
		},
		{
			name: "evidence that is nearly enough", check: counts, after: 70 * time.Second,
			data: Data{Windows: append(same(0, 1, pair(14, 400, 4, 3600)), same(1, 1, pair(0, 400, 0, 3600))...)},
			want: "Running: 14 of 800 requests failed (1.8 %), stable 4 of 7200 (0.056 %): neither good nor bad enough yet", wake: 20 * time.Second,
		},
		{
			name: "a failure is final", check: rate, after: 10 * time.Minute,
			data: Data{Windows: append(same(0, 1, pair(150, 150, 0, 1000)), same(1, 19, pair(0, 1000, 0, 1000))...)},
			want: "Failed: 150 of 150 requests failed (100 %), stable 0 of 1000 (0 %) until 12:00:30; objective 99 %; dispersion 2 assumed, wrong in less than 1 of 1000000 such releases",
		},
		{
			name: "a failure of an earlier step counts", check: rate, since: 40 * time.Second, after: 70 * time.Second,
			data: Data{Windows: same(0, 2, pair(50, 1210, 11, 10871))},
			want: "Failed: 50 of 1210 requests failed (4.1 %), stable 11 of 10871 (0.1 %) until 12:00:30; objective 99 %; dispersion 2 assumed, wrong in less than 1 of 1000000 such releases",
		},
		{
			name: "a good one passes when the least time is over", check: rate, after: time.Minute,
			data: Data{Windows: same(0, 2, pair(0, 1000, 9, 9000))},
			want: "Passed: 0 of 2000 requests failed (0 %), stable 18 of 18000 (0.1 %); a version a point worse is ruled out", wake: every,
		},
		{
			name: "not earlier", check: rate, after: 59 * time.Second,
			data: Data{Windows: same(0, 2, pair(1, 1000, 9, 9000))},
			want: "Running: 1 of 1000 requests failed (0.1 %), stable 9 of 9000 (0.1 %): good until now, measured until 12:01:00", wake: time.Second,
		},
		{
			name: "not earlier, however good", check: with(rate, func(c *Check) { c.AtLeast = 2 * time.Minute }), after: 90 * time.Second,
			data: Data{Windows: same(0, 3, pair(0, 1000, 9, 9000))},
			want: "Running: 0 of 3000 requests failed (0 %), stable 27 of 27000 (0.1 %): good until now, measured until 12:02:00", wake: every,
		},
		{
			name: "windows of an earlier step pass nothing", check: rate, since: time.Minute, after: 2 * time.Minute,
			data: Data{Windows: append(same(0, 2, pair(1, 1000, 9, 9000)), same(2, 2, pair(0, 50, 0, 450))...)},
			want: "Running: 100 of about 1200 requests, 0 failed", wake: every,
		},
		{
			name: "a version that passed can fail", check: rate, after: 5 * time.Minute,
			data: Data{Windows: append(same(0, 2, pair(1, 1000, 9, 9000)), same(2, 2, pair(200, 1000, 9, 9000))...)},
			want: "Failed: 202 of 3000 requests failed (6.7 %), stable 27 of 27000 (0.1 %) until 12:01:30; objective 99 %; dispersion 2 assumed, wrong in less than 1 of 1000000 such releases",
		},
		{
			name: "requests of the warm-up fail nothing", check: with(rate, func(c *Check) { c.After = 45 * time.Second }), after: 150 * time.Second,
			data: Data{Windows: append(same(0, 2, pair(150, 150, 0, 1350)), same(2, 3, pair(0, 150, 0, 1350))...)},
			want: "Running: 300 of about 880 requests, 0 failed", wake: every,
		},
		{
			name: "nor pass anything", check: with(rate, func(c *Check) { c.After = 45 * time.Second }), after: time.Minute,
			data: Data{Windows: same(0, 2, pair(0, 1000, 9, 9000))},
			want: "Running: requests until 12:00:45 are not judged: the new pods warm up", wake: every,
		},
		{
			name: "they are counted at the next scrape", check: with(rate, func(c *Check) { c.After = 45 * time.Second }), after: 150 * time.Second,
			data: Data{Windows: append(same(0, 3, pair(150, 150, 0, 1350)), same(3, 2, pair(0, 150, 0, 1350))...), Scrape: 30 * time.Second},
			want: "Running: 150 of about 880 requests, 0 failed", wake: every,
		},
		{
			name: "a version that is bad after the warm-up fails", check: with(rate, func(c *Check) { c.After = 45 * time.Second }), after: 2 * time.Minute,
			data: Data{Windows: same(0, 4, pair(150, 150, 0, 1350))},
			want: "Failed: 150 of 150 requests failed (100 %), stable 0 of 1350 (0 %) until 12:01:30; objective 99 %; dispersion 2 assumed, wrong in less than 1 of 1000000 such releases",
		},
		{
			name: "a minute between two scrapes: blocks of two windows", check: rate, after: 119 * time.Second,
			data: Data{Windows: same(0, 3, pair(150, 150, 0, 1350)), Scrape: time.Minute},
			want: "Running: 450 of 450 requests failed (100 %), stable 0 of 4050 (0 %); objective 99 %: bad until now, measured until 12:02:00", wake: time.Second,
		},
		{
			name: "one block, and the next", check: rate, after: 2 * time.Minute,
			data: Data{Windows: same(0, 4, pair(150, 150, 0, 1350)), Scrape: time.Minute},
			want: "Failed: 300 of 300 requests failed (100 %), stable 0 of 2700 (0 %) until 12:01:00; objective 99 %; dispersion 2 assumed, wrong in less than 1 of 1000000 such releases",
		},
		{
			name: "scrapes that come a little late change nothing", check: rate, after: time.Minute,
			data: Data{Windows: same(0, 2, pair(150, 150, 0, 1350)), Scrape: 32 * time.Second},
			want: "Failed: 150 of 150 requests failed (100 %), stable 0 of 1350 (0 %) until 12:00:30; objective 99 %; dispersion 2 assumed, wrong in less than 1 of 1000000 such releases",
		},
		{
			name: "failures of stable that were counted early excuse the new version", check: counts, after: 90 * time.Second,
			data: Data{Windows: append(same(0, 1, pair(0, 150, 700, 1350)), append(same(1, 1, pair(80, 150, 0, 1350)), same(2, 1, pair(0, 150, 0, 1350))...)...)},
			want: "Running: 450 of about 590 requests, 80 failed", wake: every,
		},
		{
			name: "stable has no data in the next window, so its failures are not known", check: counts, after: 2 * time.Minute,
			data: Data{Windows: append(same(0, 1, pair(40, 150, 0, 1350)), same(1, 3, pair(0, 150, 0, 0))...)},
			want: "Running: 40 of 600 requests failed (6.7 %), stable 0 of 1350 (0 %): neither good nor bad enough yet", wake: every,
		},
		{
			name: "no later requests to the new version, so none that failed", check: counts, after: 90 * time.Second,
			data: Data{Windows: append(same(0, 1, pair(0, 1000, 9, 9000)), same(1, 2, pair(0, 0, 9, 9000))...)},
			want: "Passed: 0 of 1000 requests failed (0 %), stable 27 of 27000 (0.1 %); a version a point worse is ruled out", wake: every,
		},
		{
			name: "a step without stable ends the comparison, and drops nothing", check: with(rate, func(c *Check) { c.Traffic = NewOnly }),
			since: 30 * time.Second, after: time.Minute,
			data: Data{Windows: append(same(0, 1, pair(150, 150, 0, 1350)), same(1, 1, pair(0, 1500, 0, 0))...)},
			want: "Failed: 150 of 150 requests failed (100 %), stable 0 of 1350 (0 %) until 12:00:30; objective 99 %; dispersion 2 assumed, wrong in less than 1 of 1000000 such releases",
		},
		{
			name: "too few requests", check: rate, after: 70 * time.Second,
			data: Data{Windows: same(0, 2, pair(0, 105, 1, 900))},
			want: "Running: 210 of about 760 requests, 0 failed", wake: 20 * time.Second,
		},
		{
			name: "a shared outage blames neither", check: rate, after: 10 * time.Minute,
			data: Data{Windows: same(0, 20, pair(45, 150, 405, 1350))},
			want: "Running: 900 of 3000 requests failed (30 %), stable 8100 of 27000 (30 %); objective 99 %: stable is as bad", wake: every,
		},
		{
			name: "nothing but time makes it inconclusive", check: rate, after: time.Hour,
			data: Data{Windows: same(0, 120, pair(45, 150, 405, 1350))},
			want: "Inconclusive: undecided after 1h0m0s: 5400 of 18000 requests failed (30 %), stable 48600 of 162000 (30 %); objective 99 %: stable is as bad", wake: every,
		},
		{
			name: "without stable the objective decides", check: with(rate, func(c *Check) { c.Traffic = NewOnly }), after: time.Minute,
			data: Data{Windows: same(0, 2, pair(30, 1000, 0, 0))},
			want: "Failed: 60 of 2000 requests failed (3 %) until 12:01:00; objective 99 %; dispersion 2 assumed, wrong in less than 1 of 45000 such releases; an outage looks the same",
		},
		{
			name: "without stable the objective passes", check: with(rate, func(c *Check) { c.Traffic = NewOnly }), after: time.Minute,
			data: Data{Windows: same(0, 2, pair(1, 1000, 0, 0))},
			want: "Passed: 2 of 2000 requests failed (0.1 %); a version a point worse is ruled out", wake: every,
		},
		{
			name: "an outage of both is not held against the new one later", check: with(rate, func(c *Check) { c.Traffic = NewOnly }),
			since: 10 * time.Minute, after: 11 * time.Minute,
			data: Data{Windows: append(same(0, 20, pair(45, 150, 405, 1350)), same(20, 2, pair(1, 1000, 0, 0))...)},
			want: "Passed: 2 of 2000 requests failed (0.1 %); a version a point worse is ruled out", wake: every,
		},
		{
			name: "stable should get requests, and is not seen", check: rate, after: time.Minute,
			data: Data{Windows: same(0, 2, pair(50, 1000, 0, 0))},
			want: "Running: 2000 requests to the new version, none to stable to compare with", wake: every,
		},
		{
			name: "no requests by plan", check: with(asGood, func(c *Check) { c.Traffic = StableOnly }), after: time.Minute,
			want: "Skipped: this step sends the new version no requests",
		},
		{
			name: "no requests before the traffic", check: with(rate, func(c *Check) { c.Traffic = BeforeTraffic }), after: time.Minute,
			want: "Skipped: nothing is judged: the check counts requests, and the new version gets none before the traffic of a step; leave out at: BeforeTraffic",
		},
		{
			name: "nothing to compare with by plan", check: with(counts, func(c *Check) { c.Traffic = NewOnly }), after: time.Minute,
			want: "Skipped: this step sends stable no requests to compare with",
		},
		{
			name: "no requests yet", check: rate, after: 70 * time.Second,
			data: Data{Windows: same(0, 2, pair(0, 0, 1, 900))},
			want: "Running: no requests to the new version yet", wake: 20 * time.Second,
		},
		{
			name: "nothing matches, for long", check: counts, after: 5 * time.Minute,
			data: Data{Windows: same(0, 10, Pair{})},
			want: "Running: no requests to either version since 12:00:00: nothing matches http_requests_total", wake: every,
		},
		{
			name: "a source that is silent for a short time", check: rate, after: 40 * time.Second, data: Data{Fault: down},
			want: "Running: no result from source default since 12:00:00: timeout", wake: 40 * time.Second,
		},
		{
			name: "it is asked again soon, then later", check: rate, after: 2 * time.Second, data: Data{Fault: down},
			want: "Running: no result from source default since 12:00:00: timeout", wake: 5 * time.Second,
		},
		{
			name: "a source that is silent for long", check: rate, after: 5 * time.Minute, data: Data{Fault: down},
			want: "Running: no result from source default since 12:00:00: timeout", wake: time.Minute,
		},
		{
			name: "and too long", check: rate, after: time.Hour, data: Data{Fault: down},
			want: "Inconclusive: undecided after 1h0m0s: no result from source default since 12:00:00: timeout", wake: time.Minute,
		},
		{
			name: "just before, it wakes in time", check: rate, after: time.Hour - time.Second, data: Data{Fault: down},
			want: "Running: no result from source default since 12:00:00: timeout", wake: time.Second,
		},
		{
			name: "several series, for a short time", check: number, after: time.Minute - time.Second,
			data: Data{Fault: Fault{Why: "3 series", Since: start, Invalid: true}},
			want: "Running: cannot run: 3 series", wake: 59 * time.Second,
		},
		{
			name: "several series", check: number, after: time.Minute,
			data: Data{Fault: Fault{Why: "3 series", Since: start, Invalid: true}},
			want: "Inconclusive: cannot run: 3 series", wake: time.Minute,
		},
		{
			name: "NaN is no data", check: rate, after: 10 * time.Minute,
			data: Data{Windows: same(0, 20, pair(nan, 100, 0, 1000))},
			want: "Running: no requests to either version since 12:00:00: nothing matches http_requests_total", wake: every,
		},
		{
			name: "a window that was not answered ends what is judged", check: rate, after: 2 * time.Minute,
			data: Data{Windows: append([]Window{{Start: start}}, same(1, 3, pair(150, 150, 0, 1000))...)},
			want: "Running: no requests to the new version yet", wake: every,
		},
		{
			name: "young windows are not judged", check: with(rate, func(c *Check) { c.Lag = 15 * time.Second }), after: 40 * time.Second,
			data: Data{Windows: same(0, 1, pair(150, 150, 0, 1000))},
			want: "Running: no requests to the new version yet", wake: 5 * time.Second,
		},
		{
			name: "latency is judged by the next boundary up", check: latency, after: time.Minute,
			data: Data{Bounds: []float64{250, 750, 1000}, Windows: same(0, 2, Pair{}, pair(900, 1000, 900, 1000), pair(500, 1000, 5, 1000), pair(0, 1000, 0, 1000))},
			want: "Failed: 500 of 1000 requests took longer than 750 ms (50 %), stable 5 of 1000 (0.5 %) until 12:00:30; objective 99 %; dispersion 2 assumed, wrong in less than 1 of 1000000 such releases",
		},
		{
			name: "latency above all boundaries", check: latency, after: time.Minute, data: Data{Bounds: []float64{100, 250}},
			want: "Inconclusive: cannot run: the histogram has no boundary at or above 500 ms",
		},
		{
			name: "a boundary of zero", check: latency, after: time.Minute, data: Data{Bounds: []float64{0, 250, 500}},
			want: "Inconclusive: cannot run: a boundary of the histogram is no time",
		},
		{
			name: "a negative boundary", check: latency, after: time.Minute, data: Data{Bounds: []float64{-1, 250, 500}},
			want: "Inconclusive: cannot run: a boundary of the histogram is no time",
		},
		{
			name: "an infinite boundary", check: latency, after: time.Minute, data: Data{Bounds: []float64{250, 500, math.Inf(1)}},
			want: "Inconclusive: cannot run: a boundary of the histogram is no time",
		},
		{
			name: "a boundary that is no number", check: latency, after: time.Minute, data: Data{Bounds: []float64{250, 500, nan}},
			want: "Inconclusive: cannot run: a boundary of the histogram is no time",
		},
		{
			name: "latency without a histogram is not judged by errors", check: latency, after: time.Minute,
			data: Data{Windows: same(0, 2, pair(150, 150, 0, 1000))},
			want: "Running: no requests to the new version yet", wake: every,
		},
		{
			name: "more boundaries than can be compared", check: asGood, after: time.Minute, data: Data{Bounds: append([]float64{1, 2, 3}, slowBounds...)},
			want: "Inconclusive: cannot run: the histogram has 17 boundaries, at most 16 can be compared",
		},
		{
			name: "as good as stable, but for one boundary", check: asGood, after: 5 * time.Minute,
			data: Data{Bounds: []float64{250, 500}, Windows: same(0, 10, pair(1, 1000, 9, 9000), pair(250, 1000, 900, 9000), pair(10, 1000, 90, 9000))},
			want: "Failed: 1000 of 4000 requests took longer than 250 ms (25 %), stable 3600 of 36000 (10 %) until 12:02:00; dispersion 2 assumed, wrong in less than 1 of 19000 such releases",
		},
		{
			name: "as good as stable", check: asGood, after: 5 * time.Minute,
			data: Data{Bounds: []float64{250, 500}, Windows: same(0, 10, pair(1, 1000, 9, 9000), pair(100, 1000, 900, 9000), pair(10, 1000, 90, 9000))},
			want: "Passed: 100 of 10000 requests took longer than 500 ms (1 %), stable 900 of 90000 (1 %); a version a point worse is ruled out", wake: every,
		},
		{
			name: "a number above its limit, in a row", check: number, after: 2 * time.Minute, data: Data{Samples: numbers(6e8, 6e8, 5.3e8)},
			want: "Failed: 5.3e+08 is above 5e+08, 3 of 3 in a row",
		},
		{
			name: "not in a row", check: number, after: 150 * time.Second, data: Data{Samples: numbers(6e8, 6e8, 4e8, 6e8, 6e8)},
			want: "Running: 6e+08 is above 5e+08, 2 of 3 in a row", wake: every,
		},
		{
			name: "NaN ends no row and is in none", check: number, after: 150 * time.Second, data: Data{Samples: numbers(6e8, nan, 6e8, math.Inf(1), 6e8)},
			want: "Failed: 6e+08 is above 5e+08, 3 of 3 in a row",
		},
		{
			name: "NaN alone", check: number, after: 150 * time.Second, data: Data{Samples: numbers(nan, nan, nan, nan)},
			want: "Running: nothing was measured yet", wake: every,
		},
		{
			name: "a query without a number", check: number, after: 150 * time.Second, data: Data{Nothing: "the query returns no series"},
			want: "Running: the query returns no series", wake: every,
		},
		{
			name: "a query without a number any more", check: number, after: 150 * time.Second, data: Data{Samples: numbers(6e8), Nothing: "the query returns NaN"},
			want: "Running: 6e+08 is above 5e+08, 1 of 3 in a row; now the query returns NaN", wake: every,
		},
		{
			name: "latency without a histogram", check: latency, after: time.Minute,
			data: Data{Windows: same(0, 2, Pair{}), Nothing: "no histogram: nothing matches m_bucket"},
			want: "Running: no histogram: nothing matches m_bucket", wake: every,
		},
		{
			name: "good numbers pass", check: number, after: 90 * time.Second, data: Data{Samples: numbers(6e8, 4e8, 4e8, 4e8)},
			want: "Running: 4e+08 is within its limits, 2 of 3 in a row", wake: every,
		},
		{
			name: "as many as fail", check: number, after: 2 * time.Minute, data: Data{Samples: numbers(6e8, 4e8, 4e8, 4e8)},
			want: "Passed: 4e+08 is within its limits, 3 of 3 in a row", wake: every,
		},
		{
			name: "but not before the least time", check: with(number, func(c *Check) { c.FailAfter = 1 }), after: 40 * time.Second, data: Data{Samples: numbers(4e8)},
			want: "Running: 4e+08 is within its limits, 1 of 1 in a row", wake: 20 * time.Second,
		},
		{
			name: "good numbers of an earlier step pass nothing", check: number, since: 75 * time.Second, after: 150 * time.Second,
			data: Data{Samples: numbers(4e8, 4e8, 4e8, 4e8)},
			want: "Running: 4e+08 is within its limits, 2 of 3 in a row", wake: every,
		},
		{
			name: "bad numbers of an earlier step count", check: number, since: 75 * time.Second, after: 150 * time.Second,
			data: Data{Samples: numbers(6e8, 6e8, 6e8)},
			want: "Failed: 6e+08 is above 5e+08, 3 of 3 in a row",
		},
		{
			name: "a job waits for its end", check: job, after: 10 * time.Second,
			want: "Running: nothing was measured yet", wake: 20 * time.Second,
		},
		{
			name: "a job passes at once", check: job, after: 30 * time.Second, data: Data{Samples: numbers(1)},
			want: "Passed: 1 is within its limits, 1 of 1 in a row", wake: every,
		},
		{
			name: "a job fails at once", check: job, after: 30 * time.Second, data: Data{Samples: numbers(0)},
			want: "Failed: 0 is below 1, 1 of 1 in a row",
		},
		{
			name: "a check without a meaning", check: with(rate, func(c *Check) { c.Alpha = 0 }), after: time.Minute,
			want: "Inconclusive: cannot run: its rule, or one of its numbers, has no meaning",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			v := Judge(row.check, row.data, start.Add(row.since), start.Add(row.after))
			if got := fmt.Sprintf("%s: %s", v.Is, v.Why); got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
			if v.Wake != row.wake {
				t.Errorf("wakes after %s, want %s", v.Wake, row.wake)
			}
		})
	}
}

// TestFailureOutlivesItsStep checks that a failure is stored: later steps and later windows do not
// undo it.
func TestFailureOutlivesItsStep(t *testing.T) {
	t.Parallel()
	c := sampleCheck(SuccessRate)
	failed := Fold(c, Data{Windows: same(0, 2, pair(150, 150, 0, 1000))}, start, window(2))
	d := Data{Carry: failed, Windows: same(2, 40, pair(0, 1000, 500, 1000))}
	for _, since := range []time.Time{start, window(2), window(20)} {
		if v := Judge(c, d, since, window(42)); v.Is != Failed || v.Evidence.New != (Count{150, 150}) {
			t.Errorf("in the step from %s: %+v", since, v)
		}
	}
}

// TestStepsPassForThemselves checks that a pass of a step is stored, and does not count for another
// step.
func TestStepsPassForThemselves(t *testing.T) {
	t.Parallel()
	c := sampleCheck(SuccessRate)
	passed := Fold(c, Data{Windows: same(0, 4, pair(1, 1000, 9, 9000))}, start, window(4))
	d := Data{Carry: passed, Windows: same(4, 4, pair(0, 50, 0, 450))}
	if v := Judge(c, d, start, window(8)); v.Is != Passed || v.Evidence.New.Total != 4200 {
		t.Errorf("in the same step: %+v", v)
	}
	if v := Judge(c, d, window(4), window(8)); v.Is != Running || v.Evidence.New.Total != 200 || v.Evidence.Safe > 20 {
		t.Errorf("in the next step: %+v", v)
	}
}

func TestClip(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"short":                  "short",
		strings.Repeat("x", 256): strings.Repeat("x", 256),
		strings.Repeat("x", 257): strings.Repeat("x", 253) + "…",
		strings.Repeat("ö", 200): strings.Repeat("ö", 126) + "…",
		"bad \xff byte":          "bad ? byte",
	} {
		if got := truncateMessage(text); got != want || len(got) > maxMessage {
			t.Errorf("clip(%q) = %q, %d bytes", text, got, len(got))
		}
	}
}

func TestDispersion(t *testing.T) {
	t.Parallel()
	half := append(make([]float64, 59), 200) // one episode, in a row
	often := make([]float64, 120)
	slow := make([]float64, 120)
	for k := range often {
		if k%12 == 0 {
			often[k] = 200
		}
		if k/10%4 == 0 {
			slow[k] = 20
		}
	}
	past := func(bad ...float64) []Window {
		var of []Window
		for _, b := range bad {
			of = append(of, Window{Known: true, Counts: []Pair{pair(0, 0, b, 1000)}})
		}
		return of
	}
	for _, row := range []struct {
		name string
		past []Window
		want float64
	}{
		{"an outage, or one burst", past(half...), 20},
		{"bursts that come again", past(often...), 185.8585858585},
		{"failures that stay for minutes", past(slow...), 120.8218238},
		{"nothing was measured", nil, 2},
		{"fewer than 20 bad requests", past(0, 19, 0), 2},
		{"one window", past(30), 2},
		{"evenly", past(10, 10, 10), 1},
		{"in clumps", past(0, 20, 0, 20), 400.0 / 3 / 10},
		{"in one clump", past(0, 0, 0, 1000), 20},
		{"NaN is no window", append(past(10, 10, 10), past(math.NaN())...), 1},
		{"nor is one without requests, as before the first version", append(same(0, 700, pair(0, 0, 0, 0)), past(10, 10, 10)...), 1},
		{"nor is one that was not answered", append(past(10, 10, 10), Window{Counts: []Pair{pair(0, 0, 500, 1000)}}), 1},
	} {
		if got, _ := dispersion(row.past, 0, nil); math.Abs(got-row.want) > 1e-9 && math.Abs(got-row.want) > row.want/1000 {
			t.Errorf("%s: %g, want %g", row.name, got, row.want)
		}
	}
}

// TestDispersionOfPods checks that failures of single pods change the dispersion between pods, and
// that an outage of all pods does not.
func TestDispersionOfPods(t *testing.T) {
	t.Parallel()
	calm := same(0, 120, pair(0, 0, 1, 1000))
	outage := append(same(0, 118, pair(0, 0, 1, 1000)), same(118, 2, pair(0, 0, 1000, 1000))...)
	pods := func(bad ...float64) []Count {
		var of []Count
		for _, b := range bad {
			of = append(of, Count{10000, b})
		}
		return of
	}
	for _, row := range []struct {
		name    string
		past    []Window
		pods    []Count
		want    float64
		assumed bool
	}{
		{"alike", calm, pods(30, 30, 30, 30), 1, false},
		{"one bad pod", calm, pods(0, 0, 0, 120), 120 / (1 + math.Sqrt(2.0/3)), false},
		{"one pod", calm, pods(120), 1, false},
		{"too few", calm, pods(0, 0, 0, 19), 1, false},
		{"an outage of all pods", outage, pods(530, 530, 530, 528), 20, false},
		{"no numbers", calm, []Count{{1000, math.NaN()}, {1000, 60}}, 1, false},
		{"nothing in windows", nil, pods(0, 0, 0, 120), 120 / (1 + math.Sqrt(2.0/3)), true},
	} {
		got, assumed := dispersion(row.past, 0, row.pods)
		if math.Abs(got-row.want) > 1e-9 || assumed != row.assumed {
			t.Errorf("%s: %g, assumed %t; want %g", row.name, got, assumed, row.want)
		}
	}
	d := Data{Past: calm, Pods: pods(0, 0, 0, 120), Windows: same(0, 4, pair(50, 1210, 11, 10871)), Bounds: []float64{500}}
	if v := Judge(sampleCheck(Counts), d, start, window(4)); v.Evidence.Dispersion < 60 {
		t.Errorf("pods do not count: %+v", v)
	}
}
