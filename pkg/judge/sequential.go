// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"math"
	"slices"
)

// test compares the rates at which a class of requests is bad: q of the new version, and
// p of stable, which is unknown and may change with each window.
//
// For harm the null is q ≤ ratio·p + margin, for safety it is q ≥ ratio·p + margin. A
// window in which x of n requests to the new version are bad, and y of m to stable,
// multiplies the evidence against the null by
//
//	E = u^x · v^y · exp(−n·margin·(u−1)),  u = η/d,  v = 1/d,  d = (m + ratio·n·η)/(m + ratio·n)
//
// with η above 1 for harm and below for safety. As 1+z ≤ exp(z), the mean of u^x is at most
// exp(n·q·(u−1)), and that of v^y exp(m·p·(v−1)); d makes ratio·n·(u−1) = m·(1−v). So the
// mean of E is at most 1 whatever p is. Products of E, and means of these over η, are
// nonnegative supermartingales: they ever reach 1/α with probability α at most (Ville).
// By Jensen that is so of E^(1/φ), too.
type test struct {
	class       int // index of trial.classes
	phi         float64
	ratio       float64 // 0 tests against an objective
	harm, safer float64 // margins
}

var (
	harmful  = []float64{1.2, 1.5, 2, 3, 5, 10, 30, 100}
	harmless = []float64{0, 0.1, 0.3, 0.6}
)

// safeAlpha is the chance to pass a version that is a point worse.
const safeAlpha = 0.05

// lowest stands for the logarithm of 0, which cannot be stored.
const lowest = -1e15

// add multiplies the evidence for each η by that of a window. Logs are natural.
func (t test) add(logs, etas []float64, margin float64, p Pair) {
	x, n, y, m := p.New.Bad, p.New.Total, p.Old.Bad, p.Old.Total
	if t.ratio == 0 {
		y, m = 0, 1
	}
	if m == 0 {
		return // p can be anything
	}
	for j, eta := range etas {
		low := m + t.ratio*n*eta
		e := -n*margin*(eta-1)*m/low - (x+y)*math.Log(low/(m+t.ratio*n))
		if x > 0 {
			e += x * math.Log(eta)
		}
		logs[j] = max(logs[j]+e/t.phi, lowest)
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
func means(logs, etas []float64) []float64 {
	var of []float64
	for part := range slices.Chunk(logs, len(etas)) {
		of = append(of, logMean(part))
	}
	return of
}

// harmOf is the log evidence of harm. With an objective both tests have to prove it, so
// the smaller one counts. Otherwise errors count half, and all boundaries the other half.
func (t *trial) harmOf(s *Carry) float64 {
	of := means(s.Harm, harmful)
	switch {
	case t.objective:
		return slices.Min(of)
	case len(of) == 1:
		return of[0]
	}
	return logMean([]float64{of[0], logMean(of[1:])})
}

// safeOf is the log evidence that the new version is a point worse in no test.
func safeOf(s *Carry) float64 { return slices.Min(means(s.Safe, harmless)) }

// about estimates how many requests to the new version pass if they go on as the n of
// this step. It returns 0 if no number does.
func (t *trial) about(s *Carry) float64 {
	enough, need := math.Log(float64(len(harmless))/safeAlpha), 0.0
	for i, test := range t.tests {
		best := slices.Max(part(s.Safe, harmless, i))
		n := s.Step[test.class].New.Total
		switch {
		case n == 0:
			need = max(need, enough*test.phi/test.safer)
		case best <= 0:
			return 0
		default:
			need = max(need, enough*n/best)
		}
	}
	return math.Ceil(need)
}

func part(logs, etas []float64, i int) []float64 { return logs[i*len(etas) : (i+1)*len(etas)] }

// Bad requests come in clumps, and count by so much less. Where stable had too few of
// them to tell, something is assumed.
const (
	minDispersion, maxDispersion = 1, 20
	assumedDispersion, fewBad    = 2, 20
)

// dispersion is variance over mean of stable's bad requests in a window.
func dispersion(past []Window, class int) float64 {
	var k, sum, squares float64
	for _, w := range past {
		if p, ok := w.pair(class); ok {
			k, sum, squares = k+1, sum+p.Old.Bad, squares+p.Old.Bad*p.Old.Bad
		}
	}
	if sum < fewBad || k < 2 {
		return assumedDispersion
	}
	variance := (squares - sum*sum/k) / (k - 1)
	return min(max(variance*k/sum, minDispersion), maxDispersion)
}
