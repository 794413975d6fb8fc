// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// trial is a check with its tests. Each class of requests has one test against stable and, if the check
// has an objective, a second one against the objective. A class is an index of Window.Counts.
type trial struct {
	Check
	objective bool
	length    time.Duration // of a block
	warmUp    time.Duration // After, and the interval in which all requests of this time are scraped
	classes   []int
	tests     []test
}

// scrapeTolerance is how much longer than a block the interval between two scrapes may be: some scrapes are a
// little late, which must not double the length of a block.
const scrapeTolerance = 1.1

// point is one percent of requests: a version that passes is not worse by that share.
const point = 0.01

// newTrial returns a trial, or the reason why the check cannot be judged.
func newTrial(c Check, d Data) (*trial, string) {
	t := &trial{Check: c, objective: c.Rule == SuccessRate || c.Rule == Latency}
	if c.Ratio == 0 {
		t.Ratio, t.Margin = 1.5, 0.001
	}
	if !t.isValid() {
		return t, "its rule, or one of its numbers, has no meaning"
	}
	if slices.ContainsFunc(d.Bounds, func(b float64) bool { return !(b > 0 && b <= maxCount) }) {
		return t, "a boundary of the histogram is no time"
	}
	t.length = t.Every * time.Duration(max(1, math.Ceil(float64(d.Scrape)/float64(t.Every)/scrapeTolerance)))
	if c.After > 0 {
		t.warmUp = c.After
		if c.Rule != Number {
			t.warmUp += d.Scrape
		}
	}
	var why string
	t.classes, why = classes(c, d.Bounds)
	for i, class := range t.classes {
		var pods []Count
		if i == 0 {
			pods = d.Pods
		}
		phi, assumed := dispersion(d.Past, class, pods)
		t.tests = append(t.tests, test{i, phi, assumed, t.Ratio, [2]float64{t.Margin, max(point, 2*t.Margin)}})
		if t.objective {
			t.tests = append(t.tests, test{i, phi, assumed, 0, [2]float64{t.Objective, t.Objective + point}})
		}
	}
	return t, why
}

// classes returns the classes that a check tests, or the reason why there are none. A histogram does not
// show times between two boundaries, so Latency is judged by the first boundary at or above Below.
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

// isValid reports whether the numbers of a check have a meaning. When a check is written, the server
// validates them and explains what is wrong.
func (t *trial) isValid() bool {
	in := func(x, low, high float64) bool { return x >= low && x <= high }
	times := min(t.Every, t.Within) > 0 && min(t.AtLeast, t.After, t.Lag) >= 0
	switch t.Rule {
	case SuccessRate, Latency, AsGoodAs, Counts:
		return times && in(t.Alpha, 1e-300, 0.5) && in(t.Ratio, 1, 100) && in(t.Margin, 0, 1) && in(t.Objective, 0, 1)
	case Number:
		return times && t.FailAfter > 0
	}
	return false
}

// skipReason returns why the current step has nothing to judge; empty if it has.
func (t *trial) skipReason() string {
	switch {
	case t.Rule == Number:
		return ""
	case t.Traffic == BeforeTraffic:
		return "nothing is judged: the check counts requests, and the new version gets none before the traffic of a step; leave out at: BeforeTraffic"
	case t.Traffic == StableOnly:
		return "this step sends the new version no requests"
	case t.Traffic == NewOnly && !t.objective:
		return "this step sends stable no requests to compare with"
	}
	return ""
}

// Carry is the evidence of folded data. Is and Safe belong to the step that began at Since, and Harm to
// the attempt. The data until Until is folded.
type Carry struct {
	Is           State
	Since, Until time.Time
	Harm, Safe   Ledger
	Last         []Pair    // what the last block counted, for each class
	Ended        time.Time // the end of the last block
	Run          int       // the last good samples in a row; if negative, the last bad ones
	Value        float64   // of the last sample
	Says         string
}

// Ledger has log evidence, 8 numbers of harm or 4 of safety for each test, and what was
// counted, for each class. Ratios are the ratios of requests, new to stable, that the last block
// was weighed with, for each class; 0 if the last block is not part of a comparison.
type Ledger struct {
	Logs   []float64
	Counts []Pair
	Ratios []float64
	Blocks int // the number of judged blocks
}

