// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"maps"
	"slices"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/judge"
	"github.com/weir-rollouts/weir/pkg/verb"
)

// createMeasuredDeployment creates a Deployment and a Rollout whose plan has checks.
func (s *schedule) createMeasuredDeployment() {
	s.analysis = &rollouts.Analysis{
		EverySeconds: new(int32(5)), AtLeastSeconds: new(int32(10)), WithinSeconds: new(int32(300)),
		OnFail: pick(s, "", rollouts.OnFailAbort, rollouts.OnFailWait, rollouts.OnFailReport),
		Checks: []rollouts.Check{{SuccessRate: new("99%")}},
	}
	if s.nextByte()%3 == 0 {
		s.measures.setShared("rate", rollouts.Check{SuccessRate: new("99%")})
		s.analysis.Checks = []rollouts.Check{{Name: "rate", Use: &rollouts.CheckRef{Kind: "Check", Name: "rate"}}}
	}
	if s.nextByte()%2 == 0 {
		s.analysis.Checks = append(s.analysis.Checks, rollouts.Check{AsGoodAs: rollouts.AsGoodAsStable, OnFail: rollouts.OnFailReport})
	}
	if s.nextByte()%3 == 0 {
		s.analysis.Checks = append(s.analysis.Checks, rollouts.Check{Name: "selftest", At: rollouts.AtBeforeTraffic, HTTP: &rollouts.HTTPCheck{Service: "web"}})
		s.measures.setAnswer("selftest", answer{from: s.now, value: 1})
	}
	s.healMeasurements()
	s.createDeployment()
}

// measuredMoves are the additional moves of measured schedules.
var measuredMoves = []move{
	{"requests", 3, func(s *schedule, b byte) {
		count := func(total, bad float64) judge.Count { return judge.Count{Total: total, Bad: bad} }
		pair := []judge.Pair{
			{New: count(1000, 1), Old: count(9000, 9)}, {New: count(100, 20), Old: count(900, 1)}, {New: count(100, 100), Old: count(900, 0)},
			{New: count(100, 30), Old: count(900, 270)}, {}, {New: count(1000, 0), Old: count(0, 0)}, {New: count(3, 0), Old: count(27, 1)}, {New: count(5000, 0), Old: count(5000, 0)},
		}[b%8]
		s.measures.rates = append(slices.Clone(s.measures.rates), rates{s.now, pair})
	}},
	{"source", 1, func(s *schedule, _ byte) {
		if s.measures.fault().Why != "" {
			s.measures.endOutage(s.now)
			return
		}
		s.measures.outages = append(slices.Clone(s.measures.outages), outage{from: s.now})
	}},
	{"answer", 1, func(s *schedule, b byte) {
		s.measures.setAnswer("selftest", []answer{{value: 1}, {value: 0}, {fault: "down"}}[b%3].at(s.now))
	}},
	{"override", 1, func(s *schedule, b byte) {
		c := verb.Command{Verb: []rollouts.Verb{rollouts.VerbPromote, rollouts.VerbRetry, rollouts.VerbJump}[b%3], User: "dana", Override: true}
		c.Full, c.Step = b%2 == 0 && c.Verb == rollouts.VerbPromote, int32(b>>2%4)
		s.applyVerb(app0, c)
	}},
	{"rejudge", 2, func(s *schedule, b byte) {
		s.editRollout(app0, func(r *rollouts.RolloutSpec) {
			_, release := r.Strategy.Active()
			release.Analysis = editAnalysis(s.analysis.DeepCopy(), b)
		})
	}},
	{"share", 1, func(s *schedule, b byte) {
		s.measures.setShared("rate", rollouts.Check{SuccessRate: new([]string{"99%", "95%", "90%"}[b%3])})
	}},
}

// editAnalysis plays a user who edits the checks of a plan, for example to get past them.
func editAnalysis(a *rollouts.Analysis, b byte) *rollouts.Analysis {
	c := &a.Checks[0]
	switch b % 10 {
	case 0:
		return nil
	case 1:
		a.Checks = a.Checks[1:]
	case 2:
		c.Name = "renamed"
	case 3:
		c.OnFail = rollouts.OnFailReport
	case 4:
		a.OnFail = rollouts.OnFailReport
	case 5:
		a.OnInconclusive = rollouts.OnInconclusivePass
	case 6:
		c.Steps = []int32{int32(b>>4)%3 + 1}
	case 7:
		a.Checks = append(a.Checks, rollouts.Check{PodsHealthy: rollouts.PodsHealthyOff})
	case 8:
		if c.SuccessRate != nil {
			c.SuccessRate = new("90%")
		}
		a.WithinSeconds = new(int32(60))
	}
	return a
}

