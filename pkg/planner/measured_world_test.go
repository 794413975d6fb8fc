// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/judge"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// rates are the answers of both versions in each window from a time on.
type rates struct {
	from time.Time
	pair judge.Pair
}

// answer is the answer of a Service or a job from a time on.
type answer struct {
	from        time.Time
	value       float64
	says, fault string
}

// outage is a time in which no source answers. It continues while until is zero.
type outage struct{ from, until time.Time }

// measuredWorld is the data of the metric sources.
type measuredWorld struct {
	rates   []rates
	outages []outage
	// answers are the answers of http and job checks by check name.
	answers map[string][]answer
	// shared are the Check objects of the namespace by name.
	shared map[string]rollouts.Check
	// lastDay are the rates of the last 24 hours, one per hour. It is empty if the source was not
	// queried.
	lastDay []judge.Pair
	// missingData describes what the source lacks, if anything.
	missingData string
	// behind is the delay of samples in the source.
	behind time.Duration
	// controllerStarted is the start of the controller, which has no earlier answers of http
	// checks.
	controllerStarted time.Time
}

func (m *measuredWorld) ratesAt(start time.Time) (pair judge.Pair) {
	for _, r := range m.rates {
		if !r.from.After(start) {
			pair = r.pair
		}
	}
	return pair
}

// fault returns the fault of a source that does not answer now.
func (m *measuredWorld) fault() judge.Fault {
	if n := len(m.outages); n > 0 && m.outages[n-1].until.IsZero() {
		return judge.Fault{Why: "connection refused", Since: m.outages[n-1].from}
	}
	return judge.Fault{}
}

// Measurements returns all windows since the last stored result, like a source that supports range
// queries.
func (a cachedCluster) Measurements(_ context.Context, r *rollouts.Rollout) ([]planner.MeasuredCheck, error) {
	_, release := r.Spec.Strategy.Active()
	if release == nil || release.Analysis == nil {
		return nil, nil
	}
	every := 30 * time.Second
	if s := release.Analysis.EverySeconds; s != nil {
		every = time.Duration(*s) * time.Second
	}
	var out []planner.MeasuredCheck
	for _, c := range release.Analysis.Checks {
		if c.PodsHealthy != "" {
			continue // pods are observed without a source
		}
		if hasFailed(r, &c) {
			out = append(out, planner.MeasuredCheck{Planned: c, Check: c}) // a failed check is not measured again
			continue
		}
		if r.Status.Phase == rollouts.PhaseHealthy {
			out = append(out, a.measureLastDay(c))
			continue
		}
		if used := a.measures.resolveShared(c); used.HTTP != nil || used.Job != nil {
			m := a.measureAnswers(r, used, every)
			m.Planned = c
			out = append(out, m)
			continue
		}
		m := planner.MeasuredCheck{Planned: c, Check: a.measures.resolveShared(c), Source: "source default", Query: "requests", Answered: true, Data: judge.Data{Fault: a.measures.fault()}}
		if a.measures.behind > 0 {
			m.Delay = fmt.Sprintf("source default is %.0f s behind", a.measures.behind.Seconds())
		}
		for start := firstWindowStart(r, &c); !start.IsZero() && !start.Add(every).After(a.now.Add(-a.measures.behind)); start = start.Add(every) {
			m.Data.Windows = append(m.Data.Windows, judge.Window{
				Start: start, Known: m.Data.Fault.Why == "" || start.Add(every).Before(m.Data.Fault.Since), Counts: []judge.Pair{a.measures.ratesAt(start)},
			})
		}
		out = append(out, m)
	}
	return out, nil
}

func hasFailed(r *rollouts.Rollout, c *rollouts.Check) bool {
	a := r.Status.Analysis
	return a != nil && slices.ContainsFunc(a.Checks, func(k rollouts.CheckStatus) bool {
		return k.Name == rollouts.CheckName(c) && k.Result == rollouts.CheckFailed
	})
}

// resolveShared returns a check of a plan with the content of the shared Check that it uses.
func (m *measuredWorld) resolveShared(c rollouts.Check) rollouts.Check {
	if c.Use == nil {
		return c
	}
	used := m.shared[c.Use.Name]
	used.Name, used.Steps, used.At, used.OnFail, used.OnInconclusive = rollouts.CheckName(&c), c.Steps, c.At, c.OnFail, c.OnInconclusive
	return used
}

// share creates or edits a Check that Rollouts use: jvm successRate=95%, or health http=web gate.
func (s *story) share(c command) {
	check := rollouts.Check{SuccessRate: new(c.get("successRate", ""))}
	if of := c.get("http", ""); of != "" {
		check = rollouts.Check{HTTP: &rollouts.HTTPCheck{Service: of}}
	}
	if c.has("gate") {
		check.Gate = new(true)
	}
	s.w.measures.setShared(c.words[1], check)
}

