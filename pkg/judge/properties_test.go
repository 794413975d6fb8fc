// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// binomial returns the chance of each count of bad requests.
func binomial(n int, p float64) []float64 {
	chances := make([]float64, n+1)
	for k := range chances {
		all, _ := math.Lgamma(float64(n + 1))
		bad, _ := math.Lgamma(float64(k + 1))
		good, _ := math.Lgamma(float64(n - k + 1))
		chances[k] = math.Exp(all-bad-good) * math.Pow(p, float64(k)) * math.Pow(1-p, float64(n-k))
	}
	return chances
}

// meanOf is the exact mean of what a window multiplies the evidence by.
// A block in which only one version has requests is not compared.
func meanOf(t test, side, j int, n, m int, q, p, cautious float64) float64 {
	if t.ratio > 0 && (n == 0 || m == 0) {
		return 1
	}
	requests := cautious * float64(n) / max(float64(m), 1)
	if side == safe {
		requests = float64(n) / max(float64(m), 1) / cautious
	}
	sum, news, olds := 0.0, binomial(n, q), binomial(m, p)
	for x, chanceX := range news {
		for y, chanceY := range olds {
			logs := make([]float64, len(etas[side]))
			t.add(logs, side, Pair{Count{float64(n), float64(x)}, Count{float64(m), float64(y)}}, requests)
			sum += chanceX * chanceY * math.Exp(logs[j])
		}
	}
	return sum
}

// TestMeanOfEvidence checks that the mean of the evidence is at most 1 if the null hypothesis
// holds. The error rate depends on this property alone.
func TestMeanOfEvidence(t *testing.T) {
	t.Parallel()
	near := 0.0
	for _, phi := range []float64{1, 2, 20} {
		for _, sizes := range [][2]int{{0, 0}, {0, 9}, {9, 0}, {1, 1}, {1, 40}, {20, 3}, {20, 20}} {
			for _, p := range []float64{0, 0.001, 0.01, 0.1, 0.5, 1} {
				for _, row := range []test{{phi: phi, ratio: 1.5, margins: [2]float64{0.001, 0.01}}, {phi: phi, margins: [2]float64{0.01, 0.02}}, {phi: phi, ratio: 1, margins: [2]float64{0, 0.01}}} {
					for _, beyond := range []float64{0, 0.05, 0.3} {
						for _, cautious := range []float64{1, 1.7} {
							for j, eta := range etas[harm] {
								q := min(max(row.ratio*p+row.margins[harm]-beyond, 0), 1)
								mean := meanOf(row, harm, j, sizes[0], sizes[1], q, p, cautious)
								near = max(near, mean)
								if mean > 1+1e-9 {
									t.Errorf("harm: mean %g of %+v, η %g, n %v, q %g, p %g", mean, row, eta, sizes, q, p)
								}
							}
							q := row.ratio*p + row.margins[safe] + beyond
							if q > 1 {
								continue // no version is that bad: the null is empty
							}
							for j, eta := range etas[safe] {
								if mean := meanOf(row, safe, j, sizes[0], sizes[1], q, p, cautious); mean > 1+1e-9 {
									t.Errorf("safe: mean %g of %+v, η %g, n %v, q %g, p %g", mean, row, eta, sizes, q, p)
								}
							}
						}
					}
				}
			}
		}
	}
	if near < 0.999 {
		t.Errorf("the mean is %g at the most: the test gives evidence away", near)
	}
}

// TestBigCounts checks that large counts give large but finite numbers.
func TestBigCounts(t *testing.T) {
	t.Parallel()
	for _, rule := range []Rule{SuccessRate, Counts} {
		for _, p := range []Pair{
			pair(0, 1e9, 0, 1e9), pair(1e9, 1e9, 0, 1e9), pair(0, 1e9, 1e9, 1e9), pair(1e9, 1e9, 1e9, 1e9), pair(1e7, 1e9, 1e7, 1e9),
			pair(0, 1e9, 0, 0), pair(0, 0, 1e9, 1e9), pair(1e15, 1e15, 0, 1e15), pair(0, 1e15, 1, 1), pair(1, 1, 0, 1e15),
		} {
			d := Data{Windows: same(0, 100, p)}
			c := with(sampleCheck(rule), func(c *Check) { c.Alpha = 1e-300 })
			v := Judge(c, d, start, window(100))
			if _, err := json.Marshal(v); err != nil {
				t.Errorf("%v: %v", p, err)
			}
			if _, err := json.Marshal(Fold(c, d, start, window(100))); err != nil {
				t.Errorf("%v: %v", p, err)
			}
		}
	}
}

