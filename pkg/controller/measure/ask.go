// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/judge"
	"github.com/weir-rollouts/weir/pkg/metric"
	"github.com/weir-rollouts/weir/pkg/planner"
)

func metaOf(key types.NamespacedName) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
}

// A source that does not answer is asked again after firstRetry, and then less often, down to once in
// lastRetry.
const (
	firstRetry = 5 * time.Second
	lastRetry  = time.Minute
)

// measure queries the windows that are over and were not kept yet. It reports whether there is news for
// the Rollout, and after how long to measure again.
func (m *Measures) measure(ctx context.Context, subject Subject, s *series) (news bool, again time.Duration) {
	now := m.Clock.Now()
	check, trusted, err := m.Sources.Use(ctx, subject.Release.Namespace, s.question.Check)
	if err != nil {
		return s.setFault(faultOf(err, now), now)
	}
	changed := s.setCheck(asPlanned(check, s.question.Check))
	s.measured.Tried = s.question.Try
	if direct := directCheckOf(&check); direct != nil {
		news, again = m.askDirectly(ctx, subject, s, check, direct.ask)
		return news || changed, again
	}
	from, err := m.source(ctx, subject, s, check, trusted)
	if err != nil {
		return s.setFault(faultOf(err, now), now)
	}
	s.measured.Lag = from.Lag
	q, over := s.question, s.nextWindow()
	windows := int(now.Add(-from.Lag).Sub(over) / q.Every)
	if windows < 1 {
		return changed, s.nextLook(from.Lag).Sub(now)
	}
	asked := Range{Namespace: subject.Release.Namespace, Since: over, Every: q.Every, Windows: min(windows, mostWindows), Again: s.delay.incomplete}
	before, delayBefore := s.measured, s.delay
	s.delay.newest, s.findsNewest = time.Time{}, !q.Try
	fault := s.ask(ctx, from, subject, check, asked)
	complete := 0
	if fault.Why == "" {
		complete = s.keepComplete(len(before.Data.Windows), now)
		s.delay.observe(now, delayBefore)
	}
	if fault.Why == "" && complete > 0 {
		fault = s.askPast(ctx, from, subject, check)
	}
	if fault.Why == "" && complete > 0 {
		fault = s.askScrapes(ctx, from, subject, check, now)
	}
	if fault.Why != "" {
		s.measured.Data, s.delay = before.Data, delayBefore // nothing is judged without the past
		return s.setFault(fault, now)
	}
	s.measured.Delay = s.delay.text(s.measured.Source, max(from.Lag, s.measured.Data.Scrape), s.measured.Ahead, from.Skew, now)
	s.measured.Answered, s.measured.Data.Fault = true, judge.Fault{}
	news = changed || complete > 0 || !before.Answered || before.Data.Fault.Why != "" || before.Delay != s.measured.Delay
	if s.delay.incomplete {
		return news, s.delay.retry(s.nextWindow().Add(q.Every), s.measured.Data.Scrape, q.Every, now)
	}
	return news, s.nextLook(from.Lag).Sub(m.Clock.Now())
}

// setCheck sets the check that is measured, and reports whether it was another one before: the Check or
// ClusterCheck that the plan uses was edited. What was measured for the earlier check is dropped, so
// that no verdict counts answers to two queries.
func (s *series) setCheck(check rollouts.Check) (changed bool) {
	before := s.measured.Check
	if rollouts.CheckName(&before) == "" || before.Use != nil || equality.Semantic.DeepEqual(before, check) {
		s.measured.Check = check
		return false
	}
	*s = series{question: s.question, measured: planner.Measured{Check: check, Answered: s.measured.Answered}}
	return true
}

// sourceName returns the name of the source that a check queries.
func sourceName(c rollouts.Check) string {
	if c.Query != nil {
		return cmp.Or(c.Query.Source, "default")
	}
	return "default"
}

// source returns the source that a check queries.
func (m *Measures) source(ctx context.Context, subject Subject, s *series, check rollouts.Check, trusted bool) (*Source, error) {
	name := sourceName(check)
	s.measured.Source = "source " + name
	from, err := m.Sources.Source(ctx, name, subject.Release.Namespace)
	if err == nil && !trusted && check.Query != nil && !from.RawQueries {
		err = errors.New("source " + name + " takes queries of ClusterChecks only; let an administrator set its rawQueries, or make a ClusterCheck")
	}
	return from, err
}

