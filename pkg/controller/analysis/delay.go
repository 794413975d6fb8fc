// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/judge"
	"github.com/weir-rollouts/weir/pkg/metric"
)

// A source may be behind: remote write delivers samples late, or the clock of the source differs.
// The counts of a window are complete once the source has a sample that is not older than the end
// of the window. An incomplete window is not kept, and is queried again.

const (
	// maxWindowAge is the age at which an incomplete window is kept: its pods are gone, or are not
	// scraped.
	maxWindowAge = time.Hour
	// minReread is the shortest time after which an incomplete window is queried again.
	minReread = time.Second
	// Delays below minReportedDelay, and clock differences below minReportedAhead, are not
	// mentioned.
	minReportedDelay, minReportedAhead = 10 * time.Second, 5 * time.Second
	// minClockDifference is the smallest clock difference that explains a delay.
	minClockDifference = time.Minute
	// recentLooks is the number of recent measurements whose smallest delay counts as the delay of
	// the source. Between two scrapes the newest sample grows old although the source is not
	// behind.
	recentLooks = 5
	// noSamplesAfter is the time without a newer sample after which the message is about missing
	// samples.
	noSamplesAfter = 2 * time.Minute
)

// delay is how far a source is behind the requests that a check counts.
type delay struct {
	// newest is the time of the newest sample; zero if the source has none.
	newest time.Time
	// grewAt is when newest last increased.
	grewAt time.Time
	// recentDelays has the delays of the last measurements, in order.
	recentDelays []time.Duration
	// hasIncompleteWindow reports whether the last answer had a window that was not kept.
	hasIncompleteWindow bool
}

