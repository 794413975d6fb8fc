// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package judge decides from measurements whether a new version may go on.
//
// It is pure: the same check, data and times give the same verdict, whether they were
// looked at once or many times, and whether a part of them was folded.
package judge

import "time"

// Rule is what a check looks at.
type Rule string

// Number judges samples, the others requests. A job is a Number with FailAfter 1 and
// AtLeast 0.
const (
	SuccessRate Rule = "SuccessRate" // requests that failed: against an objective and stable
	Latency     Rule = "Latency"     // requests slower than Below: the same
	AsGoodAs    Rule = "AsGoodAs"    // errors and the whole latency distribution: against stable
	Counts      Rule = "Counts"      // bad events of any kind: against stable
	Number      Rule = "Number"      // a number within Min and Max
)

// Traffic is which versions a step sends requests to.
type Traffic string

// The versions that get requests.
const (
	Both       Traffic = ""
	StableOnly Traffic = "StableOnly"
	NewOnly    Traffic = "NewOnly"
)

// Check is one check, as it applies to the current step.
type Check struct {
	Rule          Rule
	Objective     float64 // share of bad requests that is allowed: 0.01 for 99 %
	Below         float64 // milliseconds
	Ratio, Margin float64 // tolerance against stable; Ratio 0 is 1.5 and 0.1 %
	Min, Max      *float64
	FailAfter     int     // bad samples in a row that fail, good ones that pass
	Gate          bool    // what is not passed waits: it neither fails nor is undecided
	Alpha         float64 // chance of a wrong Failed in an attempt: risk by number of checks
	Traffic       Traffic

	Every   time.Duration // length of a window
	Lag     time.Duration // younger windows are not judged
	AtLeast time.Duration // a step does not pass earlier
	After   time.Duration // warm-up: requests in this time of a step are not judged
	Within  time.Duration // a step undecided by then is inconclusive

	Source, Query string // for messages
}

// Data is what was measured for a check.
type Data struct {
	Windows []Window  // of the attempt, in order, of one grid
	Bounds  []float64 // milliseconds, ascending, that Window.Counts continues with
	Past    []Window  // the hour before the release; only Old counts
	// Pods has one element for each pod of stable: the requests that it answered in the hour
	// before the release. Bad are those of the first class that the check judges: slow requests
	// for Latency, else errors. It is empty if the metrics do not name pods.
	Pods []Count
	// Scrape is the longest interval between two scrapes of a pod; 0 if it is unknown. A block
	// of windows is at least as long. Without Scrape, a block is one window.
	Scrape  time.Duration
	Samples []Sample // of Number, in order
	Carry   Carry    // windows and samples that were folded
	Fault   Fault
	// Nothing says why the source answered without data: no series, no number or no histogram. It
	// is empty if there was data.
	Nothing string
}

// Window is what both versions answered from Start on, for Check.Every. Counts has one
// element for errors, and one for requests slower than each of Data.Bounds. A window that
// is not Known has not been answered: nothing after it is judged.
type Window struct {
	Start  time.Time
	Known  bool
	Counts []Pair
}

// Pair is what both versions answered.
type Pair struct{ New, Old Count }

// Count is what one version answered.
type Count struct{ Total, Bad float64 }

// Sample is one measurement of a number. Says is what was measured, if a number does not
// say that: of an answer, or of a job.
type Sample struct {
	At    time.Time
	Value float64
	Says  string
}

// Fault is why the source gives no data, and since when. Invalid is for what another try
// cannot cure, as when a query returns several series.
type Fault struct {
	Why     string
	Since   time.Time
	Invalid bool
}

// Verdict is the judgement. Wake is how long to wait before the next look, 0 for ever.
type Verdict struct {
	Is       State
	Why      string
	Evidence Evidence
	Wake     time.Duration
}

// State is what a check has come to.
type State string

// A check that failed stays so for its attempt; one that passed, for its step unless it
// fails.
const (
	Running      State = "Running"
	Passed       State = "Passed"
	Failed       State = "Failed"
	Inconclusive State = "Inconclusive"
	Skipped      State = "Skipped"
)

// Evidence has the numbers behind a verdict: of the attempt if it failed, else of the
// step; of the class of requests that decides, if there are several.
type Evidence struct {
	Pair
	About            float64 // requests to the new version that are enough to pass; 0 if unknown
	Bound            float64 // milliseconds that a good request takes at most; 0 for errors
	Dispersion       float64
	Assumed          bool // Dispersion is assumed, because stable failed fewer than 20 requests
	Harm, HarmNeeded float64
	Safe, SafeNeeded float64
	Value            float64
	Run              int
}

// Judge judges a check in the step that began at since.
func Judge(c Check, d Data, since, now time.Time) Verdict {
	t, problem := newTrial(c, d)
	if problem != "" {
		return Verdict{Is: Inconclusive, Why: clip("the check is invalid: " + problem)}
	}
	s, open := t.scan(d, since, now.Add(-c.Lag))
	t.addOpenBlock(&s, open)
	v := Verdict{Is: t.state(s, d.Fault, now), Evidence: t.evidence(s, d.Bounds)}
	v.Why = clip(t.why(v, s, d, now))
	v.Wake = t.wake(v.Is, s, d.Fault, now)
	return v
}

// state judges what the evidence leaves open by the step, the source and the time.
func (t *trial) state(s Carry, f Fault, now time.Time) State {
	switch {
	case s.Is == Failed:
		return Failed
	case t.skip() != "":
		return Skipped
	case s.Is == Passed:
		return Passed
	case f.Invalid && now.Sub(f.Since) >= lastRetry, !t.Gate && !now.Before(s.Since.Add(t.Within)):
		return Inconclusive
	}
	return Running
}

// unknownFor is how long requests may be missing before a verdict names the query. A source is
// asked again after soonest, at first, and after latest at last: what is invalid for so long
// is not about to be put right.
const unknownFor, firstRetry, lastRetry = 5 * time.Minute, 5 * time.Second, time.Minute

// wake is when a look may find something else: the end of a window, an answer of the
// source, or a time that changes the verdict by itself.
func (t *trial) wake(is State, s Carry, f Fault, now time.Time) time.Duration {
	if is == Failed || is == Skipped {
		return 0
	}
	grid := s.Until
	if grid.IsZero() {
		grid = s.Since
	}
	wake := t.Every - now.Add(-t.Lag).Sub(grid)%t.Every
	if f.Why != "" {
		wake = min(max(now.Sub(f.Since), firstRetry), lastRetry)
	}
	for _, at := range []time.Time{s.Since.Add(t.Within), s.Since.Add(unknownFor)} {
		if left := at.Sub(now); left > 0 {
			wake = min(wake, left)
		}
	}
	return wake
}
