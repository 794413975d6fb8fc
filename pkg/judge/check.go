// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"slices"
	"time"
)

// Rule is what a check looks at.
type Rule string

// Number and Once judge samples, the others requests.
const (
	SuccessRate Rule = "SuccessRate" // requests that failed: against an objective and stable
	Latency     Rule = "Latency"     // requests slower than Below: the same
	AsGoodAs    Rule = "AsGoodAs"    // errors and the whole latency distribution: against stable
	Counts      Rule = "Counts"      // bad events of any kind: against stable
	Number      Rule = "Number"      // a number in Min and Max, window by window
	Once        Rule = "Once"        // the same, with one sample for each step
)

// Traffic is which versions a step sends requests to.
type Traffic string

// Both versions get requests unless the step says otherwise.
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
	Ratio, Margin float64 // tolerance against stable; Ratio 0 is DefaultRatio, DefaultMargin
	Min, Max      *float64
	FailAfter     int     // bad samples in a row that fail, good ones that pass
	Alpha         float64 // chance of a wrong Failed in an attempt: risk by number of checks
	Traffic       Traffic

	Every   time.Duration // length of a window
	Lag     time.Duration // younger windows are not judged
	AtLeast time.Duration // a step does not pass earlier
	Within  time.Duration // a step undecided by then is inconclusive

	Source, Query string // for messages
}

// The tolerance against stable, unless a check has its own.
const (
	DefaultRatio  = 1.5
	DefaultMargin = 0.001
)

// A version that passes is not a point worse.
const point = 0.01

// form is what a rule tests. classes returns elements of Window.Counts, or why there are
// none.
type form struct {
	objective bool
	classes   func(below float64, bounds []float64) ([]int, string)
}

var forms = map[Rule]form{
	SuccessRate: {true, errors},
	Latency:     {true, slow},
	AsGoodAs:    {false, errorsAndSlow},
	Counts:      {false, errors},
	Number:      {},
	Once:        {},
}

func errors(float64, []float64) ([]int, string) { return []int{0}, "" }

// slow finds the next boundary up: a bucket knows no time in between.
func slow(below float64, bounds []float64) ([]int, string) {
	i := slices.IndexFunc(bounds, func(b float64) bool { return b >= below })
	if i < 0 && len(bounds) > 0 {
		return nil, fmt.Sprintf("the histogram has no boundary at or above %g ms", below)
	}
	return []int{max(i, 0) + 1}, ""
}

func errorsAndSlow(_ float64, bounds []float64) ([]int, string) {
	if len(bounds) > 16 {
		return nil, fmt.Sprintf("the histogram has %d boundaries, at most 16 can be compared", len(bounds))
	}
	classes := make([]int, len(bounds)+1)
	for i := range classes {
		classes[i] = i
	}
	return classes, ""
}

// trial is a check with its tests: of each class one against stable, and with an
// objective one against that.
type trial struct {
	Check
	form
	classes []int
	tests   []test
}

// newTrial returns why a check cannot be judged, if so.
func newTrial(c Check, d Data) (*trial, string) {
	t := &trial{Check: c, form: forms[c.Rule]}
	if c.Ratio == 0 {
		t.Ratio, t.Margin = DefaultRatio, DefaultMargin
	}
	if _, ok := forms[c.Rule]; !ok || !t.sound() {
		return t, "its rule, or one of its numbers, has no meaning"
	}
	if t.form.classes == nil {
		return t, ""
	}
	var why string
	t.classes, why = t.form.classes(t.Below, d.Bounds)
	for i, class := range t.classes {
		phi := dispersion(d.Past, class)
		t.tests = append(t.tests, test{i, phi, t.Ratio, t.Margin, max(point, 2*t.Margin)})
		if t.objective {
			t.tests = append(t.tests, test{i, phi, 0, t.Objective, t.Objective + point})
		}
	}
	return t, why
}

// sound reports whether the numbers of a check can be judged by. The server explains what
// is wrong when a check is written.
func (t *trial) sound() bool {
	return t.Every > 0 && t.Within > 0 && t.AtLeast >= 0 && t.Lag >= 0 &&
		(t.form.classes == nil || t.Alpha > 0 && t.Alpha < 1) &&
		t.Ratio >= 1 && t.Ratio <= 100 && t.Margin >= 0 && t.Margin < 1 &&
		t.Objective >= 0 && t.Objective < 1
}

// skip returns why the current step has nothing to judge, if so.
func (t *trial) skip() string {
	switch {
	case t.classes == nil:
		return ""
	case t.Traffic == StableOnly:
		return "this step sends the new version no requests"
	case t.Traffic == NewOnly && !t.objective:
		return "this step sends stable no requests to compare with"
	}
	return ""
}