// Fold returns the carry that replaces the data until then.
func Fold(c Check, d Data, since, until time.Time) Carry {
	t, problem := newTrial(c, d)
	if problem != "" {
		return d.Carry
	}
	s, _ := t.scan(d, since, until)
	for _, logs := range [][]float64{s.Harm.Logs, s.Safe.Logs} {
		for i, l := range logs {
			logs[i] = math.Floor(l*1000) / 1000 // shorter to store, and never more evidence than before
		}
	}
	return s
}

// block is the sum of consecutive windows. It is as long as a scrape interval, so that all requests from
// before its start are counted when it ends. A block has data in its first window.
type block struct {
	start, end time.Time
	counts     []Pair // for each class; nil if no window had data
}

// scan adds the blocks that ended by until to the carry, and returns the last block if it is not complete.
// It stops at a failure, and before the first window that is not Known, so that later windows never
// change a result.
func (t *trial) scan(d Data, since, until time.Time) (Carry, block) {
	s := t.resume(d.Carry, since)
	if t.Rule == Number {
		t.scanSamples(&s, d.Samples, until)
		return s, block{}
	}
	var open block
	for _, w := range d.Windows {
		end := w.Start.Add(t.Every)
		if s.Is == Failed || !w.Known || end.After(until) {
			break
		}
		if w.Start.Before(s.Until) {
			continue
		}
		if open.counts != nil && !w.Start.Before(open.start.Add(t.length)) { // windows are missing: the block ends here
			t.addBlock(&s, open)
			open = block{}
			if s.Is == Failed {
				break
			}
		}
		t.addWindow(&open, w)
		switch {
		case open.counts == nil:
			s.Until = end
		case !end.Before(open.start.Add(t.length)):
			t.addBlock(&s, open)
			open = block{}
		}
	}
	return s, open
}

