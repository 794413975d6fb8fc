// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"math"
	"slices"
)

// test compares the rates at which requests are bad: q of the new version, and p of
// stable, which is unknown and may change with each window.
//
// The null of harm is q ≤ ratio·p + margin, that of safety q ≥ ratio·p + margin. A window
// in which x of n requests to the new version are bad, and y of m to stable, multiplies
// the evidence against it by
//
//	E = u^x · v^y · exp(−n·margin·(u−1)),  u = η/d,  v = 1/d,  d = (m + ratio·n·η)/(m + ratio·n)
//
// with η above 1 for harm and below for safety. As 1+z ≤ exp(z), the mean of u^x is at most
// exp(n·q·(u−1)), and that of v^y exp(m·p·(v−1)); d makes ratio·n·(u−1) = m·(1−v). So the
// mean of E is at most 1 whatever p is. Products of E, and means of these over η, are
// nonnegative supermartingales: they ever reach 1/α with probability α at most (Ville).
// By Jensen that is so of E^(1/φ), too.
type test struct {
	class   int     // index of trial.classes
	phi     float64 // dispersion
	ratio   float64 // 0 tests against an objective
	margins [2]float64
}

const harm, safe = 0, 1

var etas = [2][]float64{harm: {1.2, 1.5, 2, 3, 5, 10, 30, 100}, safe: {0, 0.1, 0.3, 0.6}}

const (
	safeAlpha = 0.05  // chance to pass a version that is a point worse
	lowest    = -1e15 // stands for the logarithm of 0, which cannot be stored
	least     = 1e-6  // so much of a request is none: rates of a query are seldom whole
)

// add multiplies the evidence for each η by that of a window. Logs are natural.
func (t test) add(logs []float64, side int, p Pair) {
	x, n, y, m := p.New.Bad, p.New.Total, p.Old.Bad, p.Old.Total
	if t.ratio == 0 {
		y, m = 0, 1
	}
	if m < least {
		return // p can be anything
	}
	for j, eta := range etas[side] {
		low := m + t.ratio*n*eta
		e := -n*t.margins[side]*(eta-1)*m/low - (x+y)*math.Log(low/(m+t.ratio*n))
		if x > 0 {
			e += x * math.Log(eta)
		}
		logs[j] = max(logs[j]+e/t.phi, lowest)
	}
}

// restart adds 1/(k(k+1)) to the evidence before window k: so much of it begins only
// there, and owes nothing to good requests before. All of these sum up to 1, as much as
// there was at first, so what is proven is half of the evidence.
func restart(logs []float64, k int) {
	later := -math.Log(float64(k)) - math.Log1p(float64(k))
	for j, l := range logs {
		logs[j] = max(l, later) + math.Log1p(math.Exp(-math.Abs(l-later)))
	}
}

// logMean is the logarithm of the mean of exp(logs).
func logMean(logs []float64) float64 {
	highest, sum := slices.Max(logs), 0.0
	for _, l := range logs {
		sum += math.Exp(l - highest)
	}
	return highest + math.Log(sum/float64(len(logs)))
}

// means are the log evidence of each test.
func means(l Ledger, side int) []float64 {
	var of []float64
	for logs := range slices.Chunk(l.Logs, len(etas[side])) {
		of = append(of, logMean(logs))
	}
	return of
}

func part(l Ledger, side, i int) []float64 {
	return l.Logs[i*len(etas[side]) : (i+1)*len(etas[side])]
}

// harmOf is the log evidence of harm. With an objective both tests have to prove it, so
// the smaller one counts. Otherwise errors count half, and all boundaries the other half.
func (t *trial) harmOf(s *Carry) float64 {
	of := means(s.Harm, harm)
	switch {
	case t.objective:
		return slices.Min(of) - math.Ln2
	case len(of) == 1:
		return of[0] - math.Ln2
	}
	return logMean([]float64{of[0], logMean(of[1:])}) - math.Ln2
}

// safeOf is the log evidence that no test finds the new version a point worse.
func safeOf(s *Carry) float64 { return slices.Min(means(s.Safe, safe)) }

// about estimates how many requests to the new version pass, if they go on as those of
// this step. It returns 0 if no number does.
func (t *trial) about(s *Carry) float64 {
	enough, need := math.Log(float64(len(etas[safe]))/safeAlpha), 0.0
	for i, test := range t.tests {
		best, n := slices.Max(part(s.Safe, safe, i)), s.Safe.Counts[test.class].New.Total
		switch {
		case n == 0:
			need = max(need, enough*test.phi/test.margins[safe])
		case best <= 0:
			return 0
		default:
			need = max(need, enough*n/best)
		}
	}
	return math.Ceil(min(need, most))
}

// dispersion is variance over mean of stable's bad requests in a window: they come in
// clumps, and count by so much less. With fewer than 20 it is assumed. Windows without a
// request say nothing of clumps.
func dispersion(past []Window, class int) float64 {
	var k, sum, squares float64
	for _, w := range past {
		if p, ok := w.pair(class); ok && p.Old.Total > 0 {
			k, sum, squares = k+1, sum+p.Old.Bad, squares+p.Old.Bad*p.Old.Bad
		}
	}
	if sum < 20 || k < 2 {
		return 2
	}
	variance := (squares - sum*sum/k) / (k - 1)
	return min(max(variance*k/sum, 1), 20)
}
