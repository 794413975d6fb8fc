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

// Weir measures a release from the time when its first pods are ready until its end. Each step waits in
// StepMetricsAnalysis until its checks have passed. A check that fails in any later stage also ends the
// release.

// beginAnalysis records the time from which the new version may get requests. It changes nothing if the time
// is already recorded for this release.
func beginAnalysis(d *draft) {
	p := d.progress()
	a := d.status.Analysis
	current := a != nil && analysisMatchesRelease(a, *p)
	if d.plan.Analysis == nil || current && a.Since != nil {
		return
	}
	// Windows of equal length begin at the same times, so that one query of a source serves several Rollouts.
	// No window begins before the attempt, because its requests may belong to an earlier attempt.
	every := max(int64(secondsOr(analysisOf(d.facts).EverySeconds, defaultEvery)/time.Second), 1)
	since := metav1.Unix((RoundUp(d.Now).Unix()+every-1)/every*every, 0)
	d.status.Analysis = &rollouts.AnalysisStatus{Revision: p.UpdateRevision, UpdateTemplate: p.UpdateTemplate, Since: &since, Overridden: current && a.Overridden}
}

// analysisMatchesRelease reports whether the analysis in the status belongs to the template of the release,
// not to an earlier template.
func analysisMatchesRelease(a *rollouts.AnalysisStatus, p rollouts.Progress) bool {
	return a.Revision == p.UpdateRevision && a.UpdateTemplate == p.UpdateTemplate
}

// onInconclusiveOf returns what an inconclusive result of a check leads to.
func onInconclusiveOf(a *rollouts.Analysis, c *rollouts.Check) rollouts.OnInconclusive {
	return cmp.Or(c.OnInconclusive, a.OnInconclusive, rollouts.OnInconclusiveWait)
}

// beginStepAnalysis records the time from which the current step is measured.
func beginStepAnalysis(d *draft, _ *rollouts.Step) {
	beginAnalysis(d)
	a := d.status.Analysis
	if a == nil || d.stageUnchanged() && a.Step == d.progress().CurrentStepIndex && a.StepSince != nil && !IsAhead(a.StepSince, d.Now) {
		return
	}
	a.Step, a.StepSince = d.progress().CurrentStepIndex, stampAfterResults(a, d.Now)
}

// stampAfterResults returns the current time, and makes all stored results older than this time. A stored
// result may have a later time if the clock of an earlier leader was ahead.
func stampAfterResults(a *rollouts.AnalysisStatus, now time.Time) *metav1.Time {
	since := RoundUp(now)
	for i := range a.Checks {
		if c := &a.Checks[i]; !isFromEarlierStep(since.Time, c) {
			c.Time = new(metav1.NewTime(since.Add(-time.Second)))
		}
	}
	return &since
}

// judgeStepChecks makes a step wait while its checks are running. If a person must decide about a check, the
// pause of the step waits for the decision instead (judgeUndecidedChecks).
func judgeStepChecks(f facts, _ *rollouts.Step) Verdict {
	var open []string
	var wake time.Duration
	for _, c := range judgedChecks(f) {
		if c.verdict.Is != judge.Running || c.onFail == rollouts.OnFailReport || checksOverridden(f) {
			continue
		}
		open = append(open, c.name+": "+c.verdict.Why)
		wake = shorterWait(wake, c.verdict.Wake)
	}
	return openChecksVerdict(f, open, wake)
}

