// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/judge"
)

// Before anybody releases, each check of a Rollout that was written is tried on the last day
// of the stable version: does it measure anything, and would it have failed? During a release
// the condition only stops saying that a source does not answer, once it does.

// The reasons of the condition Measurable.
const (
	ReasonMeasured  = "Measured"
	ReasonToMeasure = "ToBeMeasured"
	ReasonNoAnswer  = "NoAnswer"
	ReasonNothing   = "NothingMatches"
	ReasonWouldFail = "WouldFail"
)

const (
	day = 24 * time.Hour
	// tried is the shortest window of a day, so that one question asks for all.
	tried = 2 * time.Minute
)

// keepMeasurable says whether the checks of a plan measure the stable version.
func keepMeasurable(d *draft) {
	c := d.status.Condition(rollouts.ConditionMeasurable)
	switch {
	case d.plan == nil || d.plan.Analysis == nil:
		if c != nil {
			d.status.RemoveCondition(rollouts.ConditionMeasurable)
		}
		return
	case c == nil || d.Rollout.Status.ObservedGeneration != d.Rollout.Generation:
		d.setCondition(rollouts.ConditionMeasurable, metav1.ConditionUnknown, ReasonToMeasure, "Weir runs the checks against metrics of the last 24 hours")
		if d.isHealthy() { // what is known may be of the plan before
			d.questions = append(d.questions, questionsOf(d.facts)...)
		}
		return
	}
	switch {
	case d.isHealthy():
		tryChecks(d)
	case c.Reason == ReasonNoAnswer && haveAnswers(d.facts):
		// The source was created or repaired during the release.
		d.setCondition(rollouts.ConditionMeasurable, metav1.ConditionUnknown, ReasonToMeasure,
			"each check has an answer now; the checks are tried on the last 24 hours when the release is over")
	}
}

// haveAnswers reports whether the release in progress has an answer for each check that asks a source of metrics.
func haveAnswers(f facts) bool {
	for _, m := range f.Measured {
		isAnswered := m.Answered && !m.IsTrial && m.Data.Fault.Why == "" && len(m.Data.Windows)+len(m.Data.Samples) > 0
		if asksMetrics(&m.Check) && !isAnswered {
			return false
		}
	}
	return true
}

// tryChecks asks about the last day until all is known, and says what was found.
func tryChecks(d *draft) {
	c := d.status.Condition(rollouts.ConditionMeasurable)
	if c.Status == metav1.ConditionTrue || c.Reason == ReasonWouldFail {
		return
	}
	reason, found, open := trials(d.facts)
	if reason == ReasonNoAnswer || reason == ReasonNothing || len(open) > 0 {
		d.questions = append(d.questions, questionsOf(d.facts)...)
	}
	message := strings.Join(found, "; ")
	switch {
	case len(open) > 0:
	case reason == ReasonMeasured:
		d.setCondition(rollouts.ConditionMeasurable, metav1.ConditionTrue, reason, "each check measures the stable version, and would not have failed in the last 24 hours")
	default:
		if c.Reason != reason {
			d.warn("ChecksNotMeasurable", message)
		}
		d.setCondition(rollouts.ConditionMeasurable, metav1.ConditionFalse, reason, message)
	}
}

// trials is what the checks found, the gravest reason of all, and the names of those that
// are not known yet.
func trials(f facts) (reason string, found, open []string) {
	reason = ReasonMeasured
	for _, m := range f.Measured {
		name := rollouts.CheckName(&m.Check)
		if !asksMetrics(&m.Check) {
			continue
		}
		if !m.Answered || !m.IsTrial {
			open = append(open, name)
			continue
		}
		of, why := trial(f, m)
		if why == "" {
			continue
		}
		found = append(found, name+" "+why)
		if grave[of] > grave[reason] {
			reason = of
		}
	}
	return reason, found, open
}

var grave = map[string]int{ReasonWouldFail: 1, ReasonNothing: 2, ReasonNoAnswer: 3}

// asksMetrics reports whether a check may ask a source of metrics, of which the past is known.
func asksMetrics(c *rollouts.Check) bool { return c.HTTP == nil && c.Job == nil && c.PodsHealthy == "" }

// questionsOf ask about the last day, from a full hour on.
func questionsOf(f facts) []MeasurementRequest {
	every := max(secondsOr(f.plan.Analysis.EverySeconds, defaultEvery), tried)
	from := f.Now.Truncate(time.Hour).Add(-day)
	var all []MeasurementRequest
	for _, c := range f.plan.Analysis.Checks {
		if asksMetrics(&c) {
			all = append(all, MeasurementRequest{Check: c, Began: from, From: from, Every: every, Try: true})
		}
	}
	return all
}

// trial is what is wrong with a check, and empty if nothing is.
func trial(f facts, m MeasuredCheck) (reason, why string) {
	if m.Data.Fault.Why != "" {
		return ReasonNoAnswer, "has no answer: " + m.Data.Fault.Why
	}
	if !asksMetrics(&m.Check) { // as what it uses says
		return ReasonMeasured, ""
	}
	c := judgeCheckOf(f, m, 1)
	c.Traffic, c.AtLeast, c.After, c.Lag, c.Every = judge.NewOnly, 0, 0, 0, max(c.Every, tried)
	failed, hours := 0, 0
	for from := 0; from < len(m.Data.Windows); from += perHour(c.Every) {
		hour := m.Data.Windows[from:min(from+perHour(c.Every), len(m.Data.Windows))]
		hours++
		if failsIn(c, m.Data, hour) {
			failed++
		}
	}
	switch {
	case !anything(m.Data) && m.Data.Nothing != "":
		return ReasonNothing, "measured nothing in the last 24 hours: " + m.Data.Nothing
	case !anything(m.Data):
		return ReasonNothing, "measured nothing in the last 24 hours: nothing matches " + m.Query
	case failed > 0:
		return ReasonWouldFail, fmt.Sprintf("would have failed the stable version in %d of the last %d hours; relax the objective", failed, hours)
	}
	return ReasonMeasured, ""
}

func perHour(every time.Duration) int { return max(int(time.Hour/every), 1) }

// failsIn judges an hour of the stable version as if it were the new one.
func failsIn(c judge.Check, d judge.Data, hour []judge.Window) bool {
	since, until := hour[0].Start, hour[len(hour)-1].Start.Add(c.Every)
	of := judge.Data{Bounds: d.Bounds}
	for _, w := range hour {
		w.Counts = append([]judge.Pair(nil), w.Counts...)
		for i, p := range w.Counts {
			w.Counts[i] = judge.Pair{New: judge.Count{Total: p.New.Total + p.Old.Total, Bad: p.New.Bad + p.Old.Bad}}
		}
		of.Windows = append(of.Windows, w)
	}
	for _, s := range d.Samples {
		if s.At.After(since) && !s.At.After(until) {
			of.Samples = append(of.Samples, s)
		}
	}
	return judge.Judge(c, of, since, until).Is == judge.Failed
}

// anything reports whether anything was measured.
func anything(d judge.Data) bool {
	for _, w := range d.Windows {
		for _, p := range w.Counts {
			if p.New.Total+p.Old.Total > 0 {
				return true
			}
		}
	}
	return len(d.Samples) > 0
}
