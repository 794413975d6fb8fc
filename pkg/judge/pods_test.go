// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// cluster makes up pods that Prometheus scrapes, and answers as the queries of pkg/metric do: a
// window counts what was added to the last scraped counters of each pod. Each pod has its own
// phase of scraping, so equal windows of two pods cover times that differ by up to one scrape
// interval. Times are seconds from the start of the release; the hour before is negative.
type cluster struct {
	*world
	every, scrape float64
	length        float64 // of the release
	fresh, stable int     // pods
	perSecond     float64
	share         float64 // of the new version
	oldFails      float64 // share of bad requests
	newFails      float64
	random        func(*cluster) // adds what is different in each release
	episodes      []episode
	nameless      bool // the metrics do not name pods
	restarts      []restarted
	later         func(at float64) float64 // share of the new version, if it changes at these times
	changes       []float64
}

// episode is a time in which requests fail, or are added and fail: at all pods, or at one.
type episode struct {
	from, to float64
	fails    float64 // share of requests that fail
	extra    float64 // requests a second that fail, in addition
	pod      int     // everywhere, freshPods, or a pod: stable ones first
}

const everywhere, freshPods = -1, -2

// restarted is a pod whose counters begin at zero again.
type restarted struct {
	pod int
	at  float64
}

func (c *cluster) seconds(from, to float64) float64 { return from + (to-from)*c.Float64() }

// measured is the data of one release.
func (c *cluster) measured() Data {
	c.episodes, c.restarts = nil, nil
	if c.random != nil {
		c.random(c)
	}
	past, windows := int(3600/c.every), int(c.length/c.every)
	d := Data{Scrape: time.Duration(c.scrape * float64(time.Second))}
	for k := range windows {
		at := time.Duration(float64(k) * c.every * float64(time.Second))
		d.Windows = append(d.Windows, Window{Start: start.Add(at), Known: true, Counts: make([]Pair, 1)})
	}
	for range past {
		d.Past = append(d.Past, Window{Known: true, Counts: make([]Pair, 1)})
	}
	for pod := range c.stable + c.fresh {
		phase, total := c.Float64()*c.scrape, Count{}
		last := c.lastScrape(phase, -float64(past)*c.every)
		for k := -past; k < windows; k++ {
			next := c.lastScrape(phase, float64(k+1)*c.every)
			count := c.answered(pod, last, next)
			last = next
			switch {
			case k < 0 && pod < c.stable:
				d.Past[k+past].Counts[0].Old = sumCount(d.Past[k+past].Counts[0].Old, count)
				total = sumCount(total, count)
			case k >= 0 && pod < c.stable:
				d.Windows[k].Counts[0].Old = sumCount(d.Windows[k].Counts[0].Old, count)
			case k >= 0:
				d.Windows[k].Counts[0].New = sumCount(d.Windows[k].Counts[0].New, count)
			}
		}
		if pod < c.stable && !c.nameless {
			d.Pods = append(d.Pods, total)
		}
	}
	return d
}

func sumCount(a, b Count) Count { return Count{a.Total + b.Total, a.Bad + b.Bad} }

// lastScrape is the time of the last scrape at or before a time.
func (c *cluster) lastScrape(phase, at float64) float64 {
	return phase + math.Floor((at-phase)/c.scrape)*c.scrape
}

// answered is what a counter of a pod was increased by between two scrapes. If the pod restarts
// between them, the query leaves the pod out.
func (c *cluster) answered(pod int, from, to float64) Count {
	for _, r := range c.restarts {
		if r.pod == pod && r.at > from && r.at <= to {
			return Count{}
		}
	}
	if pod >= c.stable {
		from = max(from, 0) // there was no new version before
	}
	cuts := []float64{from, to}
	for _, at := range append([]float64{0}, c.changes...) {
		if at > from && at < to {
			cuts = append(cuts, at)
		}
	}
	var now []episode
	for _, e := range c.episodes {
		here := e.pod == everywhere || e.pod == freshPods && pod >= c.stable || e.pod == pod
		if here && e.from < to && e.to > from {
			now, cuts = append(now, e), append(cuts, e.from, e.to)
		}
	}
	slices.Sort(cuts)
	var sum Count
	for i := range cuts[1:] {
		a, b := max(cuts[i], from), min(cuts[i+1], to)
		if a >= b {
			continue
		}
		fails, extra := c.failing(pod, a, now)
		requests := c.rate(pod, a) * (b - a)
		bad := c.bad(requests*fails) + c.poisson(extra*(b-a))
		sum = sumCount(sum, Count{Total: bad + c.poisson(requests*(1-fails)), Bad: bad})
	}
	return sum
}

