// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"math"
	"slices"
)

// test compares the rates at which requests are bad: q of the new version, and p of
// stable, which is unknown and may change with each block.
//
// The null hypothesis of harm is q ≤ ratio·p + margin, that of safety q ≥ ratio·p + margin. A block
// in which x of n requests to the new version are bad, and y of m to stable, multiplies
// the evidence against it by
//
//	E = u^x · v^y · exp(−n·margin·(u−1)),  u = η/d,  v = 1/d,  d = (m + ratio·n·η)/(m + ratio·n)
//
// with η above 1 for harm and below for safety. As 1+z ≤ exp(z), the mean of u^x is at most
// exp(n·q·(u−1)), and that of v^y at most exp(m·p·(v−1)); d makes ratio·n·(u−1) = m·(1−v). So the
// mean of E is at most 1 whatever p is. Products of E, and means of these products over η, are
// nonnegative supermartingales: the probability that they ever reach 1/α is at most α (Ville's
// inequality). By Jensen's inequality, the same holds for E^(1/φ).
type test struct {
	class   int     // index of trial.classes
	phi     float64 // dispersion
	assumed bool    // phi was not measured
	ratio   float64 // 0 tests against an objective
	margins [2]float64
}

const harm, safe = 0, 1

var etas = [2][]float64{harm: {1.2, 1.5, 2, 3, 5, 10, 30, 100}, safe: {0, 0.1, 0.3, 0.6}}

const (
	safeAlpha = 0.05  // chance to pass a version that is a point worse
	lowest    = -1e15 // stands for the logarithm of 0, which cannot be stored
	least     = 1e-6  // fewer requests count as none: increments of counters are seldom whole numbers
)

// weigh returns what is added to the log evidence for an η: for each bad request of the new
// version, for each of stable, and for each request to the new version. requests is the ratio of
// requests, new to stable. A ratio that is too high for harm, or too low for safety, is valid: it only
// makes the evidence smaller.
func (t test) weigh(side int, eta, requests float64) (bad, stableBad, all float64) {
	low := 1 + t.ratio*requests*eta
	stableBad = -math.Log(low / (1 + t.ratio*requests))
	return math.Log(eta) + stableBad, stableBad, -t.margins[side] * (eta - 1) / low
}

// add multiplies the evidence for each η by that of a block. Logs are natural.
func (t test) add(logs []float64, side int, p Pair, requests float64) {
	for j, eta := range etas[side] {
		bad, stableBad, all := t.weigh(side, eta, requests)
		e := p.Old.Bad*stableBad + p.New.Total*all
		if p.New.Bad > 0 {
			e += p.New.Bad * bad
		}
		logs[j] = max(logs[j]+e/t.phi, lowest)
	}
}

// reweigh corrects the evidence of a block that was added with the ratio of requests from: it becomes
// the evidence with the ratio to.
func (t test) reweigh(logs []float64, side int, p Pair, from, to float64) {
	for j, eta := range etas[side] {
		_, stableBad, all := t.weigh(side, eta, from)
		_, stableBadTo, allTo := t.weigh(side, eta, to) // η itself stays
		logs[j] = max(logs[j]+((p.New.Bad+p.Old.Bad)*(stableBadTo-stableBad)+p.New.Total*(allTo-all))/t.phi, lowest)
	}
}

