// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"testing"
	"time"
)

// tally counts how many releases some rules abort, and how many Weir passes.
type tally struct{ of, failed, passed, before, naive, objective int }

func (c *cluster) tally(check Check, n int) tally {
	t := tally{of: n}
	for range n {
		d := c.measured()
		switch Judge(check, d, start, start.Add(24*time.Hour)).Is {
		case Failed:
			t.failed++
		case Passed:
			t.passed++
		}
		if unaligned(check, d) {
			t.before++
		}
		if thriceWorse(d) {
			t.naive++
		}
		if thriceAbove(d) {
			t.objective++
		}
	}
	return t
}

func (t tally) String() string {
	return fmt.Sprintf("%6d of %d failed, %6d passed; if the windows were aligned %6d; 3 in a row: above 1 %% %6d, and twice stable %6d", t.failed, t.of, t.passed, t.before, t.objective, t.naive)
}

// good reports releases that fail more often than promised, unless the docs promise nothing.
func (t tally) good(test *testing.T, alpha float64, promised bool) {
	test.Helper()
	if most := maxWrongVerdicts(t.of, alpha); promised && t.failed > most {
		test.Errorf("%d of %d failed, chance explains at most %d", t.failed, t.of, most)
	}
}

func comparison(every float64) Check {
	return with(sampleCheck(Counts), func(c *Check) {
		c.Every, c.Within = time.Duration(every*float64(time.Second)), 24*time.Hour
	})
}

// TestOutages checks that an outage of both versions fails no release more often than promised,
// whatever the distance between the scrapes of two pods, and whether or not the traffic changes
// during the outage. If the stable pods restart during the outage, their failures may never be
// scraped, so nothing is promised.
func TestOutages(t *testing.T) {
	t.Parallel()
	once := func(seconds, fails float64) func(*cluster) {
		return func(c *cluster) {
			from := c.seconds(60, 1200)
			c.episodes = []episode{{from: from, to: from + seconds, fails: fails, pod: everywhere}}
		}
	}
	ramp := func(c *cluster) {
		once(60, 1)(c)
		at, share := c.episodes[0].from+c.seconds(-30, 90), c.share
		c.changes = []float64{at}
		c.later = func(x float64) float64 {
			if x < at {
				return share
			}
			return 0.7
		}
	}
	flaps := func(c *cluster) {
		for at := c.seconds(60, 600); at < 1200; at += c.seconds(5, 90) {
			to := at + c.seconds(1, 45)
			c.episodes = append(c.episodes, episode{from: at, to: to, fails: c.Float64(), pod: everywhere})
			at = to
		}
	}
	restarts := func(c *cluster) {
		once(60, 1)(c)
		for pod := range c.fresh + c.stable {
			c.restarts = append(c.restarts, restarted{pod, c.episodes[0].from + c.seconds(0, 60)})
		}
	}
	one := func(c *cluster) {
		for range 10 {
			c.restarts = append(c.restarts, restarted{c.IntN(c.fresh + c.stable), c.seconds(0, 1800)})
		}
	}
	for i, row := range []struct {
		name     string
		random   func(*cluster)
		promised bool
	}{
		{"all fail for 10 s", once(10, 1), true},
		{"all fail for 60 s", once(60, 1), true},
		{"30 % fail for 60 s", once(60, 0.3), true},
		{"all fail for 5 min", once(300, 1), true},
		{"30 % fail for 5 min", once(300, 0.3), true},
		{"all fail for 60 s, share changes", ramp, true},
		{"on and off for minutes", flaps, true},
		{"pods restart, no outage", one, true},
		{"all fail for 60 s, and restart", restarts, false},
	} {
		for j, pods := range [][2]int{{1, 1}, {1, 9}, {10, 40}} {
			for k, scrape := range []float64{1, 5, 15, 20, 30, 45, 60} {
				for l, perSecond := range []float64{50, 500} {
					if (l > 0) != (j == 0) {
						continue
					}
					name := fmt.Sprintf("%s; %d+%d pods, %g/s, scrape %gs", row.name, pods[0], pods[1], perSecond, scrape)
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						c := newCluster(uint64(10000+1000*i+100*j+10*k+l), scrape, perSecond, pods[0], pods[1], 0.001)
						c.random = row.random
						found := c.tally(comparison(30), releases(5, 20))
						t.Logf("%-62s %s", name, found)
						found.good(t, 0.001, row.promised)
					})
				}
			}
		}
	}
}

// TestOutagesPassNothing checks that a version that is a point worse than tolerated does not pass,
// even while stable fails a third of its requests and stable's requests are counted earlier than
// those of the new version.
func TestOutagesPassNothing(t *testing.T) {
	t.Parallel()
	for i, scrape := range []float64{1, 15, 30, 60} {
		name := fmt.Sprintf("stable 1 %% and new 2.6 %%, then 30 %% and 47 %% for 60 s; scrape %gs", scrape)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(uint64(300+i), scrape, 50, 1, 9, 0.01)
			c.newFails, c.length = 0.026, 600
			c.random = func(c *cluster) {
				from := c.seconds(60, 400)
				c.episodes = []episode{
					{from: from, to: from + 60, fails: 0.3, pod: everywhere},
					{from: from, to: from + 60, fails: 0.47, pod: freshPods},
				}
			}
			n, passed := max(*attempts/4, 100), 0
			for range n {
				d := c.measured()
				d.Past, d.Pods = single(), nil
				if passes(comparison(30), d) {
					passed++
				}
			}
			t.Logf("%-70s %d of %d passed", name, passed, n)
			if most := maxWrongVerdicts(n, 0.05); passed > most {
				t.Errorf("%d of %d passed, chance explains at most %d", passed, n, most)
			}
		})
	}
}

func passes(c Check, d Data) bool {
	for k := range d.Windows {
		if Judge(c, d, start, window(k+1)).Is == Passed {
			return true
		}
	}
	return false
}
