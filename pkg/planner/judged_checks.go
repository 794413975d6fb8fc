// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/dump"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/judge"
)

// MeasuredCheck is a check of the plan, with what was measured for it.
type MeasuredCheck struct {
	// Planned is as the plan has it; in Check, what it uses is filled in.
	Planned, Check rollouts.Check
	// Source and Query are for messages; Lag is how old a window must be to be judged.
	Source, Query string
	Lag           time.Duration
	// Delay says how far the source is behind, or that its clock differs; empty if neither is so.
	Delay string
	// ClockAhead is how much later the samples of the source are than they were taken, by Weir's clock.
	ClockAhead time.Duration
	// Answered reports whether anything was measured, or tried, since this process started:
	// until then the stored result stays.
	Answered bool
	// IsTrial reports whether the data is that of the day before, of a question that tries.
	IsTrial bool
	// Data has no carry: the status has that.
	Data judge.Data
}

// MeasurementRequest is what is to be measured for a check.
type MeasurementRequest struct {
	Check rollouts.Check
	// Began is when the attempt began, and From when the first window begins that is asked for.
	Began, From time.Time
	Every       time.Duration
	// Since is when the step began to be measured, which Step counts from 1.
	Since time.Time
	Step  int32
	// Passed reports whether the step needs no job any more.
	Passed bool
	// Try reports whether the check is tried on what the version in service did before.
	Try bool
	// Evidence is what was found until now.
	Evidence judge.Evidence
}

// judgedCheck is a check with its verdict in the step under way.
type judgedCheck struct {
	MeasuredCheck
	name           string
	step           int32
	since          time.Time
	onFail         rollouts.OnFail
	onInconclusive rollouts.OnInconclusive
	// planned and used are digests of the check: see mark.
	planned, used string
	// changedAt is when the check was edited last in this attempt; nil if it was not.
	changedAt *metav1.Time
	rule      judge.Check
	verdict   judge.Verdict
}

// The defaults of analysis.
const (
	defaultRisk    = 0.001
	defaultEvery   = 30 * time.Second
	defaultAtLeast = time.Minute
	defaultWithin  = time.Hour
)

func secondsOr(value *int32, otherwise time.Duration) time.Duration {
	if value == nil {
		return otherwise
	}
	return time.Duration(*value) * time.Second
}

// parseDecimal reads a number that was validated.
func parseDecimal(text *string, otherwise float64) float64 {
	if text == nil {
		return otherwise
	}
	n, err := strconv.ParseFloat(*text, 64)
	if err != nil {
		return otherwise
	}
	return n
}

// measuresRequests are the kinds of checks that are judged by counts of requests, and share the risk.
func measuresRequests(c *rollouts.Check) bool {
	return c.SuccessRate != nil || c.Latency != nil || c.AsGoodAs != "" || c.Query != nil && c.Query.PromQL == ""
}

// judgedChecks are those of the step that is measured, which may be over, in the order of the plan,
// with their verdicts. There are none while nothing is measured, nor of a plan without analysis.
func judgedChecks(f *facts) []judgedCheck {
	a := f.status.Analysis
	if a == nil || f.release == nil || f.release.Analysis == nil {
		return nil
	}
	out := checksBeforeTraffic(f)
	if a.StepSince == nil {
		return out
	}
	out = append(out, judgePodsCheck(f)...)
	for _, m := range f.Measured {
		if checkApplies(&m.Check, rollouts.AtStep, a.Step) {
			out = append(out, judgeCheckInStep(f, m, a.Step, a.StepSince.Time))
		}
	}
	return out
}

