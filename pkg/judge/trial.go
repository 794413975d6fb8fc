// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// trial is a check with its tests: of each class of requests one against stable and, with
// an objective, one against that. A class is an element of Window.Counts.
type trial struct {
	Check
	objective bool
	classes   []int
	tests     []test
}

// A version that passes is not a point worse.
const point = 0.01

// newTrial returns why a check cannot be judged, if so.
func newTrial(c Check, d Data) (*trial, string) {
	t := &trial{Check: c, objective: c.Rule == SuccessRate || c.Rule == Latency}
	if c.Ratio == 0 {
		t.Ratio, t.Margin = 1.5, 0.001
	}
	if !t.sound() {
		return t, "its rule, or one of its numbers, has no meaning"
	}
	if slices.ContainsFunc(d.Bounds, func(b float64) bool { return !(b > 0 && b <= most) }) {
		return t, "a boundary of the histogram is no time"
	}
	var why string
	t.classes, why = classes(c, d.Bounds)
	for i, class := range t.classes {
		phi := dispersion(d.Past, class)
		t.tests = append(t.tests, test{i, phi, t.Ratio, [2]float64{t.Margin, max(point, 2*t.Margin)}})
		if t.objective {
			t.tests = append(t.tests, test{i, phi, 0, [2]float64{t.Objective, t.Objective + point}})
		}
	}
	return t, why
}

// classes are what a check tests, or why it cannot. A bucket knows no time between its
// boundaries, so latency is judged by the next one up.
func classes(c Check, bounds []float64) ([]int, string) {
	switch c.Rule {
	case SuccessRate, Counts:
		return []int{0}, ""
	case Latency:
		i := slices.IndexFunc(bounds, func(b float64) bool { return b >= c.Below })
		if i < 0 && len(bounds) > 0 {
			return nil, fmt.Sprintf("the histogram has no boundary at or above %g ms", c.Below)
		}
		return []int{max(i, 0) + 1}, ""
	case AsGoodAs:
		if len(bounds) > 16 {
			return nil, fmt.Sprintf("the histogram has %d boundaries, at most 16 can be compared", len(bounds))
		}
		all := make([]int, len(bounds)+1)
		for i := range all {
			all[i] = i
		}
		return all, ""
	}
	return nil, ""
}

// sound reports whether the numbers of a check can be judged by. The server explains what
// is wrong when a check is written.
func (t *trial) sound() bool {
	in := func(x, low, high float64) bool { return x >= low && x <= high }
	times := min(t.Every, t.Within) > 0 && min(t.AtLeast, t.Lag) >= 0
	switch t.Rule {
	case SuccessRate, Latency, AsGoodAs, Counts:
		return times && in(t.Alpha, 1e-300, 0.5) && in(t.Ratio, 1, 100) && in(t.Margin, 0, 1) && in(t.Objective, 0, 1)
	case Number:
		return times && t.FailAfter > 0
	}
	return false
}

// skip returns why the current step has nothing to judge, if so.
func (t *trial) skip() string {
	switch {
	case t.Rule == Number:
		return ""
	case t.Traffic == StableOnly:
		return "this step sends the new version no requests"
	case t.Traffic == NewOnly && !t.objective:
		return "this step sends stable no requests to compare with"
	}
	return ""
}

// Carry is what folded data comes to. Since is when the step began that Is and Safe are
// of; Harm is of the attempt.
type Carry struct {
	Is           State
	Since, Until time.Time
	Harm, Safe   Ledger
	Run          int     // samples in a row: good ones, or bad ones below 0
	Value        float64 // of the last sample
	Says         string
}

// Ledger has log evidence, 8 numbers of harm or 4 of safety for each test, and what was
// counted, for each class.
type Ledger struct {
	Logs    []float64
	Counts  []Pair
	Windows int // that had data
}

// Fold returns what replaces the data that ended by until.
func Fold(c Check, d Data, since, until time.Time) Carry {
	t, problem := newTrial(c, d)
	if problem != "" {
		return d.Carry
	}
	s := t.scan(d, since, until)
	for _, logs := range [][]float64{s.Harm.Logs, s.Safe.Logs} {
		for i, l := range logs {
			logs[i] = math.Floor(l*1000) / 1000 // short to store, and never more than it was
		}
	}
	return s
}

// scan adds what ended by until to the carry. It stops at a failure, and before what is
// not known yet: what comes later never changes what was found.
func (t *trial) scan(d Data, since, until time.Time) Carry {
	s := t.resume(d.Carry, since)
	if t.Rule == Number {
		t.scanSamples(&s, d.Samples, until)
		return s
	}
	for _, w := range d.Windows {
		end := w.Start.Add(t.Every)
		if s.Is == Failed || !w.Known || end.After(until) {
			break
		}
		if !w.Start.Before(s.Until) {
			t.addWindow(&s, w, end)
		}
	}
	return s
}