// shift multiplies the evidence for each η by that of bad requests which are counted in the block
// before or after a run, and may have happened within the run: stable's against harm, the new
// version's against safety.
//
// Theorem: let S be the longest interval between two scrapes of a pod, and a block at least S long.
// A request is counted in the block in which it happened, or in the next one. Let w(t) be the
// ratio of requests that happen at t, and let each block be weighed with a ratio that is at least w
// in its own time and in the block before. Consider the product, over the requests that happen from
// time a to b, of u for each bad one of the new version and v for each of stable, times
// exp(−n·margin·(u−1)), with u and v by w. It is a supermartingale in b, whatever the rates of
// failure do. If pods are scraped at different times, divide stable's requests at random among the
// new pods in proportion to their requests; each new pod and its share have an a and b of their
// own, and the product of all is a supermartingale, too.
//
// Let a run of blocks count the new pods' requests from a to b. Stable's bad requests of that time
// are counted in the run, in the block before it or in the block after it. As v < 1, and as a
// higher ratio makes u and v smaller, the evidence with all bad requests of stable in these blocks
// is not above the supermartingale. The proof for safety is the same with the versions exchanged.
//
// Within a run nothing is lost, as a bad request has nearly the same weight one block later. The
// price is the delay of one block, and the weight of stable's bad requests in two blocks.
func (t test) shift(logs []float64, side int, requests, counted float64) {
	if counted <= 0 {
		return
	}
	for j, eta := range etas[side] {
		bad, stableBad, _ := t.weigh(side, eta, requests)
		if side == harm {
			bad = stableBad
		}
		logs[j] = max(logs[j]+counted*bad/t.phi, lowest)
	}
}

// restart adds 1/(k(k+1)) to the evidence before block k. This part begins with block k, so good
// requests of earlier blocks do not reduce it: a version that turns bad late is found soon. All added
// parts together are 1, as much as the evidence at the beginning. So the sum is divided by 2 before it
// is compared with 1/α (harmOf). before is what shift takes from a run that begins with block k, for
// bad requests of stable in the block before.
func restart(logs []float64, k int, before []float64) {
	for j, l := range logs {
		later := before[j] - math.Log(float64(k)) - math.Log1p(float64(k))
		logs[j] = max(l, later) + math.Log1p(math.Exp(-math.Abs(l-later)))
	}
}

// logMean returns the logarithm of the mean of exp(logs).
func logMean(logs []float64) float64 {
	highest, sum := slices.Max(logs), 0.0
	for _, l := range logs {
		sum += math.Exp(l - highest)
	}
	return highest + math.Log(sum/float64(len(logs)))
}

// testEvidence returns the log evidence of each test.
func testEvidence(l Ledger, side int) []float64 {
	var of []float64
	for logs := range slices.Chunk(l.Logs, len(etas[side])) {
		of = append(of, logMean(logs))
	}
	return of
}

// testLogs returns the log evidence of test i for each η. It shares memory with the ledger.
func testLogs(l Ledger, side, i int) []float64 {
	return l.Logs[i*len(etas[side]) : (i+1)*len(etas[side])]
}

// harmOf returns the log evidence of harm, divided by 2 for restart. With an objective both tests have
// to prove harm, so the smaller evidence counts. Without one, the mean of two counts: of the evidence of
// errors, and of the mean evidence of all latency boundaries.
func (t *trial) harmOf(l Ledger) float64 {
	of := testEvidence(l, harm)
	switch {
	case t.objective:
		return slices.Min(of) - math.Ln2
	case len(of) == 1:
		return of[0] - math.Ln2
	}
	return logMean([]float64{of[0], logMean(of[1:])}) - math.Ln2
}

// safeOf returns the log evidence of safety: that of the test that has the least.
func safeOf(l Ledger) float64 { return slices.Min(testEvidence(l, safe)) }

// requestsToPass estimates how many requests to the new version are needed to pass, if the next ones are
// like those of this step. It returns 0 if no number is enough.
func (t *trial) requestsToPass(s *Carry) float64 {
	enough, need := math.Log(float64(len(etas[safe]))/safeAlpha), 0.0
	for i, test := range t.tests {
		p, first := s.Safe.Counts[test.class], math.Inf(1)
		n := p.New.Total
		if n == 0 {
			need = max(need, enough*test.phi/test.margins[safe])
			continue
		}
		gain := make([]float64, len(etas[safe]))
		test.add(gain, safe, p, n/max(p.Old.Total, 1))
		for j, log := range testLogs(s.Safe, safe, i) {
			if gain[j] > 0 {
				first = min(first, n+max(enough-log, 0)*n/gain[j])
			}
		}
		if math.IsInf(first, 1) {
			return 0
		}
		need = max(need, first)
	}
	return math.Ceil(min(need, maxCount))
}

