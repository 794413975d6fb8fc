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

// MeasuredCheck is a check of the plan with its measurements.
type MeasuredCheck struct {
	// Planned is the check as the plan has it. In Check, the reference to a Check or ClusterCheck is
	// replaced by the content of that object.
	Planned, Check rollouts.Check
	// Source and Query appear in messages.
	Source, Query string
	// Lag is the minimal age of a window that is judged: the source may still receive samples for younger ones.
	Lag time.Duration
	// Delay is the message that the source is behind, or that its clock differs from Weir's; empty if neither.
	Delay string
	// ClockAhead is how far the clock of the source is ahead of Weir's clock.
	ClockAhead time.Duration
	// Answered reports whether the check was measured, or its trial was, since this process started.
	// Until then the stored result stays.
	Answered bool
	// IsTrial reports whether Data is from a trial, which queries data of the day before.
	IsTrial bool
	// Data are the new measurements. Their Carry is empty: the status has the earlier evidence.
	Data judge.Data
}

// MeasurementRequest asks for the measurements of a check.
type MeasurementRequest struct {
	Check rollouts.Check
	// Began is when the attempt began. From is the start of the first requested window.
	Began, From time.Time
	Every       time.Duration
	// Since is when the measurement of the step began.
	Since time.Time
	// Step is the number of the step, from 1.
	Step int32
	// Passed reports whether the check has passed in the step, so that no Job is needed.
	Passed bool
	// Try reports whether this is a trial: it queries earlier data of the stable version, to show
	// whether the check can be measured.
	Try bool
	// Evidence is the evidence so far.
	Evidence judge.Evidence
}

// judgedCheck is a check with its verdict in the current step.
type judgedCheck struct {
	MeasuredCheck
	name           string
	step           int32
	since          time.Time
	onFail         rollouts.OnFail
	onInconclusive rollouts.OnInconclusive
	// planned and used are the digests in the mark of the check.
	planned, used string
	// changedAt is when the check was last edited in this attempt; nil if it was not.
	changedAt *metav1.Time
	// canFail reports whether the check was not a gate at some time in this attempt. Then an edit does not make
	// it a gate, which never fails, before the next attempt.
	canFail bool
	rule    judge.Check
	verdict judge.Verdict
}

// The defaults of analysis.
const (
	defaultRisk    = 0.001
	defaultEvery   = 30 * time.Second
	defaultAtLeast = time.Minute
	defaultWithin  = time.Hour
)

// secondsOr returns value in seconds; defaultValue if value is nil.
func secondsOr(value *int32, defaultValue time.Duration) time.Duration {
	if value == nil {
		return defaultValue
	}
	return time.Duration(*value) * time.Second
}

// parseDecimal returns the number in text; defaultValue if text is nil. Validation has checked the format.
func parseDecimal(text *string, defaultValue float64) float64 {
	if text == nil {
		return defaultValue
	}
	n, err := strconv.ParseFloat(*text, 64)
	if err != nil {
		return defaultValue
	}
	return n
}

// measuresRequests reports whether a check is judged by counts of requests. All such checks share the risk.
func measuresRequests(c *rollouts.Check) bool {
	return c.SuccessRate != nil || c.Latency != nil || c.AsGoodAs != "" || c.Query != nil && c.Query.PromQL == ""
}

