// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Fold returns what replaces the data that ended by until.
func Fold(c Check, d Data, since, until time.Time) Carry {
	t, problem := newTrial(c, d)
	if problem != "" {
		return d.Carry
	}
	s := t.scan(d, since, until)
	for _, logs := range [][]float64{s.Harm, s.Safe} {
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
	if t.classes == nil {
		t.scanSamples(&s, d.Samples, until)
		return s
	}
	for _, w := range d.Windows {
		end := w.Start.Add(t.Every)
		if s.Is == Failed || !w.Known || end.After(until) {
			break
		}
		if !w.Start.Before(s.Until) {
			t.addWindow(&s, w)
			s.Until = end
		}
	}
	return s
}

// resume continues a carry, in a new step if since says so. Numbers that do not fit are
// of another check, and count for nothing.
func (t *trial) resume(s Carry, since time.Time) Carry {
	s.Harm, s.Safe = fit(s.Harm, len(t.tests)*len(harmful)), fit(s.Safe, len(t.tests)*len(harmless))
	s.Attempt, s.Step = fit(s.Attempt, len(t.classes)), fit(s.Step, len(t.classes))
	if s.Is != Failed && (s.Is == "" || !s.Since.Equal(since)) {
		s.Is, s.Since, s.Run = Running, since, min(s.Run, 0)
		clear(s.Safe)
		clear(s.Step)
	}
	return s
}

func fit[T any](of []T, size int) []T {
	if len(of) != size {
		return make([]T, size)
	}
	return slices.Clone(of)
}

// most is more requests than a window can have.
const most = 1e15

// pair returns what a window counted, if that are numbers. Counters are not read at one
// time, so a few more bad requests than requests are no contradiction.
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

// addWindow adds to the evidence of harm and, in this step, of safety.
func (t *trial) addWindow(s *Carry, w Window) {
	inStep := !w.Start.Before(s.Since)
	for i, test := range t.tests {
		p, ok := w.pair(t.classes[test.class])
		if !ok {
			continue
		}
		if t.objective && t.Traffic == NewOnly && inStep {
			test = t.tests[i|1] // the objective stands in for stable
		}
		test.add(part(s.Harm, harmful, i), harmful, test.harm, p)
		if inStep {
			test.add(part(s.Safe, harmless, i), harmless, test.safer, p)
		}
	}
	for i, class := range t.classes {
		p, _ := w.pair(class)
		s.Attempt[i].add(p)
		if inStep {
			s.Step[i].add(p)
		}
	}
	switch {
	case t.harmOf(s) >= -math.Log(t.Alpha):
		s.Is = Failed
	case !w.Start.Add(t.Every).Before(s.Since.Add(t.AtLeast)) && safeOf(s) >= -math.Log(safeAlpha):
		s.Is = Passed
	}
}

func (p *Pair) add(q Pair) {
	p.New.Total, p.New.Bad = p.New.Total+q.New.Total, p.New.Bad+q.New.Bad
	p.Old.Total, p.Old.Bad = p.Old.Total+q.Old.Total, p.Old.Bad+q.Old.Bad
}

func (t *trial) scanSamples(s *Carry, samples []Sample, until time.Time) {
	for _, sample := range samples {
		if s.Is == Failed || sample.At.After(until) {
			break
		}
		if sample.At.After(s.Until) && !math.IsNaN(sample.Value) && !math.IsInf(sample.Value, 0) {
			t.addSample(s, sample)
			s.Until = sample.At
		}
	}
}

// addSample counts samples in a row: bad ones of the attempt, good ones of the step.
func (t *trial) addSample(s *Carry, sample Sample) {
	s.Value = sample.Value
	switch {
	case t.outside(sample.Value) != "":
		s.Run = min(s.Run, 0) - 1
	case sample.At.After(s.Since):
		s.Run = max(s.Run, 0) + 1
	default:
		s.Run = 0
	}
	switch {
	case -s.Run >= t.inRow():
		s.Is = Failed
	case s.Run >= t.inRow() && (t.Rule == Once || !sample.At.Before(s.Since.Add(t.AtLeast))):
		s.Is = Passed
	}
}

// inRow is how many samples in a row decide.
func (t *trial) inRow() int {
	if t.Rule == Once {
		return 1
	}
	return max(t.FailAfter, 1)
}

// outside returns which limit a number breaks, if any.
func (t *trial) outside(value float64) string {
	switch {
	case t.Max != nil && value > *t.Max:
		return fmt.Sprintf("above %.6g", *t.Max)
	case t.Min != nil && value < *t.Min:
		return fmt.Sprintf("below %.6g", *t.Min)
	}
	return ""
}