func (m *measuredWorld) setShared(name string, c rollouts.Check) {
	if m.shared = maps.Clone(m.shared); m.shared == nil {
		m.shared = map[string]rollouts.Check{}
	}
	m.shared[name] = c
}

// measureLastDay returns the requests of the active version in the last 24 hours.
func (a cachedCluster) measureLastDay(c rollouts.Check) planner.MeasuredCheck {
	m := planner.MeasuredCheck{Planned: c, Check: c, Source: "source default", Query: "requests", Answered: len(a.measures.lastDay) > 0, IsTrial: true}
	if m.Answered {
		m.Data.Fault, m.Data.Nothing = a.measures.fault(), a.measures.missingData
	}
	every := 2 * time.Minute
	for i, hour := range a.measures.lastDay {
		for start := range 30 {
			at := a.now.Truncate(time.Hour).Add(time.Duration(i-24)*time.Hour + time.Duration(start)*every)
			m.Data.Windows = append(m.Data.Windows, judge.Window{Start: at, Known: true, Counts: []judge.Pair{hour}})
		}
	}
	return m
}

// yesterday sets the rates of the last 24 hours, per window: 1000 requests with 1 failure, and in
// one hour the failures of bad=.
func (s *story) yesterday(c command) {
	for range 24 {
		s.w.measures.lastDay = append(s.w.measures.lastDay, judge.Pair{Old: judge.Count{Total: float64(s.number(c.words[1])), Bad: 1}})
	}
	if c.has("noseries") {
		s.w.measures.missingData = "the query returns no series"
	}
	s.w.measures.lastDay[12].Old.Bad = float64(s.number(c.get("bad", "1")))
}

// measureAnswers returns the answers of a Service in each window, or the result of the job of the
// step.
func (a cachedCluster) measureAnswers(r *rollouts.Rollout, c rollouts.Check, every time.Duration) planner.MeasuredCheck {
	m, since := planner.MeasuredCheck{Planned: c, Check: c, Source: "service", Answered: true}, sinceOf(r)
	if status := r.Status.Analysis; status != nil && c.At == rollouts.AtBeforeTraffic && status.TrafficSince != nil {
		since = status.TrafficSince.Time
	} else if status != nil && status.StepSince != nil && c.Job != nil {
		since = status.StepSince.Time
	}
	for _, said := range a.measures.answers[rollouts.CheckName(&c)] {
		m.Data.Fault = judge.Fault{}
		if said.fault != "" && !a.now.Before(said.from) {
			m.Data.Fault = judge.Fault{Why: said.fault, Since: said.from, Invalid: c.Job != nil || said.fault == "invalid"}
		}
		at := said.from
		if !at.After(since) {
			at = since.Add(time.Millisecond)
		}
		if c.Job != nil && said.fault == "" {
			m.Data.Samples = []judge.Sample{{At: at, Value: said.value, Says: said.says}}
		}
	}
	if at := a.measures.controllerStarted; c.HTTP != nil && at.After(since) {
		since = at
	}
	for at := since.Add(every); c.HTTP != nil && !since.IsZero() && !at.After(a.now); at = at.Add(every) {
		for _, said := range slices.Backward(a.measures.answers[rollouts.CheckName(&c)]) {
			if !said.from.After(at) && said.fault == "" {
				m.Data.Samples = append(m.Data.Samples, judge.Sample{At: at, Value: said.value, Says: said.says})
			}
			if !said.from.After(at) {
				break
			}
		}
	}
	return m
}

// answer sets the answer of a Service: tickets good
// bad
// down
// invalid, or the result of a job: smoke good
// bad
// noimage.
func (s *story) answer(c command) {
	said := answer{from: s.w.now, says: c.words[2]}
	switch c.words[2] {
	case "good":
		said.value = 1
	case "down", "invalid", "noimage":
		said.fault = c.words[2]
	}
	s.w.measures.setAnswer(c.words[1], said)
}

func (a answer) at(now time.Time) answer {
	a.from = now
	return a
}

// setAnswer adds an answer of a Service or a job. It copies the map, because a forked world has its
// own answers.
func (m *measuredWorld) setAnswer(check string, a answer) {
	if m.answers = maps.Clone(m.answers); m.answers == nil {
		m.answers = map[string][]answer{}
	}
	m.answers[check] = append(slices.Clone(m.answers[check]), a)
}