// addWindow adds a window to a block. It leaves out numbers that are no counts.
func (t *trial) addWindow(b *block, w Window) {
	b.end = w.Start.Add(t.Every)
	for i, class := range t.classes {
		p, ok := w.classCounts(class)
		if !ok || p == (Pair{}) {
			continue
		}
		if b.counts == nil {
			b.start, b.counts = w.Start, make([]Pair, len(t.classes))
		}
		b.counts[i] = b.counts[i].add(p)
	}
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

// resume continues a carry. If since differs from that of the carry, a new step has begun.
func (t *trial) resume(s Carry, since time.Time) Carry {
	if s.Is != Failed && (s.Is == "" || !s.Since.Equal(since)) {
		s.Is, s.Since, s.Run, s.Safe = Running, since, min(s.Run, 0), Ledger{}
	}
	s.Harm, s.Safe = t.fitLedger(s.Harm, harm), t.fitLedger(s.Safe, safe)
	if len(s.Last) != len(t.classes) {
		s.Last = make([]Pair, len(t.classes))
	}
	return s
}

// fitLedger copies a ledger. A ledger of another size belongs to another check, so it is replaced by an
// empty one.
func (t *trial) fitLedger(l Ledger, side int) Ledger {
	if len(l.Logs) != len(t.tests)*len(etas[side]) || len(l.Counts) != len(t.classes) || len(l.Ratios) != len(t.classes) {
		return Ledger{Logs: make([]float64, len(t.tests)*len(etas[side])), Counts: make([]Pair, len(t.classes)), Ratios: make([]float64, len(t.classes))}
	}
	return Ledger{slices.Clone(l.Logs), slices.Clone(l.Counts), slices.Clone(l.Ratios), l.Blocks}
}

// addBlock judges the evidence before the block, for which the bad requests of the block are needed. It
// then adds the block to the evidence of harm and, if the block is in the step, of safety.
func (t *trial) addBlock(s *Carry, b block) {
	inStep := !b.start.Before(s.Since)
	warm := inStep && b.start.Before(s.Since.Add(t.warmUp))
	alone := t.objective && inStep && (t.Traffic == NewOnly || t.Traffic == StableUnready) // the objective alone decides
	t.reweighLastBlock(s, &s.Harm, harm, b)
	t.reweighLastBlock(s, &s.Safe, safe, b)
	t.decide(s, t.withRunsEnded(s, s.Harm, harm, b, alone), t.withRunsEnded(s, s.Safe, safe, b, alone), b)
	if s.Is == Failed {
		return
	}
	t.addCounts(s, &s.Harm, harm, b, warm, alone)
	if inStep {
		t.addCounts(s, &s.Safe, safe, b, b.start.Before(t.safeFrom(s)), alone)
	}
	s.Until, s.Ended, s.Last = b.end, b.end, b.counts
	if !s.Harm.isComparing() && !s.Safe.isComparing() { // an objective alone needs no later block
		t.decide(s, s.Harm, s.Safe, b)
	}
}

// decide fails or passes a check if the evidence of harm or of safety is enough.
func (t *trial) decide(s *Carry, harmful, harmless Ledger, b block) {
	switch {
	case !t.Gate && t.harmOf(harmful) >= -math.Log(t.Alpha):
		s.Is, s.Harm = Failed, harmful
	case !b.end.Before(s.Since.Add(t.AtLeast)) && safeOf(harmless) >= -math.Log(safeAlpha):
		s.Is = Passed
	}
}

// safeFrom returns when the evidence of safety begins. After a warm-up, this is one block later than the
// evidence of harm. Otherwise shift would count the failures of the warm-up against the new version.
func (t *trial) safeFrom(s *Carry) time.Time {
	if t.warmUp > 0 {
		return s.Since.Add(t.warmUp + t.length)
	}
	return s.Since
}

// reweighLastBlock weighs the last block with the ratio of requests of this one, if that is less
// favourable: pods are scraped at different times, so a change of traffic may be seen late.
func (t *trial) reweighLastBlock(s *Carry, l *Ledger, side int, b block) {
	for i, test := range t.tests {
		p, from := b.counts[test.class], l.Ratios[test.class]
		if to := lessFavorableRatio(side, from, p); test.ratio > 0 && from > 0 && to != from {
			test.reweigh(testLogs(*l, side, i), side, s.Last[test.class], from, to)
		}
	}
	for class, p := range b.counts {
		if l.Ratios[class] > 0 {
			l.Ratios[class] = lessFavorableRatio(side, l.Ratios[class], p)
		}
	}
}

// lessFavorableRatio returns the ratio of requests that makes the evidence smaller: the given one, or that of
// the block. A block without requests of both versions has no ratio.
func lessFavorableRatio(side int, ratio float64, p Pair) float64 {
	switch {
	case !p.hasBothVersions():
		return ratio
	case ratio == 0:
		return p.New.Total / p.Old.Total
	case side == harm:
		return max(ratio, p.New.Total/p.Old.Total)
	}
	return min(ratio, p.New.Total/p.Old.Total)
}

// withRunsEnded returns a copy of the ledger in which the runs end before the block.
func (t *trial) withRunsEnded(s *Carry, l Ledger, side int, b block, alone bool) Ledger {
	l.Logs = slices.Clone(l.Logs)
	for i, test := range t.tests {
		last, next, requests := s.Last[test.class], b.counts[test.class], l.Ratios[test.class]
		if test.ratio == 0 || requests == 0 {
			continue
		}
		test.shift(testLogs(l, side, i), side, requests, badNextToRun(side, last, next, alone))
	}
	return l
}

// badNextToRun returns how many bad requests of a run may be counted in the block next to the run. at is
// the block of the run, and next is the block next to it. Pods that restart in that block have no requests
// there, so the bad requests of the other pods are scaled up. If stable has no requests there at all, all
// of its requests may be bad.
func badNextToRun(side int, at, next Pair, alone bool) float64 {
	own, other := at.opposing(side), next.opposing(side)
	switch {
	case alone || side == safe || next == (Pair{}):
		return other.Bad
	case other.Total < least:
		return own.Total
	}
	return other.Bad * max(1, own.Total/other.Total)
}

// addCounts adds a block to a ledger. In the warm-up, and while one of the versions has no requests, the
// run of a comparison ends. A new run begins with the next block that has requests of both.
func (t *trial) addCounts(s *Carry, l *Ledger, side int, b block, warm, alone bool) {
	if !warm {
		l.Blocks++
	}
	ratios := make([]float64, len(t.classes))
	for class, p := range b.counts {
		if !warm && !alone && p.hasBothVersions() {
			ratios[class] = lessFavorableRatio(side, lessFavorableRatio(side, 0, s.Last[class]), p)
		}
		if !warm {
			l.Counts[class] = l.Counts[class].add(p)
		}
	}
	for i, test := range t.tests {
		logs, p, last := testLogs(*l, side, i), b.counts[test.class], s.Last[test.class]
		from, to := l.Ratios[test.class], ratios[test.class]
		before := make([]float64, len(logs)) // what shift takes from a run that begins with this block
		if test.ratio > 0 && from > 0 && to == 0 {
			test.shift(logs, side, from, badNextToRun(side, last, p, alone))
		}
		if test.ratio > 0 && to > 0 {
			test.shift(before, side, to, badNextToRun(side, p, last, false))
		}
		if from == 0 {
			for j := range logs {
				logs[j] = max(logs[j]+before[j], lowest)
			}
		}
		if alone {
			test = t.tests[i|1] // tests are in pairs: against stable, and against the objective
		}
		if warm || test.ratio > 0 && to == 0 || p == (Pair{}) {
			continue
		}
		if side == harm {
			restart(logs, l.Blocks, before)
		}
		test.add(logs, side, p, to)
	}
	l.Ratios = ratios
}

// addOpenBlock adds a block that is not complete to the counts for messages. The block is no evidence yet.
func (t *trial) addOpenBlock(s *Carry, open block) {
	if s.Is == Failed || open.counts == nil || open.start.Before(t.safeFrom(s)) {
		return
	}
	for i, p := range open.counts {
		s.Safe.Counts[i] = s.Safe.Counts[i].add(p)
	}
}

// isComparing reports whether the last block is part of a comparison with stable.
func (l Ledger) isComparing() bool {
	return slices.ContainsFunc(l.Ratios, func(ratio float64) bool { return ratio > 0 })
}

// hasBothVersions reports whether both versions answered requests.
func (p Pair) hasBothVersions() bool { return p.New.Total >= least && p.Old.Total >= least }

// opposing returns the counts of the version whose bad requests reduce the evidence: those of stable reduce
// harm, and those of the new version reduce safety.
func (p Pair) opposing(side int) Count { return [2]Count{harm: p.Old, safe: p.New}[side] }

func (p Pair) add(q Pair) Pair {
	return Pair{
		New: Count{p.New.Total + q.New.Total, p.New.Bad + q.New.Bad},
		Old: Count{p.Old.Total + q.Old.Total, p.Old.Bad + q.Old.Bad},
	}
}

// maxCount is more requests than a window can have.
const maxCount = 1e15

// classCounts returns the counts of a class in a window, and whether they are valid. Counters are not read at
// the same time, so slightly more bad requests than requests are valid.
func (w *Window) classCounts(class int) (Pair, bool) {
	if !w.Known || class >= len(w.Counts) {
		return Pair{}, false
	}
	p := w.Counts[class]
	for _, number := range []float64{p.New.Total, p.New.Bad, p.Old.Total, p.Old.Bad} {
		if !(number >= 0 && number <= maxCount) {
			return Pair{}, false
		}
	}
	p.New.Bad, p.Old.Bad = min(p.New.Bad, p.New.Total), min(p.Old.Bad, p.Old.Total)
	return p, true
}

// addSample counts samples in a row. Bad ones count in the whole attempt, good ones in their step only.
// A sample whose window begins in the warm-up does not count.
func (t *trial) addSample(s *Carry, sample Sample) {
	s.Until = sample.At
	if sample.At.After(s.Since) && sample.At.Before(t.firstSampleTime(s)) {
		return
	}
	s.Value, s.Says = sample.Value, truncateMessage(sample.Says)
	switch {
	case t.brokenLimit(sample.Value) != "":
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

// firstSampleTime returns the time of the first sample after the warm-up. A sample has the time at which its
// window ends.
func (t *trial) firstSampleTime(s *Carry) time.Time {
	if t.warmUp > 0 {
		return s.Since.Add(t.warmUp + t.Every)
	}
	return s.Since
}

// brokenLimit returns the limit that a number breaks; empty if it breaks none.
func (t *trial) brokenLimit(value float64) string {
	switch {
	case t.Max != nil && value > *t.Max:
		return fmt.Sprintf("above %.6g", *t.Max)
	case t.Min != nil && value < *t.Min:
		return fmt.Sprintf("below %.6g", *t.Min)
	}
	return ""
}
