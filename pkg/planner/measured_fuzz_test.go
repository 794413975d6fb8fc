// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
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
	if s.next()%2 == 0 {
		s.analysis.Checks = append(s.analysis.Checks, rollouts.Check{AsGoodAs: rollouts.AsGoodAsStable, OnFail: rollouts.OnFailReport})
	}
	s.heal()
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
			s.measures.up(s.now)
			return
		}
		s.measures.outages = append(slices.Clone(s.measures.outages), outage{from: s.now})
	}},
	{"override", 1, func(s *schedule, b byte) {
		s.decide(app0, verb.Command{Verb: []rollouts.Verb{rollouts.VerbPromote, rollouts.VerbRetry}[b%2], User: "dana", Override: true, Full: b%4 > 1 && b%2 == 0})
	}},
}

// No unfounded verdict: the checks abort a release only if one has failed, of a version
// that did fail requests; and nobody leaves a step with a check that has failed or is
// undecided, but by an override, a promotion in full, or where checks only report. A jump to
// a later step leaves it, too.
func (c *checks) verdicts(actor string, old, next *rollouts.Rollout) {
	n, a := len(old.Status.Decisions), next.Status.Analysis
	if is := next.Status.Decisions; len(is) > n && is[n].Via == rollouts.ViaAnalysis && is[n].Verb == rollouts.VerbAbort {
		c.founded(actor, a)
	}
	was, is := old.Status.Active(), next.Status.Active()
	if !sameRelease(old, next) || led(old, next) && !ledAhead(old, next) || !going(next) || is.FullyPromoted || a == nil || a.Overridden || a.Step != was.CurrentStepIndex {
		return
	}
	_, release := next.Spec.Strategy.Active()
	overrode := slices.ContainsFunc(next.Status.Decisions, func(d rollouts.Decision) bool {
		return len(d.Overrode) > 0 && d.Revision == is.UpdateRevision && d.Step == was.CurrentStepIndex
	})
	if overrode || release.Analysis == nil || !beyond(is, was.CurrentStepIndex) || beyond(was, was.CurrentStepIndex) {
		return
	}
	for _, k := range a.Checks {
		bars := k.Result == rollouts.CheckFailed || k.Result == rollouts.CheckRunning
		if bars && onFail(release.Analysis, k.Name) != rollouts.OnFailReport {
			c.violate("no unfounded verdict", "%s leaves step %d, of which check %s is %s", actor, was.CurrentStepIndex, k.Name, k.Result)
		}
	}
}

// ledAhead reports whether a user jumped to a later step without an override.
func ledAhead(old, next *rollouts.Rollout) bool {
	d := next.Status.Decisions[len(old.Status.Decisions)]
	return d.Verb == rollouts.VerbJump && len(d.Overrode) == 0 && next.Status.Active().CurrentStepIndex > old.Status.Active().CurrentStepIndex
}

// bad reports whether a request has failed, or a Service or a job said that the version is bad.
func (m *measures) bad() bool {
	for _, all := range m.answers {
		if slices.ContainsFunc(all, func(a answer) bool { return a.value == 0 && a.fault == "" }) {
			return true
		}
	}
	return slices.ContainsFunc(m.rates, func(r rates) bool { return r.pair.New.Bad > 0 })
}

// founded judges an abort by the checks.
func (c *checks) founded(actor string, a *rollouts.AnalysisStatus) {
	failed := func(k rollouts.CheckStatus) bool { return k.Result == rollouts.CheckFailed }
	switch {
	case a == nil || !slices.ContainsFunc(a.Checks, failed):
		c.violate("no unfounded verdict", "%s aborts, and no check has failed", actor)
	case a.Overridden:
		c.violate("no unfounded verdict", "%s aborts, and the checks are overridden", actor)
	case a.Checks[slices.IndexFunc(a.Checks, failed)].Name != "podsHealthy" && !c.w.measures.bad():
		c.violate("no unfounded verdict", "%s aborts a version that failed no request, nor a Service, nor a job", actor)
	}
}

// onFail is what a check does by the plan.
func onFail(a *rollouts.Analysis, name string) rollouts.OnFail {
	for i := range a.Checks {
		if rollouts.CheckName(&a.Checks[i]) == name && a.Checks[i].OnFail != "" {
			return a.Checks[i].OnFail
		}
	}
	return a.OnFail
}