// judgedChecks returns the checks of the measured step with their verdicts, in the order of the plan.
// The measured step may be over already. There are no checks before the first measurement and in a
// plan without analysis.
func judgedChecks(f facts) []judgedCheck {
	a := f.status.Analysis
	if a == nil || f.plan == nil || f.plan.Analysis == nil {
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

// judgeCheckInStep returns a check with its verdict in a step whose measurement began at time since.
func judgeCheckInStep(f facts, m MeasuredCheck, step int32, since time.Time) judgedCheck {
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
	c.canFail = m.Check.Use == nil && !isGateCheck(&m.Check)
	if stored := storedCheck(f.status.Analysis, c.name); stored != nil {
		if c.changedAt = stored.ChangedAt; c.wasChangedSince(stored) {
			c.changedAt = new(RoundUp(f.Now))
		}
		mark, _, _ := strings.Cut(stored.Carry, " ")
		c.canFail = c.canFail || strings.HasSuffix(mark, markCanFail)
	}
	if c.canFail {
		m.Check.Gate = nil
	}
	c.rule = judgeCheckOf(f, m, step)
	c.verdict = verdictOf(f, &c)
	return c
}

// digest returns the SHA-256 digest of Go values.
func digest(all ...any) string {
	sum := sha256.Sum256([]byte(dump.ForHash(all)))
	return hex.EncodeToString(sum[:])
}

// isBeforeTraffic reports whether the check is measured before the step routes traffic.
func (c *judgedCheck) isBeforeTraffic() bool { return c.Check.At == rollouts.AtBeforeTraffic }

// isMeasuredOnce reports whether the check is not measured again in a step that it has passed.
func (c *judgedCheck) isMeasuredOnce() bool { return c.Check.Job != nil || c.isBeforeTraffic() }

// data returns the measurements together with the stored evidence of the check. A check that is
// measured once in each step does not use measurements of earlier steps.
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

// continuesEvidence reports whether the stored evidence still counts for the check.
func (c *judgedCheck) continuesEvidence(stored *rollouts.CheckStatus) bool {
	return stored != nil && !c.discardsResult(stored) && (!c.isMeasuredOnce() || !isFromEarlierStep(c.since, stored))
}

// markPrefix begins each mark. Evidence that an earlier version of Weir stored has no mark. It does not
// count, and it does not show whether the check was edited.
const markPrefix = "sha256:"

// markCanFail ends the mark of a check that was not a gate at some time in the attempt.
const markCanFail = "+can-fail"

// mark returns the prefix of the check's stored evidence. It has the digest of the check together with
// the settings of its plan. If the check uses a Check or ClusterCheck, it also has the digest of the
// content of that object. An edit of the check changes the mark, so evidence from before the edit does
// not count. The digests are complete SHA-256 digests: with 32 bits, a user could find in seconds
// another check with the same mark, which would inherit the evidence.
func (c *judgedCheck) mark() string {
	mark := markPrefix + c.planned + "+" + c.used
	if c.canFail {
		mark += markCanFail
	}
	return mark + " "
}

// hasMarkOf reports whether a stored result belongs to the current version of the check. Until Weir has
// read the used Check or ClusterCheck after a restart, its digest is unknown and counts as equal.
func (c *judgedCheck) hasMarkOf(stored *rollouts.CheckStatus) bool {
	mark, _, _ := strings.Cut(stored.Carry, " ")
	planned, used, _ := strings.Cut(strings.TrimSuffix(mark, markCanFail), "+")
	return planned == markPrefix+c.planned && (used == c.used || used == "" || c.used == "")
}

// wasChangedSince reports whether the check was edited after the result was stored.
func (c *judgedCheck) wasChangedSince(stored *rollouts.CheckStatus) bool {
	return strings.HasPrefix(stored.Carry, markPrefix) && !c.hasMarkOf(stored)
}

// discardsResult reports whether a stored result does not count because the check was edited. A failed
// result always counts: a failed check stays failed in its attempt.
func (c *judgedCheck) discardsResult(stored *rollouts.CheckStatus) bool {
	return stored.Result != rollouts.CheckFailed && stored.Carry != "" && !c.hasMarkOf(stored)
}

// changedPrefix returns the beginning of the message of a check that was edited in this attempt.
func changedPrefix(at *metav1.Time) string {
	if at == nil {
		return ""
	}
	return "changed at " + at.UTC().Format(time.TimeOnly) + " during the release; "
}

// podsHealthy is the name of the check of the new pods.
const podsHealthy = "podsHealthy"

// planHasCheck reports whether the plan has a check with this name.
func planHasCheck(f facts, name string) bool {
	all := analysisOf(f).Checks
	isOff := slices.ContainsFunc(all, func(c rollouts.Check) bool { return c.PodsHealthy == rollouts.PodsHealthyOff })
	return name == podsHealthy && !isOff || slices.ContainsFunc(all, func(c rollouts.Check) bool {
		return c.PodsHealthy == "" && rollouts.CheckName(&c) == name
	})
}

// judgePodsCheck returns the check podsHealthy with its verdict. Every analysis has this check unless it
// switches the check off. The result has at most one element.
func judgePodsCheck(f facts) []judgedCheck {
	c := judgedCheck{name: podsHealthy, onInconclusive: rollouts.OnInconclusiveWait, since: f.status.Analysis.StepSince.Time}
	c.onFail = cmp.Or(analysisOf(f).OnFail, rollouts.OnFailAbort)
	for _, check := range analysisOf(f).Checks {
		if check.PodsHealthy == "" {
			continue
		}
		c.onFail = cmp.Or(check.OnFail, c.onFail)
		if check.PodsHealthy == rollouts.PodsHealthyOff {
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

// verdictOf returns the verdict about a check: the stored result if it still holds, and otherwise the
// result of its measurements.
func verdictOf(f facts, c *judgedCheck) judge.Verdict {
	stored := storedCheck(f.status.Analysis, c.name)
	var v judge.Verdict
	if stored != nil && keepsStoredResult(c, stored) {
		v = judge.Verdict{Is: judge.State(stored.Result), Why: strings.TrimPrefix(stored.Why, changedPrefix(stored.ChangedAt))}
	} else {
		v = judge.Judge(c.rule, c.data(stored), c.since, f.Now)
	}
	if v.Is == judge.Skipped && c.used != "" && c.changedAt != nil {
		// A user who may only edit the Check must not let a step go past it, by a check that has nothing to judge here.
		v.Is = judge.Inconclusive
	}
	open := v.Is == judge.Running || v.Is == judge.Inconclusive
	switch {
	case v.Is == judge.Running && f.w != nil && f.w.Replicas == 0:
		v.Why = "nothing is measured, because the workload has no pods"
	case open && c.Delay != "" && c.Data.Fault.Why == "":
		v.Why = c.Delay + ": " + v.Why
	}
	v.Why = truncateWhy(changedPrefix(c.changedAt) + v.Why)
	return v
}

// maxWhy is the maximal length of the message of a check in the status.
const maxWhy = 256

// truncateWhy truncates the message of a check for the status.
func truncateWhy(why string) string {
	if len(why) <= maxWhy {
		return why
	}
	return strings.ToValidUTF8(why[:maxWhy-len("…")], "") + "…"
}

// keepsStoredResult reports whether the stored result of a check is its verdict. A failed check stays
// failed in its attempt, and no result changes before the source was queried.
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

// isFromEarlierStep reports whether a result was stored before the step began at time since.
func isFromEarlierStep(since time.Time, c *rollouts.CheckStatus) bool {
	return c.Time == nil || c.Time.Time.Before(since)
}

// storedCheck returns the stored result of a check; nil if there is none.
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

// analysisOf returns the analysis of the plan; an empty analysis if the plan has none.
func analysisOf(f facts) rollouts.Analysis {
	if f.plan == nil || f.plan.Analysis == nil {
		return rollouts.Analysis{}
	}
	return *f.plan.Analysis
}

// judgeCheckOf returns the rule by which package judge judges a check in a step.
func judgeCheckOf(f facts, m MeasuredCheck, step int32) judge.Check {
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
	// If the clock of the source is ahead, the first windows of a step have requests and numbers from
	// before the step.
	c.After = secondsOr(cmp.Or(m.Check.AfterSeconds, a.AfterSeconds), 0) + m.ClockAhead
	if isGateCheck(&m.Check) {
		c.Gate, c.FailAfter, c.AtLeast, c.After = true, 1, 0, m.ClockAhead
	}
	if m.Check.At == rollouts.AtBeforeTraffic {
		c.Traffic, c.AtLeast, c.After = judge.BeforeTraffic, 0, m.ClockAhead
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

// setRule sets the rule of a check and its thresholds.
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
	default: // the measurement is 1 if the check is satisfied, and otherwise 0
		c.Rule, c.Min, c.After = judge.Number, new(1.0), 0
	}
}

// parseLimit returns the number in text; nil if text is nil.
func parseLimit(text *string) *float64 {
	if text == nil {
		return nil
	}
	return new(parseDecimal(text, 0))
}

// versionsWithTraffic returns which versions get requests in a step. A check is skipped only if the plan gives it
// nothing to judge. Pods that are not ready count, and a workload of size 0 does not skip a check. Otherwise a user
// who may only scale the workload, or delete pods, could let a release go past its checks.
func versionsWithTraffic(f facts, index int32) judge.Traffic {
	step, share := f.plan.Step(index), ""
	if f.w == nil || step == nil {
		return judge.Both
	}
	if step.Traffic != nil && f.Route != nil {
		share = *step.Traffic
	}
	switch {
	case onlyUpdateReady(f) && f.w.StableReplicas == 0, share == "100%":
		return judge.NewOnly
	case onlyUpdateReady(f):
		return judge.StableUnready
	case f.w.Replicas > 0 && plannedPods(f, index) == 0, share == "0%":
		return judge.StableOnly
	default:
		return judge.Both
	}
}