// A dispersion is measured from at least fewest bad requests, and assumed otherwise. The worst episode is
// the sixth of the past with the most bad requests. It alone raises the dispersion to maxEpisodeDispersion at most.
const fewest, assumed, maxEpisodeDispersion, episodes = 20, 2.0, 20.0, 6

// dispersion returns by how much less bad requests count because they come in clumps: one client
// retries, or one pod is broken. It is the largest of these ratios of variance to mean:
//
//   - of stable's bad requests in windows, and in sums of 2, 4, 10 and 20 windows. An outage of
//     both versions looks the same, and must not hide a bad version for an hour. So the worst
//     episode is left out; with it, the ratio counts up to maxEpisodeDispersion.
//   - of stable's bad requests between pods. An outage of all pods does not change this ratio.
//
// With fewer than 20 bad requests the ratios say nothing, and the dispersion is assumed.
func dispersion(past []Window, class int, pods []Count) (phi float64, isAssumed bool) {
	var bad []float64
	sum := 0.0
	for _, w := range past {
		if p, ok := w.classCounts(class); ok && p.Old.Total > 0 { // without a request there is no clump
			bad, sum = append(bad, p.Old.Bad), sum+p.Old.Bad
		}
	}
	between := betweenPods(pods)
	if sum < fewest || len(bad) < 2 {
		return max(assumed, between), true
	}
	return max(1, between, min(overTime(bad), maxEpisodeDispersion), overTime(withoutWorst(bad))), false
}

// overTime returns the largest ratio of variance to mean of sums of windows. There are few sums of many
// windows, so their variance is a rough estimate: one standard error is taken off.
func overTime(bad []float64) float64 {
	phi := varianceToMean(bad)
	for _, n := range []int{2, 4, 10, 20} {
		var sums []float64
		for i := 0; i+n <= len(bad); i += n {
			sums = append(sums, sumOf(bad[i:i+n]))
		}
		if len(sums) > 2 {
			phi = max(phi, varianceToMean(sums)/(1+standardError(len(sums))))
		}
	}
	return phi
}

// withoutWorst leaves out the worst episode: consecutive windows with the most bad requests.
func withoutWorst(bad []float64) []float64 {
	n, worst, most := len(bad)/episodes, 0, -1.0
	if n == 0 {
		return nil // too few windows for an episode
	}
	for i := 0; i+n <= len(bad); i++ {
		if sum := sumOf(bad[i : i+n]); sum > most {
			worst, most = i, sum
		}
	}
	return slices.Delete(slices.Clone(bad), worst, worst+n)
}

// betweenPods returns the ratio of variance to mean between pods. It compares the bad requests of each pod
// with those that the pod would have if all pods failed the same share of their requests.
func betweenPods(pods []Count) float64 {
	var all Count
	for _, p := range pods {
		if !(p.Total >= 0 && p.Total <= maxCount && p.Bad >= 0 && p.Bad <= p.Total) {
			return 0
		}
		all.Total, all.Bad = all.Total+p.Total, all.Bad+p.Bad
	}
	if len(pods) < 2 || all.Bad < fewest {
		return 0
	}
	ratio := 0.0
	for _, p := range pods {
		if expected := p.Total * all.Bad / all.Total; expected > 0 {
			ratio += (p.Bad - expected) * (p.Bad - expected) / expected
		}
	}
	return ratio / float64(len(pods)-1) / (1 + standardError(len(pods)))
}

func varianceToMean(of []float64) float64 {
	sum, squares := sumOf(of), 0.0
	if len(of) < 2 || sum == 0 {
		return 0
	}
	mean := sum / float64(len(of))
	for _, x := range of {
		squares += (x - mean) * (x - mean)
	}
	return squares / float64(len(of)-1) / mean
}

// standardError returns the standard error of the variance of n numbers, as a share of the variance.
func standardError(n int) float64 { return math.Sqrt(2 / float64(n-1)) }

func sumOf(of []float64) float64 {
	sum := 0.0
	for _, x := range of {
		sum += x
	}
	return sum
}