// randomAttempt makes up an attempt: sizes, rates and holes of it vary.
func randomAttempt(r *rand.Rand, rule Rule) (Check, Data) {
	c := sampleCheck(rule)
	c.AtLeast = time.Duration(r.IntN(5)) * every
	c.FailAfter = 1 + r.IntN(4)
	limit := 0.7
	c.Max = &limit
	w := newWorld(r.Uint64(), math.Pow(10, 2*r.Float64()), r.Float64(), 0.03*r.Float64(), 0.05*r.Float64())
	d := latencyData(w, 1+r.IntN(40), 40, 40+15*r.Float64())
	d.Bounds = slowBounds
	d.Scrape = time.Duration(r.IntN(4)) * 20 * time.Second
	c.After = time.Duration(r.IntN(2)*r.IntN(5)) * every
	for k := range d.Windows {
		if r.IntN(8) == 0 {
			d.Windows[k].Counts = nil
		}
		d.Samples = append(d.Samples, Sample{At: window(k + 1), Value: r.Float64()})
	}
	return c, d
}

var rules = []Rule{SuccessRate, Latency, AsGoodAs, Counts, Number}

func forEachRule(t *testing.T, times int, story func(t *testing.T, r *rand.Rand, c Check, d Data)) {
	t.Helper()
	for i, rule := range rules {
		t.Run(string(rule), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(uint64(i), 2))
			for range times {
				c, d := randomAttempt(r, rule)
				story(t, r, c, d)
			}
		})
	}
}

// wantSameVerdict compares verdicts. Evidence may lose a thousandth with each fold.
func wantSameVerdict(t *testing.T, got, want Verdict, folds int) {
	t.Helper()
	lost := math.Exp(-0.001 * float64(folds))
	for _, e := range [][2]float64{{got.Evidence.Harm, want.Evidence.Harm}, {got.Evidence.Safe, want.Evidence.Safe}} {
		if e[0] < e[1]*lost*(1-1e-9) || e[0] > e[1]*(1+1e-9) {
			t.Fatalf("evidence %g, want %g", e[0], e[1])
		}
	}
	got.Evidence.Harm, got.Evidence.Safe = want.Evidence.Harm, want.Evidence.Safe
	if folds > 0 {
		// Of two classes that are as bad, either may be shown.
		got.Why, want.Why = "", ""
		got.Evidence.About, want.Evidence.About = 0, 0
		got.Evidence.Pair, got.Evidence.Bound, got.Evidence.Dispersion = want.Evidence.Pair, want.Evidence.Bound, want.Evidence.Dispersion
	}
	if got != want {
		t.Fatalf("\ngot  %+v\nwant %+v", got, want)
	}
}

// TestFoldedIsWhole checks that a check that is folded after each window, or after some, has the
// same result as the whole data.
func TestFoldedIsWhole(t *testing.T) {
	t.Parallel()
	forEachRule(t, 150, func(t *testing.T, r *rand.Rand, c Check, d Data) {
		rest, folds := d, 0
		for k := range len(d.Windows) + 1 {
			whole := Judge(c, d, start, window(k))
			wantSameVerdict(t, Judge(c, rest, start, window(k)), whole, folds)
			if r.IntN(2) == 0 {
				rest.Carry = Fold(c, rest, start, window(k))
				// The folded ones may still be there, or not.
				if r.IntN(2) == 0 {
					rest.Samples = d.Samples[k:]
					rest.Windows = slices.DeleteFunc(slices.Clone(d.Windows), func(w Window) bool { return w.Start.Before(rest.Carry.Until) })
				}
				folds++
				wantSameVerdict(t, Judge(c, rest, start, window(k)), whole, folds)
			}
		}
	})
}

// TestCutIsUncut checks that later windows do not change an earlier result.
func TestCutIsUncut(t *testing.T) {
	t.Parallel()
	forEachRule(t, 150, func(t *testing.T, r *rand.Rand, c Check, d Data) {
		k := r.IntN(len(d.Windows) + 1)
		cut := d
		cut.Windows, cut.Samples = d.Windows[:k], d.Samples[:k]
		wantSameVerdict(t, Judge(c, cut, start, window(k)), Judge(c, d, start, window(k)), 0)
		later := Judge(c, d, start, window(len(d.Windows)))
		switch found := Judge(c, cut, start, window(k)); {
		case found.Is == Failed && found != later:
			t.Fatalf("a failure was not final: %+v, then %+v", found, later)
		case found.Is == Passed && later.Is != Passed && later.Is != Failed:
			t.Fatalf("a pass was lost: %+v, then %+v", found, later)
		}
	})
}