// laterOf returns the later of two times.
func laterOf(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// dropIncompleteWindows removes the windows, from the index on, that are not complete, and their
// samples. It returns how many of them remain.
func (s *series) dropIncompleteWindows(from int, now time.Time) int {
	d, every := &s.measured.Data, s.question.Every
	s.delay.hasIncompleteWindow = false
	if s.question.Try || len(d.Windows) <= from {
		return len(d.Windows) // the last day is tried as it is, or all windows are read again
	}
	for i := from; i < len(d.Windows); i++ {
		end := d.Windows[i].Start.Add(every)
		if !end.After(s.delay.newest) || now.Sub(end) >= maxWindowAge {
			continue
		}
		s.delay.hasIncompleteWindow = true
		d.Windows = d.Windows[:i:i]
		d.Samples = slices.DeleteFunc(slices.Clone(d.Samples), func(s judge.Sample) bool { return !s.At.Before(end) })
	}
	return len(d.Windows) - from
}

// observe adds the delay of an answer to the delays of earlier answers.
func (d *delay) observe(now time.Time, before delay) {
	if d.newest.After(before.newest) {
		d.grewAt = now
	}
	if d.newest.IsZero() {
		d.newest = before.newest // the pods are not scraped now, or their series are older than Prometheus shows
	}
	if d.newest.IsZero() {
		return
	}
	d.recentDelays = append(slices.Clone(before.recentDelays), max(now.Sub(d.newest), 0))
	d.recentDelays = d.recentDelays[max(len(d.recentDelays)-recentLooks, 0):]
}

// minimum returns the smallest recent delay; 0 if there is none.
func (d *delay) minimum() time.Duration {
	if len(d.recentDelays) == 0 {
		return 0
	}
	return slices.Min(d.recentDelays)
}

// message says how far a source is behind, if it is further behind than usual.
func (d *delay) message(source string, usual, ahead, skew time.Duration, now time.Time) string {
	behind := d.minimum()
	switch {
	case ahead >= minReportedAhead:
		return fmt.Sprintf("the clock of %s is %s ahead", source, roundDuration(ahead))
	case behind <= usual || behind < minReportedDelay:
		return ""
	case now.Sub(d.grewAt) >= noSamplesAfter:
		return fmt.Sprintf("%s has no samples since %s", source, d.newest.UTC().Format(time.TimeOnly))
	case behind >= minClockDifference && -skew >= minClockDifference:
		return fmt.Sprintf("the clock of %s is %s behind", source, roundDuration(behind))
	}
	return fmt.Sprintf("%s is %s behind", source, roundDuration(behind))
}

// roundDuration rounds to tens of seconds, or to minutes, so that the message seldom changes.
func roundDuration(d time.Duration) string {
	if d < 2*time.Minute {
		return fmt.Sprintf("%d s", d.Truncate(10*time.Second)/time.Second)
	}
	return fmt.Sprintf("%d min", d/time.Minute)
}

// nextMeasurement returns when the next window may be complete. If scrapes are rare, the newest
// sample is old although the source is not behind.
func (s *series) nextMeasurement(lag time.Duration) time.Time {
	if behind := s.delay.minimum(); behind > s.measured.Data.Scrape {
		lag = max(lag, behind)
	}
	return s.nextWindow().Add(s.question.Every + lag)
}

// retryAfter returns how long to wait until the window that ends at end may be complete. A source
// that is behind by a constant time then has samples of the end of the window. A source that is not
// behind has them with the next scrape.
func (d *delay) retryAfter(end time.Time, scrape, every time.Duration, now time.Time) time.Duration {
	wait := every
	if !d.newest.IsZero() {
		wait = end.Sub(d.newest)
		if next := d.newest.Add(scrape).Sub(now) + minReread; scrape > 0 && next > 0 {
			wait = next
		}
	}
	return min(max(wait, minReread), every)
}

const (
	// scrapeReadInterval is the time after which the interval between scrapes is queried again.
	scrapeReadInterval = 10 * time.Minute
	// scrapeReadRange is how much of the past the query covers. It also covers this much of the
	// future, because the clock of the source may be ahead.
	scrapeReadRange = metric.MaxScrape
	// scrapeReadStep is the time between two evaluations of the query. It is shorter if windows are
	// short: an interval below the step looks as long as the step.
	scrapeReadStep = 5 * time.Second
)

// queryScrapeInterval queries the interval between scrapes, first and then periodically, and how
// far the timestamps of samples are in the future.
func (s *series) queryScrapeInterval(ctx context.Context, from *Source, subject Subject, check rollouts.Check, now time.Time) judge.Fault {
	first, known := s.scrapeIntervalReadAt.IsZero(), s.measured.Data.Scrape > 0
	numbers := check.Query != nil && check.Query.PromQL != ""
	wasRead := !first && now.Sub(s.scrapeIntervalReadAt) < scrapeReadInterval
	if s.question.Try || check.Query == nil && s.row == nil || wasRead && (known || numbers) {
		return judge.Fault{}
	}
	step := min(scrapeReadStep, max(s.question.Every/5, time.Second)).Truncate(time.Second)
	var text string
	var err error
	switch q := check.Query; {
	case numbers:
		// The number has no timestamps, so the targets of the namespace have to show the clock of the source.
		text, err = metric.NamespaceScrapeIntervalQuery(subject.Release, step)
	case q != nil:
		text, err = metric.UserScrapeIntervalQuery(q.Total, nil, subject.Release, s.question.Every, step)
	default:
		text, err = s.row.ScrapeIntervalQuery(subject.Release, from.Dialect, step)
	}
	if err != nil {
		return judge.Fault{Why: err.Error(), Since: now, Invalid: true}
	}
	// The query covers scrapeReadRange before each of two instants: now, and later for a clock that is ahead.
	answer, fault := from.Query(ctx, RangeQuery{
		PromQL: text, Namespace: subject.Release.Namespace, Start: now.Truncate(step).Add(-scrapeReadRange), Step: scrapeReadRange, Windows: 2,
	})
	if fault.Why != "" && !first {
		return judge.Fault{} // what was learnt before is still true enough
	}
	if fault.Why != "" {
		return fault
	}
	s.scrapeIntervalReadAt = now
	if learnt := metric.ScrapeInterval(answer); learnt > 0 {
		s.measured.Data.Scrape = learnt
	}
	s.measured.ClockAhead = 0
	if ahead := metric.Newest(answer).Sub(now).Round(time.Second); ahead >= minReportedAhead && ahead <= scrapeReadRange {
		s.measured.ClockAhead = ahead
	}
	return judge.Fault{}
}
