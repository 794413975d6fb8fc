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

// measured is a Deployment whose plan has checks.
func (s *schedule) measured() {
	s.analysis = &rollouts.Analysis{
		EverySeconds: new(int32(5)), AtLeastSeconds: new(int32(10)), WithinSeconds: new(int32(300)),
		OnFail: pick(s, "", rollouts.OnFailAbort, rollouts.OnFailWait, rollouts.OnFailReport),
		Checks: []rollouts.Check{{SuccessRate: new("99%")}},
	}
	if s.next()%3 == 0 {
		s.measures.setShared("rate", rollouts.Check{SuccessRate: new("99%")})
		s.analysis.Checks = []rollouts.Check{{Name: "rate", Use: &rollouts.CheckRef{Kind: "Check", Name: "rate"}}}
	}
	if s.next()%2 == 0 {
		s.analysis.Checks = append(s.analysis.Checks, rollouts.Check{AsGoodAs: rollouts.AsGoodAsStable, OnFail: rollouts.OnFailReport})
	}
	if s.next()%3 == 0 {
		s.analysis.Checks = append(s.analysis.Checks, rollouts.Check{Name: "selftest", At: rollouts.AtBeforeTraffic, HTTP: &rollouts.HTTPCheck{Service: "web"}})
		s.measures.setAnswer("selftest", answer{from: s.now, value: 1})
	}
	s.healMeasurements()
	s.deployed()
}

// measuredMoves are for worlds that are measured.
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

// editAnalysis is what a user makes of the checks of a plan: first those that may be a way past them.
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

// checkVerdicts judges what the checks of a plan decide, and what is decided despite them.
func (c *invariants) checkVerdicts(actor string, old, next *rollouts.Rollout) {
	n, a := len(old.Status.Decisions), next.Status.Analysis
	if is := next.Status.Decisions; len(is) > n && is[n].Via == rollouts.ViaAnalysis && is[n].Verb == rollouts.VerbAbort {
		c.checkAbortByChecks(actor, a)
	}
	c.checkRecord.checkNonePassedOver(c, actor, old, next)
}

// checkRecord knows what a release needs a decision on record for: the checks of each step, as the plan had
// them at any time of the attempt, whatever became of the plan since.
type checkRecord struct {
	// needed are the checks of each step, and found what they came to there.
	needed map[checkIn]bool
	found  map[checkIn]rollouts.CheckResult
	// overridden are those that decisions on record name.
	overridden map[checkIn]bool
}

type checkIn struct {
	name string
	step int32
}

func newCheckRecord() checkRecord {
	return checkRecord{map[checkIn]bool{}, map[checkIn]rollouts.CheckResult{}, map[checkIn]bool{}}
}

func (d checkRecord) fork() checkRecord {
	return checkRecord{maps.Clone(d.needed), maps.Clone(d.found), maps.Clone(d.overridden)}
}

// No check passed over: no release leaves a step in which a check has failed, or has come to no result,
// unless a decision on record overrides that check in that step. A failed check stays failed. Nobody
// disables a Rollout with such a step.
func (d checkRecord) checkNonePassedOver(c *invariants, actor string, old, next *rollouts.Rollout) {
	was, is, a := old.Status.Active(), next.Status.Active(), next.Status.Analysis
	if was == nil || is == nil || !isReleasing(old) || !isReleasing(next) && !finishing(next) || was.UpdateRevision != is.UpdateRevision {
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
				d.overridden[checkIn{k.Name, k.Step}] = true
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
		if !isPastPause(was, at.step) && (isPastPause(is, at.step) || finishing(next)) {
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

// forgetFrom forgets what was found in steps that are taken again, but for what has failed.
func (d checkRecord) forgetFrom(from int32) {
	maps.DeleteFunc(d.found, func(at checkIn, found rollouts.CheckResult) bool {
		return at.step >= from && found != rollouts.CheckFailed
	})
	maps.DeleteFunc(d.overridden, func(at checkIn, _ bool) bool { return at.step >= from })
}

// storedResult is what a check has come to in a step by the status; empty if it was not measured there.
func storedResult(old, r *rollouts.Rollout, at checkIn) rollouts.CheckResult {
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
			step = old.Status.Active().CurrentStepIndex // the pass may have left that step since
		}
	}
	for _, k := range a.Checks {
		if k.Name == at.name && step == at.step && since != nil && !k.Time.Before(since) {
			return k.Result
		}
	}
	return ""
}

// noteChecks keeps what the plan wants of its checks now, and what they have come to.
func (d checkRecord) noteChecks(c *invariants, actor string, old, next *rollouts.Rollout) {
	p, a := next.Status.Active(), next.Status.Analysis
	_, plan := next.Spec.Strategy.Active()
	measuring := p.State == rollouts.StepMetricsAnalysis || p.State == rollouts.StepPaused
	began := a != nil && a.StepSince != nil && a.Step == p.CurrentStepIndex
	for i := range plan.Steps {
		step := int32(i + 1)
		if isPastPause(p, step) || step == p.CurrentStepIndex && measuring && !began {
			continue // it is over, or it began without checks
		}
		for _, k := range decidingChecks(plan.Analysis, step) {
			d.needed[checkIn{k, step}] = true
		}
	}
	if a == nil {
		return
	}
	for _, k := range a.Checks {
		at := checkIn{k.Name, p.CurrentStepIndex}
		result := storedResult(old, next, at)
		if d.found[at] == rollouts.CheckFailed && result != "" && result != rollouts.CheckFailed && !d.overridden[at] {
			c.violate("no check passed over", "%s calls check %s %s, which had failed", actor, k.Name, result)
		}
		if result != "" {
			d.found[at] = result
		}
	}
}

// decidingChecks are the checks of a plan in a step that decide about the release, but for that of the pods.
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

// isReleasing reports whether steps of a release are taken.
func isReleasing(r *rollouts.Rollout) bool {
	return r.Status.Phase == rollouts.PhaseProgressing && slices.Contains([]rollouts.Activity{rollouts.ActivityInRolling, rollouts.ActivityPaused}, r.Status.Activity())
}

func finishing(r *rollouts.Rollout) bool {
	return r.Status.Phase == rollouts.PhaseProgressing && r.Status.Activity() == rollouts.ActivityFinalising
}

// hasBadSample reports whether a request has failed, or a Service or a job said that the version is bad.
func (m *measuredWorld) hasBadSample() bool {
	for _, all := range m.answers {
		if slices.ContainsFunc(all, func(a answer) bool { return a.value == 0 && a.fault == "" }) {
			return true
		}
	}
	return slices.ContainsFunc(m.rates, func(r rates) bool { return r.pair.New.Bad > 0 })
}

// checkAbortByChecks judges an abort by the checks.
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

// onFailOf is what a check does by the plan.
func onFailOf(a *rollouts.Analysis, name string) rollouts.OnFail {
	for i := range a.Checks {
		if rollouts.CheckName(&a.Checks[i]) == name && a.Checks[i].OnFail != "" {
			return a.Checks[i].OnFail
		}
	}
	return a.OnFail
}