// checkVerdicts checks the verdicts of the checks, and decisions that override them.
func (c *invariants) checkVerdicts(actor string, old, next *rollouts.Rollout) {
	n, a := len(old.Status.Decisions), next.Status.Analysis
	if is := next.Status.Decisions; len(is) > n && is[n].Via == rollouts.ViaAnalysis && is[n].Verb == rollouts.VerbAbort {
		c.checkAbortByChecks(actor, a)
	}
	c.checkRecord.checkNonePassedOver(c, actor, old, next)
}

// checkRecord records which checks a release must not leave behind without an override on record:
// the checks of each step, as the plan had them at any time in the attempt, even if they were
// edited later.
type checkRecord struct {
	// needed are the checks of each step. found are their results there.
	needed map[stepCheck]bool
	found  map[stepCheck]rollouts.CheckResult
	// overridden are the checks that decisions on record override.
	overridden map[stepCheck]bool
}

type stepCheck struct {
	name string
	step int32
}

func newCheckRecord() checkRecord {
	return checkRecord{map[stepCheck]bool{}, map[stepCheck]rollouts.CheckResult{}, map[stepCheck]bool{}}
}

func (d checkRecord) fork() checkRecord {
	return checkRecord{maps.Clone(d.needed), maps.Clone(d.found), maps.Clone(d.overridden)}
}

// checkNonePassedOver checks the invariant "no check passed over": no release leaves a step in
// which a check has failed or has no result, unless a decision on record overrides this check in
// this step. A failed check stays failed. A Rollout with such a step cannot be disabled.
func (d checkRecord) checkNonePassedOver(c *invariants, actor string, old, next *rollouts.Rollout) {
	was, is, a := old.Status.Active(), next.Status.Active(), next.Status.Analysis
	if was == nil || is == nil || !isReleasing(old) || !isReleasing(next) && !isFinishing(next) || was.UpdateRevision != is.UpdateRevision {
		clear(d.needed)
		clear(d.found)
		clear(d.overridden)
	}
	if is == nil {
		return
	}
	if was != nil && (is.CurrentStepIndex < was.CurrentStepIndex || is.CurrentStepIndex == was.CurrentStepIndex && slices.Index(order, is.State) < slices.Index(order, was.State)) {
		d.forgetFrom(is.CurrentStepIndex)
	}
	last := int64(0)
	for _, of := range old.Status.Decisions {
		last = max(last, of.ID)
	}
	for _, of := range next.Status.Decisions {
		for _, k := range of.OverriddenChecks {
			if of.ID > last {
				d.overridden[stepCheck{k.Name, k.Step}] = true
			}
		}
	}
	for at := range d.needed {
		found := d.found[at]
		if now := storedResult(old, next, at); now != "" {
			found = now
		}
		bars := found == "" || found == rollouts.CheckRunning || found == rollouts.CheckFailed
		if !bars || d.overridden[at] || a != nil && a.Overridden {
			continue
		}
		if was != nil && was.RolloutHash != is.RolloutHash && at.step > was.CurrentStepIndex && at.step < is.CurrentStepIndex {
			// The server accepts an edit of the steps only while no check is open. The release then continues at the step
			// of the edited plan that has as many pods, and never enters the steps before it.
			continue
		}
		if !isPastPause(was, at.step) && (isPastPause(is, at.step) || isFinishing(next)) {
			c.violate("no check passed over", "%s leaves step %d, of which check %s is %q", actor, at.step, at.name, found)
		}
		if next.Spec.Disabled && !old.Spec.Disabled && !isPastPause(is, at.step) {
			c.violate("no check passed over", "%s disables the rollout, while check %s of step %d is %q", actor, at.name, at.step, found)
		}
	}
	if isReleasing(next) {
		d.noteChecks(c, actor, old, next)
	}
}

// forgetFrom removes the results of steps that are repeated, except failures.
func (d checkRecord) forgetFrom(from int32) {
	maps.DeleteFunc(d.found, func(at stepCheck, found rollouts.CheckResult) bool {
		return at.step >= from && found != rollouts.CheckFailed
	})
	maps.DeleteFunc(d.overridden, func(at stepCheck, _ bool) bool { return at.step >= from })
}

