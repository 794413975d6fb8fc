// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package judge decides from measurements whether a new version may continue.
//
// It is pure: the same check, data and times give the same verdict, however often the data is
// judged, and whether or not a part of the data was folded into a Carry.
package judge

import "time"

// Rule is how a check is judged.
type Rule string

// Number judges samples, the other rules judge counts of requests. A job is a Number with FailAfter 1
// and AtLeast 0.
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
	Both          Traffic = ""
	StableOnly    Traffic = "StableOnly"
	NewOnly       Traffic = "NewOnly"
	BeforeTraffic Traffic = "BeforeTraffic" // the step does not send its requests yet
	StableUnready Traffic = "StableUnready" // both shall get requests, but no stable pod is ready now
)

// Check is one check, as it applies to the current step.
type Check struct {
	Rule          Rule
	Objective     float64 // share of bad requests that is allowed: 0.01 for 99 %
	Below         float64 // milliseconds
	Ratio, Margin float64 // tolerance against stable; Ratio 0 is 1.5 and 0.1 %
	Min, Max      *float64
	FailAfter     int     // bad samples in a row that fail, good ones that pass
	Gate          bool    // the check waits until it passes: it neither fails nor becomes inconclusive by time
	Alpha         float64 // chance of a wrong Failed in an attempt: risk by number of checks
	Traffic       Traffic

	Every   time.Duration // length of a window
	Lag     time.Duration // younger windows are not judged
	AtLeast time.Duration // a check does not pass earlier in a step
	After   time.Duration // warm-up: requests and numbers of this time of a step are not judged
	Within  time.Duration // a check that is still Running after this time of a step is Inconclusive

	Source, Query string // for messages
}

// Data is what was measured for a check.
type Data struct {
	Windows []Window  // of the attempt, in order, of one grid
	Bounds  []float64 // milliseconds, ascending, that Window.Counts continues with
	Past    []Window  // the hour before the release; only the counts of stable are used
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

// Window has the requests that both versions answered from Start on, for Check.Every. Counts has one
// element for errors, and one for each of Data.Bounds: the requests that were slower. If the source has
// not answered for a window, the window is not Known, and no later window is judged.
type Window struct {
	Start  time.Time
	Known  bool
	Counts []Pair
}

// Pair has the requests of one class that both versions answered.
type Pair struct{ New, Old Count }

// Count has the requests that one version answered.
type Count struct{ Total, Bad float64 }

// Sample is one measurement of a number. For a Service or a job, the number is 1 or 0, and Says
// describes the answer or the end of the job.
type Sample struct {
	At    time.Time
	Value float64
	Says  string
}

// Fault is why the source gives no data, and since when. It is Invalid if another try cannot help
// until a user changes something, for instance because a query returns several series.
type Fault struct {
	Why     string
	Since   time.Time
	Invalid bool
}

// Verdict is the judgement. Wake is after how long the data must be judged again; it is 0 if time cannot
// change the verdict.
type Verdict struct {
	Is       State
	Why      string
	Evidence Evidence
	Wake     time.Duration
}

// State is the result of a check.
type State string

// A check that has failed stays Failed in its attempt. A check that has passed stays Passed in its step
// unless it fails.
const (
	Running      State = "Running"
	Passed       State = "Passed"
	Failed       State = "Failed"
	Inconclusive State = "Inconclusive"
	Skipped      State = "Skipped"
)

// Evidence has the numbers behind a verdict: those of the attempt if the check failed, else those of
// the step. If the check judges several classes of requests, they are those of the class that decides.
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
		return Verdict{Is: Inconclusive, Why: truncateMessage(Invalid + problem)}
	}
	s, open := t.scan(d, since, now.Add(-c.Lag))
	t.addOpenBlock(&s, open)
	v := Verdict{Is: t.state(s, d.Fault, now), Evidence: t.evidence(s, d.Bounds)}
	v.Why = truncateMessage(t.message(v, s, d, now))
	v.Wake = t.requeueAfter(v.Is, s, d.Fault, now)
	return v
}

// state returns the result. While the evidence decides nothing, the traffic of the step, the fault of the
// source and the time decide.
func (t *trial) state(s Carry, f Fault, now time.Time) State {
	switch {
	case s.Is == Failed:
		return Failed
	case t.skipReason() != "":
		return Skipped
	case s.Is == Passed:
		return Passed
	case f.Invalid && now.Sub(f.Since) >= maxRetry, !t.Gate && !now.Before(s.Since.Add(t.Within)):
		return Inconclusive
	}
	return Running
}

// missingRequestsAfter is how long requests may be missing before a verdict names the query. A source that does
// not answer is queried again after minRetry, and then less often, down to once in maxRetry. A check
// that stays invalid for maxRetry is inconclusive.
const missingRequestsAfter, minRetry, maxRetry = 5 * time.Minute, 5 * time.Second, time.Minute

// requeueAfter returns after how long the verdict may change: at the end of a window, with an answer of the
// source, or because a time limit ends.
func (t *trial) requeueAfter(is State, s Carry, f Fault, now time.Time) time.Duration {
	if is == Failed || is == Skipped {
		return 0
	}
	grid := s.Until
	if grid.IsZero() {
		grid = s.Since
	}
	wake := t.Every - now.Add(-t.Lag).Sub(grid)%t.Every
	if f.Why != "" {
		wake = min(max(now.Sub(f.Since), minRetry), maxRetry)
	}
	for _, at := range []time.Time{s.Since.Add(t.Within), s.Since.Add(missingRequestsAfter)} {
		if left := at.Sub(now); left > 0 {
			wake = min(wake, left)
		}
	}
	return wake
}
