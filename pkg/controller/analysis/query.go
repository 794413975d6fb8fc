// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package analysis

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

func objectMeta(key types.NamespacedName) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
}

// A source that does not answer is queried again after minRetry. Later retries are rarer, down to
// one per maxRetry.
const (
	minRetry = 5 * time.Second
	maxRetry = time.Minute
)

// measure queries the windows that have ended and are not kept yet. It reports whether the Rollout
// must be reconciled, and after how long to measure again.
func (m *Runner) measure(ctx context.Context, subject Subject, s *series) (news bool, again time.Duration) {
	now := m.Clock.Now()
	check, trusted, err := m.Sources.ResolveCheck(ctx, subject.Release.Namespace, s.question.Check)
	if err != nil {
		return s.setFault(faultOf(err, now), now)
	}
	changed := s.setCheck(withPlannedFields(check, s.question.Check))
	s.measured.IsTrial = s.question.Try
	if direct := directCheckOf(&check); direct != nil {
		news, again = m.measureDirectly(ctx, subject, s, check, direct.measure)
		return news || changed, again
	}
	from, err := m.source(ctx, subject, s, check, trusted)
	if err != nil {
		s.isSourceMissing = true
		return s.setFault(faultOf(err, now), now)
	}
	if s.isSourceMissing {
		// The source exists now. Whether its server answers is known after the next window.
		s.isSourceMissing, s.measured.Data.Fault, changed = false, judge.Fault{}, true
	}
	s.measured.Lag = from.Lag
	q, over := s.question, s.nextWindow()
	windows := int(now.Add(-from.Lag).Sub(over) / q.Every)
	if windows < 1 {
		return changed, s.nextMeasurement(from.Lag).Sub(now)
	}
	asked := RangeQuery{Namespace: subject.Release.Namespace, Start: over, Step: q.Every, Windows: min(windows, maxWindows), BypassCache: s.delay.hasIncompleteWindow}
	before, delayBefore := s.measured, s.delay
	s.delay.newest, s.findsNewest = time.Time{}, !q.Try
	fault := s.queryCheck(ctx, from, subject, check, asked)
	complete := 0
	if fault.Why == "" {
		complete = s.dropIncompleteWindows(len(before.Data.Windows), now)
		s.delay.observe(now, delayBefore)
	}
	if fault.Why == "" && complete > 0 {
		fault = s.queryPastHour(ctx, from, subject, check)
	}
	if fault.Why == "" && complete > 0 {
		fault = s.queryScrapeInterval(ctx, from, subject, check, now)
	}
	if fault.Why != "" {
		s.measured.Data, s.delay = before.Data, delayBefore // nothing is judged without the past
		return s.setFault(fault, now)
	}
	s.measured.Delay = s.delay.message(s.measured.Source, max(from.Lag, s.measured.Data.Scrape), s.measured.ClockAhead, from.Skew, now)
	s.measured.Answered, s.measured.Data.Fault = true, judge.Fault{}
	news = changed || complete > 0 || !before.Answered || before.Data.Fault.Why != "" || before.Delay != s.measured.Delay
	if s.delay.hasIncompleteWindow {
		return news, s.delay.retryAfter(s.nextWindow().Add(q.Every), s.measured.Data.Scrape, q.Every, now)
	}
	return news, s.nextMeasurement(from.Lag).Sub(m.Clock.Now())
}

// setCheck sets the check that is measured. It reports whether the check was edited, in the Check
// or ClusterCheck that the plan uses. Then earlier measurements are dropped, so that no verdict
// combines the answers to two queries.
func (s *series) setCheck(check rollouts.Check) (changed bool) {
	before := s.measured.Check
	if rollouts.CheckName(&before) == "" || before.Use != nil || equality.Semantic.DeepEqual(before, check) {
		s.measured.Check = check
		return false
	}
	*s = series{question: s.question, measured: planner.MeasuredCheck{Check: check, Answered: s.measured.Answered}}
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
func (m *Runner) source(ctx context.Context, subject Subject, s *series, check rollouts.Check, trusted bool) (*Source, error) {
	name := sourceName(check)
	s.measured.Source = "source " + name
	from, err := m.Sources.Source(ctx, name, subject.Release.Namespace)
	if err == nil && !trusted && check.Query != nil && !from.RawQueries {
		err = errors.New("source " + name + " accepts queries of ClusterChecks only; ask a cluster administrator to set its rawQueries, or to create a ClusterCheck")
	}
	return from, err
}

// maxWindows is the maximum number of windows of one query.
const maxWindows = 1000

// withPlannedFields returns a check with the content of the Check or ClusterCheck that it uses, and
// with the fields that the plan sets itself, such as the name and the steps.
func withPlannedFields(used, planned rollouts.Check) rollouts.Check {
	used.Name, used.Steps, used.At = rollouts.CheckName(&planned), planned.Steps, planned.At
	used.AfterSeconds = planned.AfterSeconds
	used.OnFail, used.OnInconclusive = cmp.Or(planned.OnFail, used.OnFail), cmp.Or(planned.OnInconclusive, used.OnInconclusive)
	return used
}

// setFault records why there is no answer, and since when. It reports news if the reason has
// changed. An outage and an invalid check have separate times, because a check that is invalid for
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
		return was.Why != f.Why || was.Invalid != f.Invalid, min(max(now.Sub(f.Since), minRetry), maxRetry)
	}
	s.measured.Answered, s.measured.Data.Fault = true, f
	return true, minRetry
}