// failing is the share of requests to a pod that fail, and failed requests in addition.
func (c *cluster) failing(pod int, at float64, now []episode) (fails, extra float64) {
	fails = c.oldFails
	if pod >= c.stable {
		fails = c.newFails
	}
	for _, e := range now {
		if at >= e.from && at < e.to {
			fails, extra = max(fails, e.fails), extra+e.extra
		}
	}
	return fails, extra
}

// releases is how many releases a row has: a share of -attempts. `make judge` has 10,000 attempts,
// and a larger share.
func releases(full, share int) int {
	if *attempts >= 5000 {
		return *attempts / full
	}
	return max(*attempts/share, 20)
}

// rate is the requests a second of a pod.
func (c *cluster) rate(pod int, at float64) float64 {
	share := c.share
	if c.later != nil {
		share = c.later(at)
	}
	switch {
	case at < 0 && pod < c.stable:
		return c.perSecond / float64(c.stable)
	case pod < c.stable:
		return c.perSecond * (1 - share) / float64(c.stable)
	}
	return c.perSecond * share / float64(c.fresh)
}

func newCluster(seed uint64, scrape, perSecond float64, fresh, stable int, fails float64) *cluster {
	c := &cluster{
		world: &world{Rand: rand.New(rand.NewPCG(seed, 7))}, every: 30, scrape: scrape, length: 1800, fresh: fresh, stable: stable,
		perSecond: perSecond, oldFails: fails, newFails: fails,
	}
	c.share = float64(fresh) / float64(fresh+stable)
	return c
}

// unaligned judges by the same evidence as if the windows of both versions covered the same
// seconds, with a dispersion of 20 at most. Weir did so before it knew of scrape intervals.
func unaligned(c Check, d Data) bool {
	t, _ := newTrial(c, d)
	l := t.fitLedger(Ledger{}, harm)
	var bad []float64
	for _, w := range d.Past {
		bad = append(bad, w.Counts[0].Old.Bad)
	}
	phi := assumed
	if sumOf(bad) >= fewest {
		phi = min(max(varianceToMean(bad), 1), 20)
	}
	for k, w := range d.Windows {
		for i, test := range t.tests {
			test.phi = phi
			logs := testLogs(l, harm, i)
			restart(logs, k+1, make([]float64, len(logs)))
			test.add(logs, harm, w.Counts[0], w.Counts[0].New.Total/max(w.Counts[0].Old.Total, least))
		}
		if t.harmOf(l) >= -math.Log(c.Alpha) {
			return true
		}
	}
	return false
}

// thriceWorse is a threshold as people write it: 3 windows in a row in which the new version
// fails more than twice as many of its requests as stable, and more than 1 %.
func thriceWorse(d Data) bool {
	row := 0
	for _, w := range d.Windows {
		p := w.Counts[0]
		row++
		if share := p.New.Bad / max(p.New.Total, 1); share <= 0.01 || share <= 2*p.Old.Bad/max(p.Old.Total, 1) {
			row = 0
		}
		if row == 3 {
			return true
		}
	}
	return false
}

// thriceAbove is the threshold of an objective: 3 windows in a row in which the new version fails
// more than 1 % of its requests.
func thriceAbove(d Data) bool {
	row := 0
	for _, w := range d.Windows {
		row++
		if p := w.Counts[0]; p.New.Bad <= 0.01*p.New.Total {
			row = 0
		}
		if row == 3 {
			return true
		}
	}
	return false
}
