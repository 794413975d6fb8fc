// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/judge"
)

// A release is measured from the time when its first pods are ready until its end. Each step
// waits in StepMetricsAnalysis until its checks have passed. A check that fails in any later stage
// ends the release.

// beginAnalysis records that the new version may get requests from now on.
func beginAnalysis(d *draft) {
	p := d.progress()
	a := d.status.Analysis
	current := a != nil && analysisMatchesRelease(a, *p)
	if d.release.Analysis == nil || current && a.Since != nil {
		return
	}
	// Windows of equal length begin at the same times, so that a source is queried once for several
	// Rollouts. No window begins before the attempt, because its requests may be those of an earlier attempt.
	every := max(int64(seconds(analysisOf(d.facts).EverySeconds, defaultEvery)/time.Second), 1)
	since := metav1.Unix((RoundUp(d.Now).Unix()+every-1)/every*every, 0)
	d.status.Analysis = &rollouts.AnalysisStatus{Revision: p.UpdateRevision, UpdateTemplate: p.UpdateTemplate, Since: &since, Overridden: current && a.Overridden}
}

// analysisMatchesRelease reports whether the analysis in the status belongs to the template of the
// release, and not to an earlier one.
func analysisMatchesRelease(a *rollouts.AnalysisStatus, p rollouts.Progress) bool {
	return a.Revision == p.UpdateRevision && a.UpdateTemplate == p.UpdateTemplate
}

func onInconclusiveOf(a *rollouts.Analysis, c *rollouts.Check) rollouts.OnInconclusive {
	return cmp.Or(c.OnInconclusive, a.OnInconclusive, rollouts.OnInconclusiveWait)
}

// beginStepAnalysis records that the measurement of the step begins.
func beginStepAnalysis(d *draft, _ *rollouts.Step) {
	beginAnalysis(d)
	a := d.status.Analysis
	if a == nil || d.stageUnchanged() && a.Step == d.progress().CurrentStepIndex && a.StepSince != nil && !IsAhead(a.StepSince, d.Now) {
		return
	}
	a.Step, a.StepSince = d.progress().CurrentStepIndex, stampAfterResults(a, d.Now)
}

// stampAfterResults returns the current time, and makes all stored results older than that. A stored result
// may have a later time if the clock of an earlier leader was ahead.
func stampAfterResults(a *rollouts.AnalysisStatus, now time.Time) *metav1.Time {
	since := RoundUp(now)
	for i := range a.Checks {
		if c := &a.Checks[i]; !isFromEarlierStep(since.Time, c) {
			c.Time = new(metav1.NewTime(since.Add(-time.Second)))
		}
	}
	return &since
}

// judgeStepChecks waits until the checks of the step are decided. A check about which a person must decide holds
// the pause of the step instead (checksDecided).
func judgeStepChecks(f *facts, _ *rollouts.Step) Verdict {
	var open []string
	var wake time.Duration
	for _, c := range checks(f) {
		if c.verdict.Is != judge.Running || c.onFail == rollouts.OnFailReport || checksOverridden(f) {
			continue
		}
		open = append(open, c.name+": "+c.verdict.Why)
		wake = shorterWait(wake, c.verdict.Wake)
	}
	return openChecksVerdict(f, open, wake)
}