// judgeCheckInStep is a check in a step, measured since then.
func judgeCheckInStep(f *facts, m MeasuredCheck, step int32, since time.Time) judgedCheck {
	plan := analysisOf(f)
	if m.IsTrial {
		m = MeasuredCheck{Planned: m.Planned, Check: m.Check}
	}
	c := judgedCheck{MeasuredCheck: m, name: rollouts.CheckName(&m.Check), step: step, since: since}
	c.onFail, c.onInconclusive = cmp.Or(m.Check.OnFail, plan.OnFail, rollouts.OnFailAbort), onInconclusiveOf(&plan, &m.Check)
	plan.Checks = nil
	c.planned = digest(m.Planned, plan)
	if m.Planned.Use != nil && m.Check.Use == nil {
		c.used = digest(m.Check)
	}
	if stored := storedCheck(f.status.Analysis, c.name); stored != nil {
		if c.changedAt = stored.ChangedAt; c.wasChangedSince(stored) {
			c.changedAt = new(RoundUp(f.Now))
		}
	}
	c.rule = judgeCheckOf(f, m, step)
	c.verdict = verdictOf(f, &c)
	return c
}

func digest(all ...any) string {
	sum := sha256.Sum256([]byte(dump.ForHash(all)))
	return hex.EncodeToString(sum[:])
}

// isBeforeTraffic reports whether a check is measured before the traffic of a step.
func (c *judgedCheck) isBeforeTraffic() bool { return c.Check.At == rollouts.AtBeforeTraffic }

// isMeasuredOnce reports whether a check is not looked at again in a step that it has passed.
func (c *judgedCheck) isMeasuredOnce() bool { return c.Check.Job != nil || c.isBeforeTraffic() }

// data is what was measured, with what is stored of a check. One that is looked at once has
// nothing of an earlier step.
func (c *judgedCheck) data(stored *rollouts.CheckStatus) judge.Data {
	data := c.Data
	if c.isMeasuredOnce() {
		data.Samples = slices.DeleteFunc(slices.Clone(data.Samples), func(s judge.Sample) bool { return s.At.Before(c.since) })
	}
	if c.continuesEvidence(stored) {
		_, text, _ := strings.Cut(stored.Carry, " ")
		data.Carry = judge.ParseCarry(text)
	}
	return data
}

// continuesEvidence reports whether a check goes on from the evidence that is stored.
func (c *judgedCheck) continuesEvidence(stored *rollouts.CheckStatus) bool {
	return stored != nil && !c.discardsResult(stored) && (!c.isMeasuredOnce() || !isFromEarlierStep(c.since, stored))
}

// markPrefix begins each mark. Evidence of an earlier version of Weir has none: it does not count, and
// nothing is known about edits.
const markPrefix = "sha256:"

// mark returns the digests of a check that its stored evidence begins with: that of the check and the
// settings of its plan and, if the check uses a Check or ClusterCheck, that of the content of this
// object. An edited check has another mark, so evidence of the check before the edit does not count.
// The digests are whole SHA-256 digests: with 32 bits, a user could find in seconds another check
// with the same mark, which would inherit the evidence.
func (c *judgedCheck) mark() string { return markPrefix + c.planned + "+" + c.used + " " }

// hasMarkOf reports whether a stored result is of the check as it is now. What a check uses is not
// known until it was read since Weir started.
func (c *judgedCheck) hasMarkOf(stored *rollouts.CheckStatus) bool {
	mark, _, _ := strings.Cut(stored.Carry, " ")
	planned, used, _ := strings.Cut(mark, "+")
	return planned == markPrefix+c.planned && (used == c.used || used == "" || c.used == "")
}

// wasChangedSince reports whether the check was edited since a result was stored.
func (c *judgedCheck) wasChangedSince(stored *rollouts.CheckStatus) bool {
	return strings.HasPrefix(stored.Carry, markPrefix) && !c.hasMarkOf(stored)
}

// discardsResult reports whether a stored result is of the check as it was before an edit. A failed check
// stays failed.
func (c *judgedCheck) discardsResult(stored *rollouts.CheckStatus) bool {
	return stored.Result != rollouts.CheckFailed && stored.Carry != "" && !c.hasMarkOf(stored)
}