// nextWindow returns the start of the first window that is not kept yet.
func (s *series) nextWindow() time.Time {
	if n := len(s.measured.Data.Windows); n > 0 {
		return s.measured.Data.Windows[n-1].Start.Add(s.question.Every)
	}
	return s.question.From
}

// queryCheck runs the queries of a check, and adds the answers to the series. Without a row, it
// tries each row of metrics that the routers of the release may have, until one has requests.
func (s *series) queryCheck(ctx context.Context, from *Source, subject Subject, check rollouts.Check, r RangeQuery) judge.Fault {
	if check.Query != nil {
		return s.queryUserMetric(ctx, from, subject, *check.Query, r)
	}
	if s.row != nil {
		_, fault := s.queryRow(ctx, from, subject, check, *s.row, r)
		return fault
	}
	before, answered, histogram := s.measured.Data, false, false
	var newest time.Time // a sample of any row shows that the source is not behind
	var looked []string  // the series that were looked for, the last ones first
	var last judge.Fault
	for _, row := range metric.RowsFor(subject.Routers...) {
		was := s.measured.Data
		s.measured.Data, s.delay.newest = before, time.Time{}
		found, fault := s.queryRow(ctx, from, subject, check, row, r)
		switch {
		case found:
			s.row = &row
			return judge.Fault{}
		case fault.Why == "":
			answered, histogram, newest = true, histogram || len(s.measured.Data.Bounds) > 0, laterOf(newest, s.delay.newest)
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

// queryPastHour queries the hour before the release, once for each histogram that the release has.
func (s *series) queryPastHour(ctx context.Context, from *Source, subject Subject, check rollouts.Check) judge.Fault {
	numbers := check.Query != nil && check.Query.PromQL != ""
	if s.question.Try || s.measured.Data.Past != nil || numbers || check.Query == nil && s.row == nil {
		return judge.Fault{}
	}
	n := max(int(pastHour/s.question.Every), 1)
	past := series{question: s.question, row: s.row}
	fault := past.queryCheck(ctx, from, subject, check, RangeQuery{
		Namespace: subject.Release.Namespace, Start: s.question.Began.Add(-time.Duration(n) * s.question.Every), Step: s.question.Every, Windows: n,
	})
	if fault.Why == "" {
		fault = s.queryPodCounts(ctx, from, subject, check)
	}
	s.measured.Data.Past = selectBoundaries(past.measured.Data, s.measured.Data.Bounds)
	return fault
}

// selectBoundaries returns the windows of the past with the classes of the release. The histogram
// of stable alone may have other boundaries than both versions have in common. A class without
// counts has no measured dispersion.
func selectBoundaries(past judge.Data, bounds []float64) []judge.Window {
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

// queryPodCounts queries how many requests each stable pod answered in the hour before the release,
// and how many of them failed or, for latency, were slow. It does nothing if the metrics do not
// name pods.
func (s *series) queryPodCounts(ctx context.Context, from *Source, subject Subject, check rollouts.Check) judge.Fault {
	var text string
	var err error
	switch q := check.Query; {
	case q != nil:
		text, err = metric.UserPodCountsQuery(q.Bad, q.Total, nil, subject.Release, s.question.Every, pastHour)
	case check.Latency != nil && s.boundary == "":
		return judge.Fault{} // there is no histogram yet
	case check.Latency != nil:
		text, err = s.row.SlowPodCountsQuery(subject.Release, from.Dialect, s.boundary, pastHour)
	default:
		text, err = s.row.PodCountsQuery(subject.Release, from.Dialect, pastHour)
	}
	if err != nil || text == "" {
		return judge.Fault{}
	}
	answer, fault := from.Query(ctx, RangeQuery{
		PromQL: text, Namespace: subject.Release.Namespace, Start: s.question.Began.Add(-pastHour), Step: pastHour, Windows: 1,
	})
	for _, c := range metric.ReadPodCounts(answer) {
		s.measured.Data.Pods = append(s.measured.Data.Pods, judge.Count(c))
	}
	return fault
}

// queryRow queries the metrics of a row, and reports whether there were any requests.
func (s *series) queryRow(ctx context.Context, from *Source, subject Subject, check rollouts.Check, row metric.Row, r RangeQuery) (found bool, fault judge.Fault) {
	windows := newWindows(r)
	s.measured.Query = row.RequestSeries(subject.Release)
	if check.Latency != nil {
		s.measured.Query = row.DurationSeries(subject.Release)
	}
	var bounds []float64
	if check.SuccessRate != nil || check.AsGoodAs != "" {
		answer, fault := s.query(ctx, from, r, func() (string, error) { return row.RequestsQuery(subject.Release, from.Dialect, r.Step) })
		if fault.Why != "" {
			return false, fault
		}
		found = addCounts(windows, row.Windows(answer)) || found
	} else {
		addCounts(windows, make([]metric.Window, r.Windows)) // errors are not looked at
	}
	if check.Latency != nil || check.AsGoodAs != "" {
		answer, fault := s.query(ctx, from, r, func() (string, error) { return row.DurationsQuery(subject.Release, from.Dialect, r.Step) })
		if fault.Why != "" {
			return false, fault
		}
		boundaries := row.Boundaries(answer)
		if check.Latency != nil {
			boundaries = metric.BoundaryForLimit(boundaries, float64(check.Latency.BelowMilliseconds))
			for _, b := range boundaries {
				s.boundary = b.Label
			}
		}
		for _, b := range metric.ThinBoundaries(boundaries) {
			bounds = append(bounds, b.Milliseconds)
			found = addCounts(windows, b.Windows) || found
		}
	}
	s.addWindows(windows, bounds)
	s.measured.Data.Nothing = ""
	return found, judge.Fault{}
}

// queryUserMetric queries the counters, or the number, that a user's check names.
func (s *series) queryUserMetric(ctx context.Context, from *Source, subject Subject, q rollouts.QueryCheck, r RangeQuery) judge.Fault {
	args := map[string]string{}
	text := cmp.Or(q.PromQL, q.Total)
	s.measured.Query = text
	if filled, err := metric.UserNumberQuery(text, args, subject.Release, r.Step); err == nil {
		s.measured.Query = filled
	}
	if q.PromQL == "" {
		answer, fault := s.query(ctx, from, r, func() (string, error) {
			return metric.UserCountsQuery(q.Bad, q.Total, args, subject.Release, from.Dialect, r.Step)
		})
		if fault.Why != "" {
			return fault
		}
		windows := newWindows(r)
		addCounts(windows, metric.UserWindows(answer))
		s.addWindows(windows, nil)
		return judge.Fault{}
	}
	if s.findsNewest {
		// The number has no timestamps. Those of the targets of the namespace show how far the source is behind.
		_, fault := s.query(ctx, from, r, func() (string, error) { return metric.NamespaceNewestQuery(subject.Release) })
		if fault.Why != "" {
			return fault
		}
	}
	targets := s.delay.newest
	answer, fault := s.query(ctx, from, r, func() (string, error) { return metric.UserNumberQuery(q.PromQL, args, subject.Release, r.Step) })
	switch {
	case fault.Why != "":
		return fault
	case len(answer) > 1:
		return judge.Fault{Why: "the query gives several series; give one number", Since: r.Start, Invalid: true}
	}
	windows := newWindows(r)
	for i := range windows {
		windows[i].Known = true
		s.measured.Data.Nothing = "the query returns no series"
		if len(answer) == 0 || i >= len(answer[0].Values) {
			continue
		}
		switch value := answer[0].Values[i]; {
		case value.Known:
			s.measured.Data.Nothing = ""
			at := windows[i].Start.Add(r.Step)
			s.measured.Data.Samples = append(s.measured.Data.Samples, judge.Sample{At: at, Value: value.Number})
			if targets.IsZero() {
				s.delay.newest = at // the source knows a number of this time
			}
		case math.IsNaN(value.Number):
			s.measured.Data.Nothing = "the query returns NaN or Inf"
		}
	}
	s.addWindows(windows, nil)
	return judge.Fault{}
}

// query sends one query. To find the newest sample, the query has an additional window. At the end
// of this window, which may be in the future, the answer has the time of the newest sample. The
// counts of the additional window are not used.
func (s *series) query(ctx context.Context, from *Source, r RangeQuery, text func() (string, error)) ([]metric.Series, judge.Fault) {
	var err error
	if r.PromQL, err = text(); err != nil {
		return nil, judge.Fault{Why: err.Error(), Since: r.Start, Invalid: true}
	}
	s.queried = true
	if s.findsNewest {
		r.Windows++
	}
	answer, fault := from.Query(ctx, r)
	s.delay.newest = laterOf(s.delay.newest, metric.Newest(answer))
	return answer, fault
}

// addWindows adds windows to the series. If the boundaries of the histogram have changed, it
// removes all windows, also those of the past, so that they are queried again.
func (s *series) addWindows(windows []judge.Window, bounds []float64) {
	d := &s.measured.Data
	if !slices.Equal(d.Bounds, bounds) {
		if len(d.Windows) > 0 {
			d.Windows, windows = nil, nil
		}
		d.Past, d.Pods = nil, nil
	}
	d.Bounds, d.Windows = bounds, append(d.Windows, windows...)
}

// newWindows returns the windows of a range, without counts.
func newWindows(r RangeQuery) []judge.Window {
	windows := make([]judge.Window, r.Windows)
	for i := range windows {
		windows[i] = judge.Window{Start: r.Start.Add(time.Duration(i) * r.Step), Known: true}
	}
	return windows
}

// addCounts adds a class of requests to windows, and reports whether there were any.
func addCounts(windows []judge.Window, counted []metric.Window) (found bool) {
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