// shorterWait returns the shorter of two waits. A wait of zero has no end.
func shorterWait(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// openChecksVerdict waits for the checks that are open.
func openChecksVerdict(f *facts, open []string, wake time.Duration) Verdict {
	if len(open) == 0 {
		return passVerdict
	}
	v := Verdict{Result: ResultWait, Message: strings.Join(open, "; ")}
	if wake > 0 {
		v.Until = f.Now.Add(wake)
	}
	return v
}

// setAnalysisMessage sets the message of a step that is measured.
func setAnalysisMessage(d *draft, _ *rollouts.Step) {
	d.setStepMessage("its metrics are measured: " + strings.Join(waitMessages(d.verdicts), "; "))
}

// judgeUndecidedChecks holds the pause of a step for a person while checks have failed or are inconclusive, as the
// plan demands.
func judgeUndecidedChecks(f *facts, _ *rollouts.Step) Verdict {
	var open []string
	var wake time.Duration
	for _, c := range checks(f) {
		// An inconclusive check runs again if its source answers again.
		again := c.verdict.Is == judge.Running && c.onFail != rollouts.OnFailReport && !checksOverridden(f)
		if again || awaitsDecision(f, &c) {
			open = append(open, fmt.Sprintf("%s %s: %s", c.name, strings.ToLower(string(c.verdict.Is)), c.verdict.Why))
			wake = shorterWait(wake, c.verdict.Wake)
		}
	}
	return openChecksVerdict(f, open, wake)
}

func awaitsDecision(f *facts, c *checked) bool {
	switch {
	case checksOverridden(f):
		return false
	case c.verdict.Is == judge.Failed:
		return c.onFail == rollouts.OnFailWait
	case c.verdict.Is == judge.Inconclusive:
		return c.onInconclusive != rollouts.OnInconclusivePass && c.onFail != rollouts.OnFailReport
	default:
		return false
	}
}

// judgePodCrashes waits while the new pods of a plan without analysis crash: a timed pause does not end meanwhile,
// but an approval ends it.
func judgePodCrashes(f *facts, step *rollouts.Step) Verdict {
	if f.Pods == nil || f.release.Analysis != nil || f.PodsCheck != rollouts.OnFailWait || skipsGates(f, step) {
		return passVerdict
	}
	v := JudgePods(*f.Pods, f.Now)
	if v.Is != judge.Failed {
		return passVerdict
	}
	return Verdict{Result: ResultWait, Message: v.Why}
}

// isGateCheck reports whether a check that is not passed waits, and never fails.
func isGateCheck(c *rollouts.Check) bool { return c.Gate != nil && *c.Gate }

// checksOverridden reports whether checks only report for the rest of the attempt.
func checksOverridden(f *facts) bool { return f.status.Analysis != nil && f.status.Analysis.Overridden }

// abortingCheck returns the check that ends the release; nil if there is none.
func abortingCheck(f *facts) *checked {
	if checksOverridden(f) {
		return nil
	}
	for _, c := range checks(f) {
		failed := c.verdict.Is == judge.Failed && c.onFail == rollouts.OnFailAbort
		inconclusive := c.verdict.Is == judge.Inconclusive && c.onInconclusive == rollouts.OnInconclusiveAbort && c.onFail == rollouts.OnFailAbort
		if failed || inconclusive {
			return &c
		}
	}
	return nil
}

// checkFailed reports whether a check ends the release under way.
func checkFailed(f *facts) bool {
	return f.isDoing(rollouts.ActivityInRolling, rollouts.ActivityPaused) && f.hasReleasedTemplate() && f.progress().FinalisingStep == "" && abortingCheck(f) != nil
}

// abortByCheck aborts the release, in one write with the verdict. The server puts the
// decision on record.
func abortByCheck(d *draft) {
	c := abortingCheck(d.facts)
	storeCheck(d, c, false)
	AbortRelease(&d.status, RoundUp(d.Now))
	d.unstall(rollouts.StalledRefused)
	d.warn(EventAnalysisFailed, fmt.Sprintf("step(%d) %s: %s", d.progress().CurrentStepIndex, c.name, c.verdict.Why))
	recordAbortedRevision(d)
}

// EventAnalysisFailed is the reason of events about a failed check, and EventCheckChanged of events about a
// check that was edited in an attempt.
const (
	EventAnalysisFailed = "AnalysisFailed"
	EventCheckChanged   = "CheckChanged"
)

// storeAnalysis stores the results of the checks if a result or the stage changes, or if the status is written
// anyway. It also asks what must be measured next.
func storeAnalysis(d *draft) {
	a := d.status.Analysis
	switch {
	case a == nil, a.Since == nil && d.status.Phase == rollouts.PhaseProgressing && analysisMatchesRelease(a, *d.progress()):
		return // nothing is measured yet
	case d.status.Phase != rollouts.PhaseProgressing, d.isDoing(rollouts.ActivityInitializing), !analysisMatchesRelease(a, *d.progress()):
		d.status.Analysis = nil
		return
	case d.isAborted():
		return
	}
	a.Checks = slices.DeleteFunc(a.Checks, func(c rollouts.CheckStatus) bool { return !inPlan(d.facts, c.Name) })
	all, written := checks(d.facts), !equality.Semantic.DeepEqual(d.Rollout.Status, d.status)
	for i := range all {
		storeCheck(d, &all[i], !written && all[i].isTextOutdated(storedCheck(a, all[i].name), d.Now))
		d.wakeIn(all[i].verdict.Wake)
		requestMeasurement(d, &all[i])
	}
	refreshCheckTexts(d, all)
}

// refreshCheckTexts stores what the checks say now if the status is written anyway. The message of a
// step that is measured has the same texts, and evidence changes once in a window, so that texts
// cause no writes beyond those of the message: about one in each window.
func refreshCheckTexts(d *draft, all []checked) {
	if equality.Semantic.DeepEqual(d.Rollout.Status, d.status) {
		return
	}
	for i := range all {
		stored := storedCheck(d.status.Analysis, all[i].name)
		if stored != nil && stored.Result == rollouts.CheckResult(all[i].verdict.Is) {
			fresh := newCheckStatus(&all[i], stored, false, metav1.Time{})
			stored.Why, stored.New, stored.Old = fresh.Why, fresh.New, fresh.Old
		}
	}
}

// foldAfterWindows is the number of windows after which the measurements are folded.
const foldAfterWindows = 240

// storeCheck stores the result of a check, and folds its measurements, in four cases: the result is news, its
// text is outdated, the stage changes, or there are many measurements.
func storeCheck(d *draft, c *checked, outdated bool) {
	a := d.status.Analysis
	stored := storedCheck(a, c.name)
	news := resultChanged(stored, c)
	if !news && !c.hasManyMeasurements() && !outdated && d.stageUnchanged() {
		return
	}
	next := newCheckStatus(c, stored, news, RoundUp(d.Now))
	changed := stored != nil && c.changed(stored)
	switch {
	case changed:
		next.Carry, next.FoldedTo = c.mark(), nil // all windows of the attempt are asked for again
		effect := "it is measured again"
		if c.verdict.Is == judge.Failed {
			effect = "it stays failed in this attempt"
		}
		d.warn(EventCheckChanged, fmt.Sprintf("step(%d) check %s was edited during the release; %s", d.progress().CurrentStepIndex, c.name, effect))
	case c.canFold():
		foldMeasurements(c, &next, d.Now)
	case c.planned != "" && next.Carry == "", c.used != "":
		_, evidence, _ := strings.Cut(next.Carry, " ")
		next.Carry = c.mark() + evidence
	}
	if stored != nil {
		*stored = next
	} else {
		a.Checks = append(a.Checks, next)
	}
	if news && !changed && c.verdict.Is == judge.Failed && c.onFail != rollouts.OnFailAbort {
		d.warn(EventAnalysisFailed, fmt.Sprintf("step(%d) %s: %s", d.progress().CurrentStepIndex, c.name, c.verdict.Why))
	}
}

// resultChanged reports whether the result of a check differs from the stored one, or is about another step or
// another version of the check.
func resultChanged(stored *rollouts.CheckStatus, c *checked) bool {
	return stored == nil || stored.Result != rollouts.CheckResult(c.verdict.Is) || isFromEarlierStep(c.since, stored) || c.edited(stored) || c.changed(stored)
}

// canFold reports whether the check has measurements that can be folded. A check has none while the
// Check or ClusterCheck that it uses was not read.
func (c *checked) canFold() bool {
	return c.Answered && c.Check.Use == nil && c.rule.Rule != "" && c.verdict.Is != judge.Failed
}

// hasManyMeasurements reports whether there are many measurements since the last fold.
func (c *checked) hasManyMeasurements() bool {
	return len(c.Data.Windows) > foldAfterWindows || len(c.Data.Samples) > foldAfterWindows
}

// maxTextAge is the greatest age of a stored text that no message of a step shows. People look at a release
// every few minutes. One write in five minutes costs less than the lease of the controller.
const maxTextAge = 5 * time.Minute

// isTextOutdated reports whether the text of an open check has changed, and the stored text is at least textAge
// old. Each write of the text also folds the measurements, so FoldedTo has the time of the last one.
func (c *checked) isTextOutdated(stored *rollouts.CheckStatus, now time.Time) bool {
	open := c.verdict.Is == judge.Running || c.verdict.Is == judge.Inconclusive
	if !open || stored == nil || stored.Why == c.verdict.Why || stored.Time == nil {
		return false
	}
	since := stored.Time.Time
	if to := stored.FoldedTo; to != nil && to.After(since) {
		since = to.Time
	}
	return now.Sub(since) >= maxTextAge
}

// newCheckStatus returns the status of a check, as it is stored.
func newCheckStatus(c *checked, stored *rollouts.CheckStatus, news bool, at metav1.Time) rollouts.CheckStatus {
	next := rollouts.CheckStatus{Name: c.name, Result: rollouts.CheckResult(c.verdict.Is), Time: &at, Why: c.verdict.Why, ChangedAt: c.changedAt}
	if c.continues(stored) {
		next.FoldedTo, next.Carry = stored.FoldedTo, stored.Carry
	}
	if !news {
		next.Time = stored.Time
	}
	if e := c.verdict.Evidence; e.New.Total+e.Old.Total > 0 {
		next.New = &rollouts.RequestCount{Total: int64(e.New.Total), Bad: int64(e.New.Bad)}
		next.Old = &rollouts.RequestCount{Total: int64(e.Old.Total), Bad: int64(e.Old.Bad)}
	}
	return next
}

// foldMeasurements replaces the measurements until now by the evidence that they give.
func foldMeasurements(c *checked, next *rollouts.CheckStatus, now time.Time) {
	carry := judge.Fold(c.rule, c.data(next), c.since, now.Add(-c.Lag))
	next.Carry = c.mark() + carry.String()
	if !carry.Until.IsZero() {
		until := metav1.NewTime(carry.Until.Truncate(time.Second))
		next.FoldedTo = &until
	}
}

// requestMeasurement adds the question about a check, unless nothing must be measured for it. The pods of podsHealthy are
// observed in each pass. An inconclusive check is measured further: a user may repair its cause, and a job
// may end late.
func requestMeasurement(d *draft, c *checked) {
	a := d.status.Analysis
	from, passed := a.Since.Time, c.once() && (c.verdict.Is == judge.Passed || c.verdict.Is == judge.Skipped)
	if stored := storedCheck(a, c.name); stored.FoldedTo != nil {
		from = stored.FoldedTo.Time
	}
	if c.rule.Rule == "" || c.verdict.Is == judge.Failed || passed && c.before() {
		return
	}
	d.questions = append(d.questions, MeasurementRequest{
		Check: c.Planned, Began: a.Since.Time, From: from, Every: c.rule.Every, Since: c.since, Step: c.step, Passed: passed, Evidence: c.verdict.Evidence,
	})
}