// changedPrefix begins the message of a check that was edited in this attempt.
func changedPrefix(at *metav1.Time) string {
	if at == nil {
		return ""
	}
	return "changed at " + at.UTC().Format(time.TimeOnly) + " during the release; "
}

const podsHealthy = "podsHealthy"

// planHasCheck reports whether a plan has a check of that name.
func planHasCheck(f *facts, name string) bool {
	all := analysisOf(f).Checks
	off := slices.ContainsFunc(all, func(c rollouts.Check) bool { return c.PodsHealthy == rollouts.PodsHealthyOff })
	return name == podsHealthy && !off || slices.ContainsFunc(all, func(c rollouts.Check) bool {
		return c.PodsHealthy == "" && rollouts.CheckName(&c) == name
	})
}

// judgePodsCheck is the check of the new pods, which is in every analysis that does not switch
// it off.
func judgePodsCheck(f *facts) []judgedCheck {
	c := judgedCheck{name: podsHealthy, onInconclusive: rollouts.OnInconclusiveWait, since: f.status.Analysis.StepSince.Time}
	c.onFail = cmp.Or(analysisOf(f).OnFail, rollouts.OnFailAbort)
	for _, of := range analysisOf(f).Checks {
		if of.PodsHealthy == "" {
			continue
		}
		c.onFail = cmp.Or(of.OnFail, c.onFail)
		if of.PodsHealthy == rollouts.PodsHealthyOff {
			return nil
		}
	}
	if f.Pods == nil {
		return nil
	}
	c.verdict = JudgePods(*f.Pods, f.Now)
	if stored := storedCheck(f.status.Analysis, c.name); stored != nil && stored.Result == rollouts.CheckFailed {
		c.verdict = judge.Verdict{Is: judge.Failed, Why: stored.Why}
	}
	return []judgedCheck{c}
}

// verdictOf judges a check by what was measured; until something was, it is as stored. What
// has failed stays so for the attempt.
func verdictOf(f *facts, c *judgedCheck) judge.Verdict {
	stored := storedCheck(f.status.Analysis, c.name)
	var v judge.Verdict
	if stored != nil && keepsStoredResult(c, stored) {
		v = judge.Verdict{Is: judge.State(stored.Result), Why: strings.TrimPrefix(stored.Why, changedPrefix(stored.ChangedAt))}
	} else {
		v = judge.Judge(c.rule, c.data(stored), c.since, f.Now)
	}
	open := v.Is == judge.Running || v.Is == judge.Inconclusive
	if open && c.Delay != "" && c.Data.Fault.Why == "" {
		v.Why = c.Delay + ": " + v.Why
	}
	v.Why = truncateWhy(changedPrefix(c.changedAt) + v.Why)
	return v
}

// maxWhy is the length of the text of a check in the status.
const maxWhy = 256

// truncateWhy shortens the text of a check for the status.
func truncateWhy(why string) string {
	if len(why) <= maxWhy {
		return why
	}
	return strings.ToValidUTF8(why[:maxWhy-len("…")], "") + "…"
}

// keepsStoredResult reports whether the stored result of a check is its verdict.
func keepsStoredResult(c *judgedCheck, stored *rollouts.CheckStatus) bool {
	switch {
	case stored.Result == rollouts.CheckFailed:
		return true
	case isFromEarlierStep(c.since, stored), c.discardsResult(stored):
		return false
	}
	done := stored.Result == rollouts.CheckPassed || stored.Result == rollouts.CheckSkipped
	return !c.Answered || c.isMeasuredOnce() && done
}

// isFromEarlierStep reports whether a stored result is of an earlier step than the one that began then.
func isFromEarlierStep(since time.Time, c *rollouts.CheckStatus) bool {
	return c.Time == nil || c.Time.Time.Before(since)
}

