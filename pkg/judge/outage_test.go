// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"testing"
	"time"
)

// tally counts how many releases three rules abort.
type tally struct{ of, failed, before, naive int }

func (c *cluster) tally(check Check, n int) tally {
	t := tally{of: n}
	for range n {
		d := c.measured()
		if Judge(check, d, start, start.Add(24*time.Hour)).Is == Failed {
			t.failed++
		}
		if unaligned(check, d) {
			t.before++
		}
		if thriceWorse(d) {
			t.naive++
		}
	}
	return t
}

func (t tally) String() string {
	return fmt.Sprintf("%6d of %d; unaligned %6d; threshold %6d", t.failed, t.of, t.before, t.naive)
}

// An outage of both versions fails no release more often than promised, however far apart the
// scrapes of two pods are.
func TestOutages(t *testing.T) {
	t.Parallel()
	check := with(sampleCheck(Counts), func(c *Check) { c.Within = 24 * time.Hour })
	seed := uint64(1000)
	for _, pods := range [][2]int{{1, 9}, {10, 40}} {
		for _, scrape := range []float64{1, 5, 15, 20, 30, 60} {
			for _, outage := range []struct{ seconds, fails float64 }{{10, 1}, {60, 1}, {60, 0.3}, {300, 1}, {300, 0.3}} {
				seed++
				c := newCluster(seed, scrape, 50, pods[0], pods[1], 0.001)
				name := fmt.Sprintf("%d+%d pods, scrape %gs, %g%% fail for %gs", pods[0], pods[1], scrape, 100*outage.fails, outage.seconds)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					c.random = func(c *cluster) {
						from := c.seconds(60, 1200)
						c.episodes = []episode{{from: from, to: from + outage.seconds, fails: outage.fails, pod: everywhere}}
					}
					found := c.tally(check, max(*attempts/5, 20))
					t.Logf("%-55s %s", name, found)
					if most := mostWrong(found.of, check.Alpha); found.failed > most {
						t.Errorf("%d failed, chance explains at most %d", found.failed, most)
					}
				})
			}
		}
	}
}
