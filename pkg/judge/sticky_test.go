// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"testing"
)

// clumps adds failures that stick to one pod: so many an hour, each with so many failed requests
// in so many seconds.
func clumps(anHour, requests, seconds float64) func(*cluster) {
	return func(c *cluster) {
		for range int(c.poisson(anHour * (3600 + c.length) / 3600)) {
			from, pods := c.seconds(-3600, c.length), c.stable+c.fresh
			if from < 0 {
				pods = c.stable
			}
			c.episodes = append(c.episodes, episode{from: from, to: from + seconds, extra: requests / seconds, pod: c.IntN(pods)})
		}
	}
}

// badPod has one pod that fails 1 % of its requests.
func badPod(pod func(*cluster) int) func(*cluster) {
	return func(c *cluster) {
		c.episodes = append(c.episodes, episode{from: -3600, to: c.length, fails: 0.01, pod: pod(c)})
	}
}

// TestSticky checks that failures of one pod, or of the clients of one version, do not fail a good
// version if the hour before the release had such failures, too, and the metrics name pods. Nothing
// is promised if the hour had hardly any such failures.
func TestSticky(t *testing.T) {
	t.Parallel()
	for i, row := range []struct {
		name     string
		random   func(*cluster)
		promised bool
	}{
		{"bursts of 200 in 30 s, 1 an hour", clumps(1, 200, 30), false},
		{"bursts of 200 in 30 s, 6 an hour", clumps(6, 200, 30), false},
		{"bursts of 200 in 30 s, 20 an hour", clumps(20, 200, 30), true},
		{"bursts of 200 in 30 s, 60 an hour", clumps(60, 200, 30), true},
		{"bursts of 20 in 30 s, 6 an hour", clumps(6, 20, 30), false},
		{"bursts of 20 in 30 s, 60 an hour", clumps(60, 20, 30), true},
		{"clients that fail 2/s for 10 min, 2 an hour", clumps(2, 1200, 600), false},
		{"clients that fail 2/s for 10 min, 20 an hour", clumps(20, 1200, 600), true},
		{"one pod of stable fails 1 %", badPod(func(*cluster) int { return 0 }), true},
		{"one pod of the new version fails 1 %", badPod(func(c *cluster) int { return c.stable }), false},
	} {
		for j, pods := range [][2]int{{1, 9}, {10, 40}} {
			for k, named := range []bool{true, false} {
				name := fmt.Sprintf("%s; %d+%d pods", row.name, pods[0], pods[1])
				if !named {
					name += ", metrics of a router"
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					c := newCluster(uint64(20000+100*i+10*j+k), 15, 50, pods[0], pods[1], 0.001)
					c.random, c.length, c.nameless = row.random, 3600, !named
					found := c.tally(comparison(30), releases(10, 20))
					t.Logf("%-75s %s", name, found)
					found.good(t, 0.001, row.promised && named)
				})
			}
		}
	}
}