func storedCheck(a *rollouts.AnalysisStatus, name string) *rollouts.CheckStatus {
	if a == nil {
		return nil
	}
	i := slices.IndexFunc(a.Checks, func(c rollouts.CheckStatus) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &a.Checks[i]
}

// analysisOf is the analysis of the plan, or an empty one.
func analysisOf(f *facts) rollouts.Analysis {
	if f.release == nil || f.release.Analysis == nil {
		return rollouts.Analysis{}
	}
	return *f.release.Analysis
}

// judgeCheckOf is what a check means in a step.
func judgeCheckOf(f *facts, m MeasuredCheck, step int32) judge.Check {
	a, sharing := analysisOf(f), 0
	for _, other := range f.Measured {
		if measuresRequests(&other.Check) {
			sharing++
		}
	}
	c := judge.Check{
		Alpha: parseDecimal(a.Risk, defaultRisk) / float64(max(sharing, 1)), Traffic: versionsWithTraffic(f, step),
		Every: secondsOr(a.EverySeconds, defaultEvery), AtLeast: secondsOr(a.AtLeastSeconds, defaultAtLeast),
		Within: secondsOr(a.WithinSeconds, defaultWithin), Lag: m.Lag, Source: m.Source, Query: m.Query,
		FailAfter: 3,
	}
	// Where the clock of the source is ahead, the windows at the start of a step count requests that
	// were answered before.
	c.After = secondsOr(cmp.Or(m.Check.AfterSeconds, a.AfterSeconds), 0) + m.ClockAhead
	if isGateCheck(&m.Check) {
		c.Gate, c.FailAfter, c.AtLeast, c.After = true, 1, 0, 0
	}
	if m.Check.At == rollouts.AtBeforeTraffic {
		c.Traffic, c.AtLeast, c.After = judge.BeforeTraffic, 0, 0
	}
	if m.Check.FailAfter != nil {
		c.FailAfter = int(*m.Check.FailAfter)
	}
	if t := m.Check.Tolerance; t != nil {
		c.Ratio, c.Margin = parseDecimal(t.Ratio, 1.5), 0.001
		if t.Margin != nil {
			c.Margin, _ = rollouts.Share(*t.Margin)
		}
	}
	setRule(&c, &m.Check)
	return c
}

// setRule sets what is looked at.
func setRule(c *judge.Check, check *rollouts.Check) {
	switch {
	case check.SuccessRate != nil:
		share, _ := rollouts.Share(*check.SuccessRate)
		c.Rule, c.Objective = judge.SuccessRate, 1-share
	case check.Latency != nil:
		share, _ := rollouts.Share(check.Latency.Share)
		c.Rule, c.Objective, c.Below = judge.Latency, 1-share, float64(check.Latency.BelowMilliseconds)
	case check.AsGoodAs != "":
		c.Rule = judge.AsGoodAs
	case check.Query != nil && check.Query.PromQL == "":
		c.Rule = judge.Counts
	case check.Query != nil:
		c.Rule, c.Min, c.Max = judge.Number, parseLimit(check.Query.Min), parseLimit(check.Query.Max)
	case check.Job != nil:
		c.Rule, c.Min, c.FailAfter, c.AtLeast, c.After = judge.Number, new(1.0), 1, 0, 0
	default: // 1 is good, and 0 is not
		c.Rule, c.Min, c.After = judge.Number, new(1.0), 0
	}
}

func parseLimit(text *string) *float64 {
	if text == nil {
		return nil
	}
	return new(parseDecimal(text, 0))
}

// versionsWithTraffic is which versions get requests in a step. New pods that are not ready are no
// reason to skip a check.
func versionsWithTraffic(f *facts, index int32) judge.Traffic {
	step, share := f.release.Step(index), ""
	if f.w == nil || step == nil {
		return judge.Both
	}
	if step.Traffic != nil && f.Route != nil {
		share = *step.Traffic
	}
	switch {
	case onlyUpdateReady(f), share == "100%":
		return judge.NewOnly
	case plannedPods(f, index) == 0, share == "0%":
		return judge.StableOnly
	default:
		return judge.Both
	}
}