func sinceOf(r *rollouts.Rollout) time.Time {
	if a := r.Status.Analysis; a != nil && a.Since != nil {
		return a.Since.Time
	}
	return time.Time{}
}

// firstWindowStart returns the start of the first window that is still to be measured.
func firstWindowStart(r *rollouts.Rollout, c *rollouts.Check) time.Time {
	a := r.Status.Analysis
	if a == nil || a.Since == nil {
		return time.Time{}
	}
	for i := range a.Checks {
		if s := &a.Checks[i]; s.Name == rollouts.CheckName(c) && s.FoldedTo != nil {
			return s.FoldedTo.Time
		}
	}
	return a.Since.Time
}

// healMeasurements makes all sources answer and both versions serve without failures.
func (w *world) healMeasurements() {
	clear(w.store.unready)
	w.measures.endOutage(w.now)
	for check := range w.measures.answers {
		w.measures.setAnswer(check, answer{from: w.now, value: 1})
	}
	w.measures.rates = append(slices.Clone(w.measures.rates), rates{w.now, judge.Pair{New: judge.Count{Total: 5000}, Old: judge.Count{Total: 5000}}})
}

// endOutage ends the current outage.
func (m *measuredWorld) endOutage(now time.Time) {
	m.outages = slices.Clone(m.outages) // a forked world has its own outages
	if n := len(m.outages); n > 0 && m.outages[n-1].until.IsZero() {
		m.outages[n-1].until = now
	}
}

// requests sets the answers of both versions in each window from now on: new=100/3 old=900/1.
func (s *story) requests(c command) {
	count := func(text string) judge.Count {
		total, bad, _ := strings.Cut(text, "/")
		return judge.Count{Total: float64(s.number(total)), Bad: float64(s.number(bad))}
	}
	s.w.measures.rates = append(s.w.measures.rates, rates{s.w.now, judge.Pair{New: count(c.get("new", "0/0")), Old: count(c.get("old", "0/0"))}})
}

// source starts or ends an outage, makes the source forget the past, or delays its samples.
func (s *story) source(c command) {
	m := &s.w.measures
	switch {
	case c.has("down"):
		m.outages = append(m.outages, outage{from: s.w.now})
	case c.has("forgets"):
		m.rates = nil
	case c.get("behind", "") != "":
		m.behind = s.duration(c.get("behind", ""))
	default:
		m.endOutage(s.w.now)
	}
}

// analysis returns the analysis of the plan lines that begin with analysis or check.
func (s *story) analysis(c command) *rollouts.Analysis {
	var a *rollouts.Analysis
	for _, words := range c.more {
		switch words[0] {
		case "analysis":
			a = &rollouts.Analysis{
				EverySeconds: s.seconds(get(words, "every", "")), AtLeastSeconds: s.seconds(get(words, "atLeast", "")),
				AfterSeconds: s.seconds(get(words, "after", "")), WithinSeconds: s.seconds(get(words, "within", "")), OnFail: rollouts.OnFail(get(words, "onFail", "")),
				OnInconclusive: rollouts.OnInconclusive(get(words, "onInconclusive", "")),
			}
		case "check":
			check := rollouts.Check{OnFail: rollouts.OnFail(get(words, "onFail", "")), Name: get(words, "name", "")}
			if rate := get(words, "successRate", ""); rate != "" {
				check.SuccessRate = &rate
			}
			check.At, check.OnInconclusive = rollouts.CheckPoint(get(words, "at", "")), rollouts.OnInconclusive(get(words, "onInconclusive", ""))
			if of := get(words, "http", ""); of != "" {
				check.HTTP = &rollouts.HTTPCheck{Service: of}
			}
			if of := get(words, "job", ""); of != "" {
				check.Job = &rollouts.JobCheck{CronJob: of}
			}
			if of := get(words, "use", ""); of != "" {
				check.Use = &rollouts.CheckRef{Kind: "Check", Name: of}
			}
			if slices.Contains(words, "gate") {
				check.Gate = new(true)
			}
			for of := range strings.SplitSeq(get(words, "steps", ""), ",") {
				if of != "" {
					check.Steps = append(check.Steps, s.number(of))
				}
			}
			check.PodsHealthy = rollouts.PodsHealthy(get(words, "podsHealthy", ""))
			check.AsGoodAs = rollouts.AsGoodAs(get(words, "asGoodAs", ""))
			if a == nil {
				a = &rollouts.Analysis{}
			}
			a.Checks = append(a.Checks, check)
		}
	}
	return a
}

func (s *story) seconds(text string) *int32 {
	if text == "" {
		return nil
	}
	return new(int32(s.duration(text) / time.Second))
}