func (t *trial) scanSamples(s *Carry, samples []Sample, until time.Time) {
	for _, sample := range samples {
		if s.Is == Failed || sample.At.After(until) {
			break
		}
		number := !math.IsNaN(sample.Value) && !math.IsInf(sample.Value, 0)
		if number && sample.At.Truncate(time.Millisecond).After(s.Until) { // a stored carry has no finer time
			t.addSample(s, sample)
		}
	}
}

// resume continues a carry, in a new step if since says so.
func (t *trial) resume(s Carry, since time.Time) Carry {
	if s.Is != Failed && (s.Is == "" || !s.Since.Equal(since)) {
		s.Is, s.Since, s.Run, s.Safe = Running, since, min(s.Run, 0), Ledger{}
	}
	s.Harm, s.Safe = t.fit(s.Harm, harm), t.fit(s.Safe, safe)
	return s
}

// fit copies a ledger. One of another size is of another check, and counts for nothing.
func (t *trial) fit(l Ledger, side int) Ledger {
	if len(l.Logs) != len(t.tests)*len(etas[side]) || len(l.Counts) != len(t.classes) {
		return Ledger{Logs: make([]float64, len(t.tests)*len(etas[side])), Counts: make([]Pair, len(t.classes))}
	}
	return Ledger{slices.Clone(l.Logs), slices.Clone(l.Counts), l.Windows}
}

// addWindow adds to the evidence of harm and, in the step, of safety.
func (t *trial) addWindow(s *Carry, w Window, end time.Time) {
	inStep := !w.Start.Before(s.Since)
	t.addCounts(&s.Harm, harm, w, inStep)
	if inStep {
		t.addCounts(&s.Safe, safe, w, inStep)
	}
	s.Until = end
	switch {
	case !t.Gate && t.harmOf(s) >= -math.Log(t.Alpha):
		s.Is = Failed
	case !end.Before(s.Since.Add(t.AtLeast)) && safeOf(s) >= -math.Log(safeAlpha):
		s.Is = Passed
	}
}

// addCounts leaves out what are no numbers. Where stable gets no requests, the objective
// stands in for it.
func (t *trial) addCounts(l *Ledger, side int, w Window, inStep bool) {
	l.Windows += w.known(t.classes)
	for i, test := range t.tests {
		if t.objective && inStep && t.Traffic == NewOnly {
			test = t.tests[i|1]
		}
		if p, ok := w.pair(t.classes[test.class]); ok && p != (Pair{}) {
			if side == harm {
				restart(part(*l, side, i), l.Windows)
			}
			test.add(part(*l, side, i), side, p)
		}
	}
	for i, class := range t.classes {
		p, _ := w.pair(class)
		sum := &l.Counts[i]
		sum.New = Count{sum.New.Total + p.New.Total, sum.New.Bad + p.New.Bad}
		sum.Old = Count{sum.Old.Total + p.Old.Total, sum.Old.Bad + p.Old.Bad}
	}
}

// most is more requests than a window can have.
const most = 1e15

// pair returns what a window counted of a class, if that are numbers. Counters are not
// read at one time, so a few more bad requests than requests are no contradiction.
func (w *Window) pair(class int) (Pair, bool) {
	if !w.Known || class >= len(w.Counts) {
		return Pair{}, false
	}
	p := w.Counts[class]
	for _, number := range []float64{p.New.Total, p.New.Bad, p.Old.Total, p.Old.Bad} {
		if !(number >= 0 && number <= most) {
			return Pair{}, false
		}
	}
	p.New.Bad, p.Old.Bad = min(p.New.Bad, p.New.Total), min(p.Old.Bad, p.Old.Total)
	return p, true
}

// known is 1 if a window has data of any class.
func (w *Window) known(classes []int) int {
	for _, class := range classes {
		if p, ok := w.pair(class); ok && p != (Pair{}) {
			return 1
		}
	}
	return 0
}

// addSample counts samples in a row: bad ones of the attempt, good ones of the step.
func (t *trial) addSample(s *Carry, sample Sample) {
	s.Until, s.Value, s.Says = sample.At, sample.Value, clip(sample.Says)
	switch {
	case t.broken(sample.Value) != "":
		s.Run = min(s.Run, 0) - 1
	case sample.At.After(s.Since):
		s.Run = max(s.Run, 0) + 1
	default:
		s.Run = 0
	}
	switch {
	case !t.Gate && -s.Run >= t.FailAfter:
		s.Is = Failed
	case s.Run >= t.FailAfter && !sample.At.Before(s.Since.Add(t.AtLeast)):
		s.Is = Passed
	}
}

// broken returns which limit a number breaks, if any.
func (t *trial) broken(value float64) string {
	switch {
	case t.Max != nil && value > *t.Max:
		return fmt.Sprintf("above %.6g", *t.Max)
	case t.Min != nil && value < *t.Min:
		return fmt.Sprintf("below %.6g", *t.Min)
	}
	return ""
}