// storedResult returns the stored result of a check in a step, or "" if the check was not measured
// there.
func storedResult(old, r *rollouts.Rollout, at stepCheck) rollouts.CheckResult {
	a, p := r.Status.Analysis, r.Status.Active()
	_, plan := r.Spec.Strategy.Active()
	if a == nil {
		return ""
	}
	since, step := a.StepSince, a.Step
	if plan.Analysis != nil && slices.ContainsFunc(plan.Analysis.Checks, func(k rollouts.Check) bool {
		return rollouts.CheckName(&k) == at.name && k.At == rollouts.AtBeforeTraffic
	}) {
		since, step = a.TrafficSince, p.CurrentStepIndex
		if was := old.Status.Analysis; was != nil && was.TrafficSince.Equal(since) && old.Status.Active() != nil {
			step = old.Status.Active().CurrentStepIndex // the pass may have left the step since
		}
	}
	for _, k := range a.Checks {
		if k.Name == at.name && step == at.step && since != nil && !k.Time.Before(since) {
			return k.Result
		}
	}
	return ""
}

// noteChecks records the checks that the plan has now, and their results.
func (d checkRecord) noteChecks(c *invariants, actor string, old, next *rollouts.Rollout) {
	p, a := next.Status.Active(), next.Status.Analysis
	_, plan := next.Spec.Strategy.Active()
	measuring := p.State == rollouts.StepMetricsAnalysis || p.State == rollouts.StepPaused
	began := a != nil && a.StepSince != nil && a.Step == p.CurrentStepIndex
	for i := range plan.Steps {
		step := int32(i + 1)
		if isPastPause(p, step) || step == p.CurrentStepIndex && measuring && !began {
			continue // the step is over, or it began without checks
		}
		for _, k := range decidingChecks(plan.Analysis, step) {
			d.needed[stepCheck{k, step}] = true
		}
	}
	if a == nil {
		return
	}
	for _, k := range a.Checks {
		at := stepCheck{k.Name, p.CurrentStepIndex}
		result := storedResult(old, next, at)
		if d.found[at] == rollouts.CheckFailed && result != "" && result != rollouts.CheckFailed && !d.overridden[at] {
			c.violate("no check passed over", "%s calls check %s %s, which had failed", actor, k.Name, result)
		}
		if result != "" {
			d.found[at] = result
		}
	}
}

// decidingChecks returns the checks of a step that decide about the release, except podsHealthy.
func decidingChecks(a *rollouts.Analysis, step int32) []string {
	var names []string
	if a == nil {
		return nil
	}
	for i := range a.Checks {
		k := &a.Checks[i]
		in := len(k.Steps) == 0 || slices.Contains(k.Steps, step)
		if name := rollouts.CheckName(k); in && k.PodsHealthy == "" && onFailOf(a, name) != rollouts.OnFailReport {
			names = append(names, name)
		}
	}
	return names
}

// isReleasing reports whether the release takes steps.
func isReleasing(r *rollouts.Rollout) bool {
	return r.Status.Phase == rollouts.PhaseProgressing && slices.Contains([]rollouts.Activity{rollouts.ActivityInRolling, rollouts.ActivityPaused}, r.Status.Activity())
}

func isFinishing(r *rollouts.Rollout) bool {
	return r.Status.Phase == rollouts.PhaseProgressing && r.Status.Activity() == rollouts.ActivityFinalising
}

// hasBadSample reports whether a request of the new version has failed, or a Service or a job has
// reported that the version is bad.
func (m *measuredWorld) hasBadSample() bool {
	for _, all := range m.answers {
		if slices.ContainsFunc(all, func(a answer) bool { return a.value == 0 && a.fault == "" }) {
			return true
		}
	}
	return slices.ContainsFunc(m.rates, func(r rates) bool { return r.pair.New.Bad > 0 })
}

// checkAbortByChecks checks that an abort by the checks has a reason.
func (c *invariants) checkAbortByChecks(actor string, a *rollouts.AnalysisStatus) {
	failed := func(k rollouts.CheckStatus) bool { return k.Result == rollouts.CheckFailed }
	switch {
	case a == nil || !slices.ContainsFunc(a.Checks, failed):
		c.violate("no unfounded verdict", "%s aborts, and no check has failed", actor)
	case a.Overridden:
		c.violate("no unfounded verdict", "%s aborts, and the checks are overridden", actor)
	case a.Checks[slices.IndexFunc(a.Checks, failed)].Name != "podsHealthy" && !c.w.measures.hasBadSample():
		c.violate("no unfounded verdict", "%s aborts a version that failed no request, nor a Service, nor a job", actor)
	}
}

// onFailOf returns the action of a failed check according to the plan.
func onFailOf(a *rollouts.Analysis, name string) rollouts.OnFail {
	for i := range a.Checks {
		if rollouts.CheckName(&a.Checks[i]) == name && a.Checks[i].OnFail != "" {
			return a.Checks[i].OnFail
		}
	}
	return a.OnFail
}
