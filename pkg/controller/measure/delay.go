// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/judge"
	"github.com/weir-rollouts/weir/pkg/metric"
)

// A source may be behind: remote write delivers samples late, or the clock of the source differs. The
// counts of a window are complete once the source has a sample that is not older than the end of the
// window. Until then the window is not kept, and is read again.

const (
	// abandoned is the age at which a window is kept as it is: its pods are gone, or are not scraped.
	abandoned = time.Hour
	// An incomplete window is read again after soonestAgain at the earliest.
	soonestAgain = time.Second
	// A delay below leastDelay, and a clock that differs by less than leastAhead, are not mentioned.
	leastDelay, leastAhead = 10 * time.Second, 5 * time.Second
	// clocksDiffer is the least difference of clocks that explains a delay.
	clocksDiffer = time.Minute
	// recent is the number of looks whose smallest delay is the delay of the source. Between two scrapes
	// the newest sample grows old although the source is not behind.
	recent = 5
	// stuck is how long a source may have no newer sample before the message is about missing samples.
	stuck = 2 * time.Minute
)

// delay is how far a source is behind the requests that a check counts.
type delay struct {
	// newest is the time of the newest sample; zero if the source has none.
	newest time.Time
	// grew is when newest was last seen to grow.
	grew time.Time
	// seen has the delays of the last looks, in order.
	seen []time.Duration
	// incomplete reports whether the last answer had a window that was not kept.
	incomplete bool
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// keepComplete removes the windows from the index on that are not complete, with their samples. It
// returns how many of the windows remain.
func (s *series) keepComplete(from int, now time.Time) int {
	d, every := &s.measured.Data, s.question.Every
	s.delay.incomplete = false
	if s.question.Try || len(d.Windows) <= from {
		return len(d.Windows) // the last day is tried as it is, or all windows are read again
	}
	for i := from; i < len(d.Windows); i++ {
		end := d.Windows[i].Start.Add(every)
		if !end.After(s.delay.newest) || now.Sub(end) >= abandoned {
			continue
		}
		s.delay.incomplete = true
		d.Windows = d.Windows[:i:i]
		d.Samples = slices.DeleteFunc(slices.Clone(d.Samples), func(s judge.Sample) bool { return !s.At.Before(end) })
	}
	return len(d.Windows) - from
}

// observe adds the delay of an answer to those that were seen before.
func (d *delay) observe(now time.Time, before delay) {
	if d.newest.After(before.newest) {
		d.grew = now
	}
	if d.newest.IsZero() {
		d.newest = before.newest // the pods are not scraped now, or their series are older than Prometheus shows
	}
	if d.newest.IsZero() {
		return
	}
	d.seen = append(slices.Clone(before.seen), max(now.Sub(d.newest), 0))
	d.seen = d.seen[max(len(d.seen)-recent, 0):]
}

// least is the smallest of the delays that were seen lately; 0 if none was.
func (d *delay) least() time.Duration {
	if len(d.seen) == 0 {
		return 0
	}
	return slices.Min(d.seen)
}

// text says how far a source is behind, if it is further behind than usual.
func (d *delay) text(source string, usual, ahead, skew time.Duration, now time.Time) string {
	behind := d.least()
	switch {
	case ahead >= leastAhead:
		return fmt.Sprintf("the clock of %s is %s ahead", source, rough(ahead))
	case behind <= usual || behind < leastDelay:
		return ""
	case now.Sub(d.grew) >= stuck:
		return fmt.Sprintf("%s has no samples since %s", source, d.newest.UTC().Format(time.TimeOnly))
	case behind >= clocksDiffer && -skew >= clocksDiffer:
		return fmt.Sprintf("the clock of %s is %s behind", source, rough(behind))
	}
	return fmt.Sprintf("%s is %s behind", source, rough(behind))
}

// rough rounds to tens of seconds, or to minutes, so that the text seldom changes.
func rough(d time.Duration) string {
	if d < 2*time.Minute {
		return fmt.Sprintf("%d s", d.Truncate(10*time.Second)/time.Second)
	}
	return fmt.Sprintf("%d min", d/time.Minute)
}

// nextLook is when the next window may be complete. Where scrapes are rare, the newest sample is old
// although the source is not behind.
func (s *series) nextLook(lag time.Duration) time.Time {
	if behind := s.delay.least(); behind > s.measured.Data.Scrape {
		lag = max(lag, behind)
	}
	return s.nextWindow().Add(s.question.Every + lag)
}

// retry returns how long to wait until the window that ends at end may be complete. A source that is behind
// by a constant time then has samples of the end of the window. A source that is not behind has them with
// the next scrape.
func (d *delay) retry(end time.Time, scrape, every time.Duration, now time.Time) time.Duration {
	wait := every
	if !d.newest.IsZero() {
		wait = end.Sub(d.newest)
		if next := d.newest.Add(scrape).Sub(now) + soonestAgain; scrape > 0 && next > 0 {
			wait = next
		}
	}
	return min(max(wait, soonestAgain), every)
}

const (
	// learnEvery is the time after which the interval of scrapes is learnt again.
	learnEvery = 10 * time.Minute
	// learnFrom is how much of the past, and of the future if the clock of the source is ahead, shows it.
	learnFrom = metric.MaxScrape
	// learnStep is the time between two instants. It is shorter where windows are short: an interval
	// that is shorter than the step looks as long as the step.
	learnStep = 5 * time.Second
)

// askScrapes learns the interval of scrapes, at first and again now and then, and how far the samples
// are ahead of the time.
func (s *series) askScrapes(ctx context.Context, from *Source, subject Subject, check rollouts.Check, now time.Time) judge.Fault {
	first, known := s.scrapesAsked.IsZero(), s.measured.Data.Scrape > 0
	numbers := check.Query != nil && check.Query.PromQL != ""
	if s.question.Try || numbers || check.Query == nil && s.row == nil || known && now.Sub(s.scrapesAsked) < learnEvery {
		return judge.Fault{}
	}
	step := min(learnStep, max(s.question.Every/5, time.Second)).Truncate(time.Second)
	var text string
	var err error
	switch q := check.Query; {
	case q != nil:
		text, err = metric.UserScrapes(q.Total, nil, subject.Release, s.question.Every, step)
	default:
		text, err = s.row.Scrapes(subject.Release, from.Dialect, step)
	}
	if err != nil {
		return judge.Fault{Why: err.Error(), Since: now, Invalid: true}
	}
	// The query looks at learnFrom before each of two instants: now, and later for a clock that is ahead.
	answer, fault := from.Ask(ctx, Range{
		Text: text, Namespace: subject.Release.Namespace, Since: now.Truncate(step).Add(-learnFrom), Every: learnFrom, Windows: 2,
	})
	if fault.Why != "" && !first {
		return judge.Fault{} // what was learnt before is still true enough
	}
	if fault.Why != "" {
		return fault
	}
	s.scrapesAsked = now
	if learnt := metric.Scrape(answer); learnt > 0 {
		s.measured.Data.Scrape = learnt
	}
	s.measured.Ahead = 0
	if ahead := metric.Newest(answer).Sub(now).Round(time.Second); ahead >= leastAhead && ahead <= learnFrom {
		s.measured.Ahead = ahead
	}
	return judge.Fault{}
}
