// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"sort"
	"strings"
	"testing"
	"time"
)

// TestColdStart has new pods with cold caches, which fail three times as much as stable for some
// minutes. This aborts good releases unless the check leaves out the warm-up.
func TestColdStart(t *testing.T) {
	t.Parallel()
	for i, row := range []struct {
		perSecond, fails, scrape, lasts float64
		after                           time.Duration
		promised                        bool
	}{
		{50, 0.005, 15, 60, 0, false},
		{500, 0.005, 15, 60, 0, false},
		{500, 0.02, 15, 60, 0, false},
		{500, 0.05, 15, 60, 0, false},
		{500, 0.02, 15, 180, 0, false},
		{50, 0.005, 15, 60, time.Minute, true},
		{500, 0.005, 15, 60, time.Minute, true},
		{500, 0.02, 1, 60, time.Minute, true},
		{500, 0.02, 15, 60, time.Minute, true},
		{500, 0.02, 30, 60, time.Minute, true},
		{500, 0.02, 60, 60, time.Minute, true},
		{500, 0.05, 15, 60, time.Minute, true},
		{500, 0.02, 15, 180, 3 * time.Minute, true},
	} {
		name := fmt.Sprintf("3 times %g %% for %g s; %g/s, scrape %gs, afterSeconds %g", 100*row.fails, row.lasts, row.perSecond, row.scrape, row.after.Seconds())
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(uint64(30000+i), row.scrape, row.perSecond, 1, 9, row.fails)
			c.random = func(c *cluster) {
				c.episodes = []episode{{from: 0, to: row.lasts, fails: 3 * row.fails, pod: freshPods}}
			}
			found := c.tally(with(comparison(30), func(c *Check) { c.After = row.after }), releases(1, 10))
			t.Logf("%-62s %s", name, found)
			found.good(t, 0.001, row.promised)
			if row.lasts == 180 && !row.promised && found.failed == 0 {
				t.Error("none failed: the row shows nothing")
			}
		})
	}
}

// TestTimesByScrape measures how the time until a bad version fails depends on the scrape interval
// and the window length. The new version gets 5 % of 200 requests a second.
func TestTimesByScrape(t *testing.T) {
	t.Parallel()
	seconds := func(s ...float64) (all []time.Duration) {
		for _, s := range s {
			all = append(all, time.Duration(s*float64(time.Second)))
		}
		return all
	}
	for i, row := range []struct {
		every, scrape float64
		after         time.Duration
		most          []time.Duration // medians if it fails 100, 20, 5 and 2 %
	}{
		{2, 1, 0, seconds(6, 10, 60, 300)},
		{5, 1, 0, seconds(10, 15, 60, 300)},
		{15, 1, 0, seconds(30, 30, 75, 300)},
		{15, 15, 0, seconds(30, 45, 90, 300)},
		{30, 1, 0, seconds(60, 60, 90, 360)},
		{30, 15, 0, seconds(60, 60, 90, 360)},
		{30, 30, 0, seconds(60, 90, 120, 360)},
		{30, 60, 0, seconds(120, 120, 180, 480)},
		{5, 1, time.Minute, seconds(75, 85, 125, 400)},
		{30, 15, time.Minute, seconds(150, 150, 180, 480)},
	} {
		name := fmt.Sprintf("everySeconds %g, scrape %gs, afterSeconds %g", row.every, row.scrape, row.after.Seconds())
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var line strings.Builder
			for j, fails := range []float64{1, 0.2, 0.05, 0.02} {
				c := newCluster(uint64(40000+10*i+j), row.scrape, 200, 1, 19, 0.001)
				c.every, c.newFails, c.length = row.every, fails, 900
				check := sampleCheck(SuccessRate)
				check.Every, check.After, check.AtLeast = comparison(row.every).Every, row.after, 0
				var times []time.Duration
				for range max(*attempts/50, 25) {
					times = append(times, failsAt(check, c.measured()))
				}
				took := median(times)
				fmt.Fprintf(&line, "  %g %%: %s (9 of 10: %s)", 100*fails, took, times[len(times)*9/10])
				if took > row.most[j] {
					t.Errorf("%g %% take %s, more than %s", 100*fails, took, row.most[j])
				}
			}
			t.Logf("%-45s %s", name, line.String())
		})
	}
}

// failsAt is when a check fails, or an hour.
func failsAt(c Check, d Data) time.Duration {
	// A failure is final, so the looks before the first one are those that find none.
	k := sort.Search(len(d.Windows), func(k int) bool {
		return Judge(c, d, start, d.Windows[k].Start.Add(c.Every)).Is == Failed
	})
	if k == len(d.Windows) {
		return time.Hour
	}
	return d.Windows[k].Start.Add(c.Every).Sub(start)
}

// TestNumbersInWarmUp checks that numbers of windows that begin in the warm-up do not count for or
// against the new version.
func TestNumbersInWarmUp(t *testing.T) {
	t.Parallel()
	c := sampleCheck(Number)
	c.Every, c.AtLeast, c.After, c.FailAfter, c.Max = 30*time.Second, 0, time.Minute, 2, new(1.0)
	const warm = "numbers until 12:01:30 are not judged: the new pods warm up"
	for _, test := range []struct {
		name   string
		values []float64 // at 12:00:00, 12:00:30, and so on
		want   State
		why    string
	}{
		{"bad while the pods warm up", []float64{0, 9, 9}, Running, warm},
		{"good while they do", []float64{0, 0, 0}, Running, warm},
		{"bad, then good", []float64{0, 9, 9, 0, 0}, Passed, "0 is within its limits, 2 of 2 in a row"},
		{"bad afterwards", []float64{0, 0, 0, 9, 9}, Failed, "9 is above 1, 2 of 2 in a row"},
		{"the last one before counts", []float64{9, 0, 0, 9}, Failed, "9 is above 1, 2 of 2 in a row"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var d Data
			for i, value := range test.values {
				d.Samples = append(d.Samples, Sample{At: start.Add(time.Duration(i) * c.Every), Value: value})
			}
			now := start.Add(time.Duration(len(test.values)) * c.Every)
			v := Judge(c, d, start, now)
			if v.Is != test.want || v.Why != test.why {
				t.Errorf("%s: %s, want %s: %s", v.Is, v.Why, test.want, test.why)
			}
			for _, until := range d.Samples {
				folded := d
				folded.Carry = ParseCarry(Fold(c, d, start, until.At).String())
				if again := Judge(c, folded, start, now); again != v {
					t.Errorf("folded until %s: %+v, want %+v", timeText(until.At), again, v)
				}
			}
		})
	}
}