// mostWindows is the number of windows that one query asks for at most.
const mostWindows = 1000

// asPlanned returns a check with the content of the Check or ClusterCheck that it uses, and with the
// fields that the plan sets itself, such as the name and the steps.
func asPlanned(used, planned rollouts.Check) rollouts.Check {
	used.Name, used.Steps, used.At = rollouts.CheckName(&planned), planned.Steps, planned.At
	used.AfterSeconds = planned.AfterSeconds
	used.OnFail, used.OnInconclusive = cmp.Or(planned.OnFail, used.OnFail), cmp.Or(planned.OnInconclusive, used.OnInconclusive)
	return used
}

// setFault records why there is no answer, and since when. It is news if the reason is another one than
// before. An outage and an invalid check each have a time of their own, because a check that is invalid for
// a minute is inconclusive.
func (s *series) setFault(f judge.Fault, now time.Time) (news bool, again time.Duration) {
	was := s.measured.Data.Fault
	if f.Invalid {
		f.Since = now // not since the window that was asked for
	}
	if was.Why != "" && was.Invalid == f.Invalid && was.Since.Before(f.Since) {
		f.Since = was.Since
	}
	if rollouts.CheckName(&s.measured.Check) == "" {
		s.measured.Check = s.question.Check
	}
	if s.measured.Answered && was.Why != "" {
		s.measured.Data.Fault = f
		return was.Why != f.Why || was.Invalid != f.Invalid, min(max(now.Sub(f.Since), firstRetry), lastRetry)
	}
	s.measured.Answered, s.measured.Data.Fault = true, f
	return true, firstRetry
}

// nextWindow returns the start of the first window that was not kept yet.
func (s *series) nextWindow() time.Time {
	if n := len(s.measured.Data.Windows); n > 0 {
		return s.measured.Data.Windows[n-1].Start.Add(s.question.Every)
	}
	return s.question.From
}

// ask queries what the check measures, and adds the answer to the series. Without a row, it tries each row
// of metrics that the routers of the release may have, until one has requests.
func (s *series) ask(ctx context.Context, from *Source, subject Subject, check rollouts.Check, r Range) judge.Fault {
	if check.Query != nil {
		return s.askQuery(ctx, from, subject, *check.Query, r)
	}
	if s.row != nil {
		_, fault := s.askRow(ctx, from, subject, check, *s.row, r)
		return fault
	}
	before, answered, histogram := s.measured.Data, false, false
	var newest time.Time // a sample of any row shows that the source is not behind
	var looked []string  // the series that were looked for, the last ones first
	var last judge.Fault
	for _, row := range metric.For(subject.Routers...) {
		was := s.measured.Data
		s.measured.Data, s.delay.newest = before, time.Time{}
		found, fault := s.askRow(ctx, from, subject, check, row, r)
		switch {
		case found:
			s.row = &row
			return judge.Fault{}
		case fault.Why == "":
			answered, histogram, newest = true, histogram || len(s.measured.Data.Bounds) > 0, later(newest, s.delay.newest)
			looked = append([]string{s.measured.Query}, looked...)
		default:
			s.measured.Data = was
			if last.Why == "" || !fault.Invalid {
				last = fault // a row that does not fit says less than a source that is down
			}
		}
	}
	if !answered {
		return last
	}
	for i := range looked[1:] { // the message has the labels of one selector only
		looked[i+1], _, _ = strings.Cut(looked[i+1], "{")
	}
	s.measured.Query, s.delay.newest = strings.Join(slices.Compact(looked), ", "), newest
	if check.Latency != nil && !histogram {
		s.measured.Data.Nothing = "no histogram of response times: nothing matches " + s.measured.Query
	}
	return judge.Fault{}
}

// pastHour is the time before the release in which the dispersion of stable's failures is measured.
const pastHour = time.Hour