// TestEmptyWindows checks that a window without data counts as if it were missing if a block is one
// window.
func TestEmptyWindows(t *testing.T) {
	t.Parallel()
	nothing := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 1e16}
	forEachRule(t, 150, func(t *testing.T, r *rand.Rand, c Check, d Data) {
		d.Scrape = 0
		without, with := d, d
		without.Windows, with.Windows = nil, slices.Clone(d.Windows)
		without.Samples, with.Samples = nil, slices.Clone(d.Samples)
		last := len(d.Windows) - 1
		for k := range d.Windows {
			if r.IntN(3) > 0 || k == last {
				without.Windows, without.Samples = append(without.Windows, d.Windows[k]), append(without.Samples, d.Samples[k])
				continue
			}
			counts := make([]Pair, len(d.Windows[k].Counts))
			for i := range counts {
				odd := nothing[r.IntN(len(nothing))]
				counts[i] = [...]Pair{{}, pair(odd, 10, 0, 10), pair(10, odd, 0, 10), pair(10, 10, odd, 10), pair(10, 10, 0, odd)}[r.IntN(5)]
			}
			with.Windows[k].Counts = counts
			with.Samples[k].Value = nothing[r.IntN(3)]
		}
		now := window(last + 1)
		wantSameVerdict(t, Judge(c, with, start, now), Judge(c, without, start, now), 0)
	})
}

func TestNaNDecidesNothing(t *testing.T) {
	t.Parallel()
	forEachRule(t, 20, func(t *testing.T, _ *rand.Rand, c Check, d Data) {
		for k := range d.Windows {
			for i := range d.Windows[k].Counts {
				d.Windows[k].Counts[i].New.Bad = math.NaN()
			}
			d.Samples[k].Value = math.NaN()
		}
		if v := Judge(c, d, start, window(len(d.Windows))); v.Is != Running {
			t.Fatalf("%+v", v)
		}
	})
}

// TestMoreBadRequests checks that more bad requests to the new version never lower the evidence of
// harm, and never raise the evidence of safety. For bad requests to stable the opposite holds.
func TestMoreBadRequests(t *testing.T) {
	t.Parallel()
	forEachRule(t, 150, func(t *testing.T, r *rand.Rand, c Check, d Data) {
		if c.Rule == Number {
			return
		}
		c.Alpha, c.AtLeast = 1e-300, time.Hour
		now := window(len(d.Windows))
		before := Judge(c, d, start, now).Evidence
		k := r.IntN(len(d.Windows))
		worse, eased := slices.Clone(d.Windows), slices.Clone(d.Windows)
		worse[k].Counts, eased[k].Counts = slices.Clone(worse[k].Counts), slices.Clone(eased[k].Counts)
		for i := range worse[k].Counts {
			worse[k].Counts[i].New.Bad += float64(r.IntN(10))
			eased[k].Counts[i].Old.Bad += float64(r.IntN(10))
		}
		d.Windows = worse
		if after := Judge(c, d, start, now).Evidence; after.Harm < before.Harm*(1-1e-9) || after.Safe > before.Safe*(1+1e-9) {
			t.Fatalf("harm %g, then %g; safe %g, then %g", before.Harm, after.Harm, before.Safe, after.Safe)
		}
		d.Windows = eased
		if after := Judge(c, d, start, now).Evidence; after.Harm > before.Harm*(1+1e-9) || after.Safe < before.Safe*(1-1e-9) {
			t.Fatalf("stable is worse: harm %g, then %g; safe %g, then %g", before.Harm, after.Harm, before.Safe, after.Safe)
		}
	})
}

// TestSizeOfCarry checks that the stored data of a check is small, even for the largest check.
func TestSizeOfCarry(t *testing.T) {
	t.Parallel()
	w := newWorld(5, 500, 0.1, 0.01, 0.01)
	d := latencyData(w, hour, 40, 40)
	d.Bounds = append(slices.Clone(slowBounds), 15000, 20000)
	for k := range d.Windows {
		d.Windows[k].Counts = append(d.Windows[k].Counts, d.Windows[k].Counts[13:]...)
	}
	carry := Fold(sampleCheck(AsGoodAs), d, start, window(hour))
	for _, row := range []struct {
		what string
		of   any
		most int
	}{{"harm", carry.Harm.Logs, 1400}, {"safe", carry.Safe.Logs, 700}} {
		text, err := json.Marshal(row.of)
		if err != nil || len(text) > row.most {
			t.Errorf("%s has %d bytes, %v", row.what, len(text), err)
		}
	}
}

// TestRestartsSpendWhatThereIs checks that the evidence that begins with the first window, and all
// later parts, add up to at most the whole.
func TestRestartsSpendWhatThereIs(t *testing.T) {
	t.Parallel()
	logs := []float64{0}
	for k := 1; k <= 1e6; k++ {
		restart(logs, k, []float64{0})
	}
	if sum := math.Exp(logs[0]); sum > 2 || sum < 1.9999 {
		t.Errorf("windows that prove nothing come to %g, want 2", sum)
	}
}