// shorterWait returns the shorter of two waits. Zero means that the wait has no known end.
func shorterWait(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// openChecksVerdict returns the verdict of a gate that waits for the open checks. The gate passes if there are
// none. wake is the time until the next check is judged again.
func openChecksVerdict(f facts, open []string, wake time.Duration) Verdict {
	if len(open) == 0 {
		return passVerdict
	}
	v := Verdict{Result: ResultWait, Message: strings.Join(open, "; ")}
	if wake > 0 {
		v.Until = f.Now.Add(wake)
	}
	return v
}

// setAnalysisMessage sets the message of a step whose checks are running.
func setAnalysisMessage(d *draft, _ *rollouts.Step) {
	d.setStepMessage("its checks are running: " + strings.Join(waitMessages(d.verdicts), "; "))
}

// judgeUndecidedChecks makes a paused step wait for a person if checks have failed or are inconclusive and the
// plan demands a decision. It also waits for a check that is running again.
func judgeUndecidedChecks(f facts, _ *rollouts.Step) Verdict {
	var open []string
	var wake time.Duration
	for _, c := range judgedChecks(f) {
		// An inconclusive check is running again when its source answers again.
		runsAgain := c.verdict.Is == judge.Running && c.onFail != rollouts.OnFailReport && !checksOverridden(f)
		if runsAgain || awaitsDecision(f, &c) {
			open = append(open, fmt.Sprintf("%s %s: %s", c.name, strings.ToLower(string(c.verdict.Is)), c.verdict.Why))
			wake = shorterWait(wake, c.verdict.Wake)
		}
	}
	return openChecksVerdict(f, open, wake)
}

// awaitsDecision reports whether a person must decide about the result of a check.
func awaitsDecision(f facts, c *judgedCheck) bool {
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

// judgePodCrashes makes a step of a plan without analysis wait while new pods crash. A timed pause does not end
// during this wait, but an approval ends it.
func judgePodCrashes(f facts, _ *rollouts.Step) Verdict {
	if f.Pods == nil || f.plan.Analysis != nil || f.PodsCheck != rollouts.OnFailWait || skipsGates(f) {
		return passVerdict
	}
	v := JudgePods(*f.Pods, f.Now)
	if v.Is != judge.Failed {
		return passVerdict
	}
	return Verdict{Result: ResultWait, Message: v.Why}
}

// isGateCheck reports whether a check is a gate: it waits until it passes, and never fails.
func isGateCheck(c *rollouts.Check) bool { return c.Gate != nil && *c.Gate }

// checksOverridden reports whether a user has overridden the checks, so that they only report for the rest of
// the attempt.
func checksOverridden(f facts) bool { return f.status.Analysis != nil && f.status.Analysis.Overridden }

// abortingCheck returns the check whose result aborts the release; nil if there is none.
func abortingCheck(f facts) *judgedCheck {
	if checksOverridden(f) {
		return nil
	}
	for _, c := range judgedChecks(f) {
		failed := c.verdict.Is == judge.Failed && c.onFail == rollouts.OnFailAbort
		inconclusive := c.verdict.Is == judge.Inconclusive && c.onInconclusive == rollouts.OnInconclusiveAbort && c.onFail == rollouts.OnFailAbort
		if failed || inconclusive {
			return &c
		}
	}
	return nil
}

// checkFailed reports whether a check aborts the release in progress.
func checkFailed(f facts) bool {
	return f.isDoing(rollouts.ActivityInRolling, rollouts.ActivityPaused) && f.hasReleasedTemplate() && f.progress().FinalisingStep == "" && abortingCheck(f) != nil
}

// abortByCheck aborts the release and stores the verdict of the check in the same status write. The server
// adds the decision to the record of the release.
func abortByCheck(d *draft) {
	c := abortingCheck(d.facts)
	storeCheck(d, c, false)
	AbortRelease(&d.status, RoundUp(d.Now))
	d.unstall(rollouts.StalledRefused)
	d.warn(EventAnalysisFailed, fmt.Sprintf("step(%d) %s: %s", d.progress().CurrentStepIndex, c.name, c.verdict.Why))
	recordAbortedRevision(d)
}

// EventAnalysisFailed is the reason of events about a failed check. EventCheckChanged is the reason of events
// about a check that was edited during a release.
const (
	EventAnalysisFailed = "AnalysisFailed"
	EventCheckChanged   = "CheckChanged"
)

// storeAnalysis stores the results of the checks in the status if a result or the stage has changed, or if the
// status is written for another reason. It also requests the next measurements.
func storeAnalysis(d *draft) {
	a := d.status.Analysis
	switch {
	case a == nil, a.Since == nil && d.status.Phase == rollouts.PhaseProgressing && analysisMatchesRelease(a, *d.progress()):
		return // nothing is measured yet
	case d.status.Phase != rollouts.PhaseProgressing, d.isDoing(rollouts.ActivityInitializing), !analysisMatchesRelease(a, *d.progress()):
		d.status.Analysis = nil
		return
	case d.isAbortingOrAborted():
		return
	}
	a.Checks = slices.DeleteFunc(a.Checks, func(c rollouts.CheckStatus) bool { return !planHasCheck(d.facts, c.Name) })
	all, written := judgedChecks(d.facts), !equality.Semantic.DeepEqual(d.Rollout.Status, d.status)
	for i := range all {
		storeCheck(d, &all[i], !written && all[i].isTextOutdated(storedCheck(a, all[i].name), d.Now))
		d.wakeIn(all[i].verdict.Wake)
		requestMeasurement(d, &all[i])
	}
	refreshCheckTexts(d, all)
}

// refreshCheckTexts stores the current texts and request counts of the checks if the status is written for
// another reason. The message of the step contains the same texts, so they cause no additional status
// writes: about one write for each window.
func refreshCheckTexts(d *draft, all []judgedCheck) {
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

// storeCheck stores the result of a check, and folds its measurements, in four cases: the result has changed,
// its stored text is outdated, the stage has changed, or there are many measurements.
func storeCheck(d *draft, c *judgedCheck, textOutdated bool) {
	a := d.status.Analysis
	stored := storedCheck(a, c.name)
	isNewResult := resultChanged(stored, c)
	if !isNewResult && !c.hasManyMeasurements() && !textOutdated && d.stageUnchanged() {
		return
	}
	next := newCheckStatus(c, stored, isNewResult, RoundUp(d.Now))
	checkEdited := stored != nil && c.wasChangedSince(stored)
	switch {
	case checkEdited:
		next.Carry, next.FoldedTo = c.mark(), nil // all windows of the attempt are requested again
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
	if isNewResult && !checkEdited && c.verdict.Is == judge.Failed && c.onFail != rollouts.OnFailAbort {
		d.warn(EventAnalysisFailed, fmt.Sprintf("step(%d) %s: %s", d.progress().CurrentStepIndex, c.name, c.verdict.Why))
	}
}

// resultChanged reports whether the result of a check differs from the stored result, or belongs to another
// step or to another version of the check.
func resultChanged(stored *rollouts.CheckStatus, c *judgedCheck) bool {
	return stored == nil || stored.Result != rollouts.CheckResult(c.verdict.Is) || isFromEarlierStep(c.since, stored) || c.discardsResult(stored) || c.wasChangedSince(stored)
}

// canFold reports whether the check has measurements that can be folded. A check has none until Weir has read
// the Check or ClusterCheck that it uses.
func (c *judgedCheck) canFold() bool {
	return c.Answered && c.Check.Use == nil && c.rule.Rule != "" && c.verdict.Is != judge.Failed
}

// hasManyMeasurements reports whether so many measurements have arrived since the last fold that they must be
// folded again.
func (c *judgedCheck) hasManyMeasurements() bool {
	return len(c.Data.Windows) > foldAfterWindows || len(c.Data.Samples) > foldAfterWindows
}

// maxTextAge is the maximum age of the stored text of a check that no message of a step shows. People look at a
// release every few minutes. One write in five minutes costs less than the controller's lease.
const maxTextAge = 5 * time.Minute

// isTextOutdated reports whether the text of an open check has changed and the stored text is at least
// maxTextAge old. Each write of the text also folds the measurements, so FoldedTo is not older than the last
// write.
func (c *judgedCheck) isTextOutdated(stored *rollouts.CheckStatus, now time.Time) bool {
	open := c.verdict.Is == judge.Running || c.verdict.Is == judge.Inconclusive
	if !open || stored == nil || stored.Why == c.verdict.Why || stored.Time == nil {
		return false
	}
	lastWrite := stored.Time.Time
	if folded := stored.FoldedTo; folded != nil && folded.After(lastWrite) {
		lastWrite = folded.Time
	}
	return now.Sub(lastWrite) >= maxTextAge
}

// newCheckStatus returns the status of a check to store. It keeps the time of the stored result unless the
// result is new.
func newCheckStatus(c *judgedCheck, stored *rollouts.CheckStatus, isNewResult bool, at metav1.Time) rollouts.CheckStatus {
	next := rollouts.CheckStatus{Name: c.name, Result: rollouts.CheckResult(c.verdict.Is), Time: &at, Why: c.verdict.Why, ChangedAt: c.changedAt}
	if c.continuesEvidence(stored) {
		next.FoldedTo, next.Carry = stored.FoldedTo, stored.Carry
	}
	if !isNewResult {
		next.Time = stored.Time
	}
	if e := c.verdict.Evidence; e.New.Total+e.Old.Total > 0 {
		next.New = &rollouts.RequestCount{Total: int64(e.New.Total), Bad: int64(e.New.Bad)}
		next.Old = &rollouts.RequestCount{Total: int64(e.Old.Total), Bad: int64(e.Old.Bad)}
	}
	return next
}

// foldMeasurements stores the evidence that follows from all measurements until now, so that these measurements
// are not requested again.
func foldMeasurements(c *judgedCheck, next *rollouts.CheckStatus, now time.Time) {
	carry := judge.Fold(c.rule, c.data(next), c.since, now.Add(-c.Lag))
	next.Carry = c.mark() + carry.String()
	if !carry.Until.IsZero() {
		until := metav1.NewTime(carry.Until.Truncate(time.Second))
		next.FoldedTo = &until
	}
}

// requestMeasurement requests the next measurements of a check if it needs any. The check podsHealthy needs none,
// because each pass observes the pods. An inconclusive check is measured further, because a user may repair
// its cause and a job may end late.
func requestMeasurement(d *draft, c *judgedCheck) {
	a := d.status.Analysis
	from := a.Since.Time
	isDone := c.isMeasuredOnce() && (c.verdict.Is == judge.Passed || c.verdict.Is == judge.Skipped)
	if stored := storedCheck(a, c.name); stored.FoldedTo != nil {
		from = stored.FoldedTo.Time
	}
	if c.rule.Rule == "" || c.verdict.Is == judge.Failed || isDone && c.isBeforeTraffic() {
		return
	}
	d.questions = append(d.questions, MeasurementRequest{
		Check: c.Planned, Began: a.Since.Time, From: from, Every: c.rule.Every, Since: c.since, Step: c.step, Passed: isDone, Evidence: c.verdict.Evidence,
	})
}