// askPast queries the hour before the release, once for each histogram that the release has.
func (s *series) askPast(ctx context.Context, from *Source, subject Subject, check rollouts.Check) judge.Fault {
	numbers := check.Query != nil && check.Query.PromQL != ""
	if s.question.Try || s.measured.Data.Past != nil || numbers || check.Query == nil && s.row == nil {
		return judge.Fault{}
	}
	n := max(int(pastHour/s.question.Every), 1)
	past := series{question: s.question, row: s.row}
	fault := past.ask(ctx, from, subject, check, Range{
		Namespace: subject.Release.Namespace, Since: s.question.Began.Add(-time.Duration(n) * s.question.Every), Every: s.question.Every, Windows: n,
	})
	if fault.Why == "" {
		fault = s.askPods(ctx, from, subject, check)
	}
	s.measured.Data.Past = atBoundaries(past.measured.Data, s.measured.Data.Bounds)
	return fault
}

// atBoundaries returns the windows of the past with the classes of the release. The histogram of stable
// alone may have other boundaries than both versions have in common. A class without counts has no
// measured dispersion.
func atBoundaries(past judge.Data, bounds []float64) []judge.Window {
	windows := make([]judge.Window, len(past.Windows))
	for i, w := range past.Windows {
		counts := make([]judge.Pair, 1+len(bounds))
		counts[0] = w.Counts[0] // errors
		for j, bound := range bounds {
			if class := slices.Index(past.Bounds, bound); class >= 0 {
				counts[1+j] = w.Counts[1+class]
			}
		}
		windows[i] = judge.Window{Start: w.Start, Known: w.Known, Counts: counts}
	}
	return windows
}

// askPods queries how many requests each pod of stable answered in the hour before the release, and how
// many of them failed or, for latency, were slow. It does nothing if the metrics do not name pods.
func (s *series) askPods(ctx context.Context, from *Source, subject Subject, check rollouts.Check) judge.Fault {
	var text string
	var err error
	switch q := check.Query; {
	case q != nil:
		text, err = metric.UserPodCounts(q.Bad, q.Total, nil, subject.Release, s.question.Every, pastHour)
	case check.Latency != nil && s.boundary == "":
		return judge.Fault{} // there is no histogram yet
	case check.Latency != nil:
		text, err = s.row.SlowPodCounts(subject.Release, from.Dialect, s.boundary, pastHour)
	default:
		text, err = s.row.PodCounts(subject.Release, from.Dialect, pastHour)
	}
	if err != nil || text == "" {
		return judge.Fault{}
	}
	answer, fault := from.Ask(ctx, Range{
		Text: text, Namespace: subject.Release.Namespace, Since: s.question.Began.Add(-pastHour), Every: pastHour, Windows: 1,
	})
	for _, c := range metric.CountsOfPods(answer) {
		s.measured.Data.Pods = append(s.measured.Data.Pods, judge.Count(c))
	}
	return fault
}

// askRow queries the metrics of a row, and reports whether there were any requests.
func (s *series) askRow(ctx context.Context, from *Source, subject Subject, check rollouts.Check, row metric.Row, r Range) (found bool, fault judge.Fault) {
	windows := grid(r)
	s.measured.Query = row.RequestSeries(subject.Release)
	if check.Latency != nil {
		s.measured.Query = row.DurationSeries(subject.Release)
	}
	var bounds []float64
	if check.SuccessRate != nil || check.AsGoodAs != "" {
		answer, fault := s.answer(ctx, from, r, func() (string, error) { return row.Requests(subject.Release, from.Dialect, r.Every) })
		if fault.Why != "" {
			return false, fault
		}
		found = count(windows, row.Windows(answer)) || found
	} else {
		count(windows, make([]metric.Window, r.Windows)) // errors are not looked at
	}
	if check.Latency != nil || check.AsGoodAs != "" {
		answer, fault := s.answer(ctx, from, r, func() (string, error) { return row.Durations(subject.Release, from.Dialect, r.Every) })
		if fault.Why != "" {
			return false, fault
		}
		boundaries := row.Boundaries(answer)
		if check.Latency != nil {
			boundaries = metric.Judged(boundaries, float64(check.Latency.BelowMilliseconds))
			for _, b := range boundaries {
				s.boundary = b.Label
			}
		}
		for _, b := range metric.Thin(boundaries) {
			bounds = append(bounds, b.Milliseconds)
			found = count(windows, b.Windows) || found
		}
	}
	s.add(windows, bounds)
	s.measured.Data.Nothing = ""
	return found, judge.Fault{}
}

// askQuery queries the counters or the number of a check by query.
func (s *series) askQuery(ctx context.Context, from *Source, subject Subject, q rollouts.QueryCheck, r Range) judge.Fault {
	args := map[string]string{}
	text := cmp.Or(q.PromQL, q.Total)
	s.measured.Query = text
	if filled, err := metric.UserNumber(text, args, subject.Release, r.Every); err == nil {
		s.measured.Query = filled
	}
	if q.PromQL == "" {
		answer, fault := s.answer(ctx, from, r, func() (string, error) {
			return metric.UserCounts(q.Bad, q.Total, args, subject.Release, from.Dialect, r.Every)
		})
		if fault.Why != "" {
			return fault
		}
		windows := grid(r)
		count(windows, metric.UserWindows(answer))
		s.add(windows, nil)
		return judge.Fault{}
	}
	if s.findsNewest {
		// The number has no timestamps. Those of the targets of the namespace show how far the source is behind.
		_, fault := s.answer(ctx, from, r, func() (string, error) { return metric.NamespaceNewest(subject.Release) })
		if fault.Why != "" {
			return fault
		}
	}
	targets := s.delay.newest
	answer, fault := s.answer(ctx, from, r, func() (string, error) { return metric.UserNumber(q.PromQL, args, subject.Release, r.Every) })
	switch {
	case fault.Why != "":
		return fault
	case len(answer) > 1:
		return judge.Fault{Why: "the query gives several series; give one number", Since: r.Since, Invalid: true}
	}
	windows := grid(r)
	for i := range windows {
		windows[i].Known = true
		s.measured.Data.Nothing = "the query returns no series"
		if len(answer) == 0 || i >= len(answer[0].Values) {
			continue
		}
		switch value := answer[0].Values[i]; {
		case value.Known:
			s.measured.Data.Nothing = ""
			at := windows[i].Start.Add(r.Every)
			s.measured.Data.Samples = append(s.measured.Data.Samples, judge.Sample{At: at, Value: value.Number})
			if targets.IsZero() {
				s.delay.newest = at // the source knows a number of this time
			}
		case math.IsNaN(value.Number):
			s.measured.Data.Nothing = "the query returns NaN or Inf"
		}
	}
	s.add(windows, nil)
	return judge.Fault{}
}

// answer sends one query. To find the newest sample, the query has one window more: at the end of that
// window, which may be in the future, the answer has the time of the newest sample. The counts of that
// window are not used.
func (s *series) answer(ctx context.Context, from *Source, r Range, text func() (string, error)) ([]metric.Series, judge.Fault) {
	var err error
	if r.Text, err = text(); err != nil {
		return nil, judge.Fault{Why: err.Error(), Since: r.Since, Invalid: true}
	}
	s.asked = true
	if s.findsNewest {
		r.Windows++
	}
	answer, fault := from.Ask(ctx, r)
	s.delay.newest = later(s.delay.newest, metric.Newest(answer))
	return answer, fault
}

// add adds windows to the series. If the boundaries of the histogram have changed, add removes all
// windows, also those of the past, so that they are queried again.
func (s *series) add(windows []judge.Window, bounds []float64) {
	d := &s.measured.Data
	if !slices.Equal(d.Bounds, bounds) {
		if len(d.Windows) > 0 {
			d.Windows, windows = nil, nil
		}
		d.Past, d.Pods = nil, nil
	}
	d.Bounds, d.Windows = bounds, append(d.Windows, windows...)
}

// grid returns the windows of a range, without counts.
func grid(r Range) []judge.Window {
	windows := make([]judge.Window, r.Windows)
	for i := range windows {
		windows[i] = judge.Window{Start: r.Since.Add(time.Duration(i) * r.Every), Known: true}
	}
	return windows
}

// count adds a class of requests to windows, and reports whether there were any.
func count(windows []judge.Window, counted []metric.Window) (found bool) {
	for i := range windows {
		var p judge.Pair
		if i < len(counted) && counted[i].Known {
			c := counted[i]
			p = judge.Pair{New: judge.Count(c.New), Old: judge.Count(c.Stable)}
			found = found || p.New.Total+p.Old.Total > 0
		}
		windows[i].Counts = append(windows[i].Counts, p)
	}
	return found
}
