// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package analysis_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/analysis"
	"github.com/weir-rollouts/weir/pkg/judge"
	"github.com/weir-rollouts/weir/pkg/metric"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// remote is a source with remote write: it has samples only up to a time, and the windows that end
// later have no requests yet. The window in progress at that time has a part of its requests.
type remote struct {
	*prometheus
	// late returns how late samples arrive now.
	late func() time.Duration
	skew time.Duration
}

func (s remote) Source(ctx context.Context, name, namespace string) (*analysis.Source, error) {
	of, err := s.prometheus.Source(ctx, name, namespace)
	if err != nil {
		return nil, err
	}
	of.Skew = s.skew
	ask := of.Query
	of.Query = func(ctx context.Context, r analysis.RangeQuery) ([]metric.Series, judge.Fault) {
		s.behind = s.late()
		newest := time.Now().Add(-s.behind)
		answer, fault := ask(ctx, r)
		for _, series := range answer {
			if v := series.Labels["weir_version"]; v != "new" && v != "stable" {
				continue
			}
			for i := range series.Values {
				switch start := r.Start.Add(time.Duration(i) * r.Step); {
				case !start.Before(newest):
					series.Values[i] = metric.Value{}
				case start.Add(r.Step).After(newest):
					series.Values[i].Number /= 2
				}
			}
		}
		return answer, fault
	}
	return of, err
}

func constantDelay(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

// each is what every complete window has.
var each = judge.Pair{New: judge.Count{Total: 10, Bad: 1}, Old: judge.Count{Total: 90}}

// wantComplete wants only complete windows, and so many.
func wantComplete(t *testing.T, m *analysis.Runner, least, most int) planner.MeasuredCheck {
	t.Helper()
	of := onlyMeasurement(t, m, rate)
	if n := len(of.Data.Windows); n < least || n > most {
		t.Errorf("%d windows are measured, want %d to %d", n, least, most)
	}
	for i, w := range of.Data.Windows {
		if diff := cmp.Diff([]judge.Pair{each}, w.Counts); diff != "" {
			t.Errorf("window %d is incomplete (-want +got):\n%s", i, diff)
		}
	}
	return of
}

func askSuccessRate(m *analysis.Runner, every time.Duration) (began time.Time) {
	began = time.Now().Truncate(every)
	m.SetRequests(web, subject, []planner.MeasurementRequest{{Check: rate, Began: began, From: began, Every: every}})
	return began
}

// TestBehind has a source that is always 40 seconds behind. Each window is complete 40 seconds
// later. The message says how far the source is behind, and seldom changes.
func TestBehind(t *testing.T) {
	p := &prometheus{bad: 1}
	run(t, remote{p, constantDelay(40 * time.Second), 0}, func(m *analysis.Runner, woken chan event.GenericEvent) {
		askSuccessRate(m, 5*time.Second)
		<-time.After(30 * time.Second)
		synctest.Wait()
		if of := wantComplete(t, m, 0, 0); of.Delay != "source default is 40 s behind" || !of.Answered {
			t.Errorf("the message is %q", of.Delay)
		}
		<-time.After(2 * time.Minute)
		synctest.Wait()
		wantComplete(t, m, 21, 22)
		if n := len(woken); n > 25 {
			t.Errorf("the Rollout was woken %d times for %d windows", n, 22)
		}
		before := len(p.asked)
		<-time.After(time.Minute)
		synctest.Wait()
		if n := len(p.asked) - before; n > 13 {
			t.Errorf("12 windows took %d queries", n)
		}
		wantFresh(t, p.asked)
	})
}

// wantFresh wants no question twice that a cache may answer.
func wantFresh(t *testing.T, asked []analysis.RangeQuery) {
	t.Helper()
	var before []analysis.RangeQuery
	for _, r := range asked {
		again := r
		again.BypassCache = false
		if slices.Contains(before, again) && !r.BypassCache {
			t.Errorf("asked twice: %+v", r)
		}
		before = append(before, again)
	}
}

// TestFallsBehind has a source that falls behind in the middle of a release and catches up. No
// window is lost.
func TestFallsBehind(t *testing.T) {
	began := time.Now()
	late := func() time.Duration {
		if since := time.Since(began); since > 30*time.Second && since < 3*time.Minute {
			return since - 30*time.Second
		}
		return 0
	}
	run(t, remote{&prometheus{bad: 1}, func() time.Duration { return late() }, 0}, func(m *analysis.Runner, _ chan event.GenericEvent) {
		began = time.Now()
		askSuccessRate(m, 5*time.Second)
		<-time.After(2*time.Minute + 50*time.Second)
		synctest.Wait()
		if of := wantComplete(t, m, 5, 6); of.Delay != "source default has no samples since "+began.Add(30*time.Second).UTC().Format(time.TimeOnly) {
			t.Errorf("while it is behind, the message is %q", of.Delay)
		}
		<-time.After(70 * time.Second)
		synctest.Wait()
		if of := wantComplete(t, m, 46, 48); of.Delay != "" {
			t.Errorf("after it has caught up, the message is %q", of.Delay)
		}
	})
}

// TestRareScrapes has scrapes every 20 seconds, and a window that ends 2 seconds before a scrape.
// The window is kept soon after this scrape, without a query each second.
func TestRareScrapes(t *testing.T) {
	p := &prometheus{bad: 1, scrape: 20}
	late := func() time.Duration { return time.Duration((time.Now().Unix()+8)%20) * time.Second }
	run(t, remote{p, late, 0}, func(m *analysis.Runner, _ chan event.GenericEvent) {
		askSuccessRate(m, 30*time.Second)
		<-time.After(91*time.Second + time.Millisecond)
		synctest.Wait()
		wantComplete(t, m, 2, 2)
		<-time.After(3 * time.Second)
		synctest.Wait()
		if of := wantComplete(t, m, 3, 3); of.Delay != "" || of.Data.Scrape != 20*time.Second {
			t.Errorf("the message is %q, scrapes every %s", of.Delay, of.Data.Scrape)
		}
		before := len(p.asked)
		<-time.After(10 * time.Minute)
		synctest.Wait()
		if n := len(p.asked) - before; n > 42 {
			t.Errorf("20 windows took %d queries", n)
		}
		wantFresh(t, p.asked)
	})
}

// TestNotScraped has pods that are not scraped for a while. The message names the last sample.
func TestNotScraped(t *testing.T) {
	p := &prometheus{bad: 1}
	run(t, p, func(m *analysis.Runner, _ chan event.GenericEvent) {
		began := askSuccessRate(m, 5*time.Second)
		<-time.After(32 * time.Second)
		p.series = func(analysis.RangeQuery) []metric.Series { return nil }
		p.unscraped = true
		<-time.After(3 * time.Minute)
		synctest.Wait()
		of := wantComplete(t, m, 6, 6)
		if want := "source default has no samples since " + began.Add(31*time.Second).UTC().Format(time.TimeOnly); of.Delay != want {
			t.Errorf("the message is %q, want %q", of.Delay, want)
		}
		p.series, p.unscraped = nil, false
		<-time.After(10 * time.Second)
		synctest.Wait()
		if of := wantComplete(t, m, 43, 44); of.Delay != "" {
			t.Errorf("after it, the message is %q", of.Delay)
		}
	})
}

// TestBehindRestart restarts the controller while its source is behind. The windows are the same as
// without a restart.
func TestBehindRestart(t *testing.T) {
	measured := func(restart bool) (of planner.MeasuredCheck) {
		source := remote{&prometheus{bad: 1}, constantDelay(40 * time.Second), 0}
		synctest.Test(t, func(t *testing.T) {
			began := time.Now().Truncate(5 * time.Second)
			ask := []planner.MeasurementRequest{{Check: rate, Began: began, From: began, Every: 5 * time.Second}}
			of = measuredBy(t, source, func(m *analysis.Runner) {
				m.SetRequests(web, subject, ask)
				<-time.After(90 * time.Second)
				if restart {
					return
				}
				<-time.After(90 * time.Second)
			})
			if restart {
				of = measuredBy(t, source, func(m *analysis.Runner) {
					m.SetRequests(web, subject, ask)
					<-time.After(90 * time.Second)
				})
			}
		})
		return of
	}
	if diff := cmp.Diff(measured(false).Data, measured(true).Data); diff != "" {
		t.Errorf("after a restart (-without +with):\n%s", diff)
	}
}

// measuredBy is what a controller of its own has measured when do returns.
func measuredBy(t *testing.T, sources analysis.Sources, do func(*analysis.Runner)) planner.MeasuredCheck {
	t.Helper()
	m, stop := start(t, sources, make(chan event.GenericEvent, 1000))
	do(m)
	synctest.Wait()
	of := onlyMeasurement(t, m, rate)
	stop()
	return of
}

// TestClocks has a source whose clock differs: if it is behind, samples look old, and if it is
// ahead, they are in the future.
func TestClocks(t *testing.T) {
	for _, test := range []struct {
		name, want string
		late, skew time.Duration
		ahead      time.Duration
	}{
		{"the same", "", 0, 0, 0},
		{"a second ahead", "", -time.Second, time.Second, 0},
		{"behind", "the clock of source default is 3 min behind", 3 * time.Minute, -3 * time.Minute, 0},
		{"behind by remote write", "source default is 3 min behind", 3 * time.Minute, 0, 0},
		{"a proxy whose clock is behind", "", 0, -3 * time.Minute, 0},
		{"ahead", "the clock of source default is 2 min ahead", -2 * time.Minute, 2 * time.Minute, 2 * time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			run(t, remote{&prometheus{bad: 1}, constantDelay(test.late), test.skew}, func(m *analysis.Runner, _ chan event.GenericEvent) {
				askSuccessRate(m, 5*time.Second)
				<-time.After(4 * time.Minute)
				synctest.Wait()
				of := wantComplete(t, m, 10, 48)
				if of.Delay != test.want || of.ClockAhead != test.ahead {
					t.Errorf("got %q, %s ahead; want %q, %s ahead", of.Delay, of.ClockAhead, test.want, test.ahead)
				}
			})
		})
	}
}

// TestScrapesAndPods checks that the scrape interval and the request counts of stable pods are
// known before the first verdict. They are queried again after some time, and after a restart.
func TestScrapesAndPods(t *testing.T) {
	slow := rollouts.Check{Latency: &rollouts.LatencyCheck{Share: "99%", BelowMilliseconds: 300}}
	for _, check := range []rollouts.Check{rate, slow, {Query: &rollouts.QueryCheck{Bad: `m_bad{pod=~"$pods"}`, Total: `m{pod=~"$pods"}`}}} {
		t.Run(rollouts.CheckName(&check), func(t *testing.T) {
			p := &prometheus{bad: 1, buckets: []string{"100", "500.0", "1000", "+Inf"}}
			if check.Query != nil {
				p.series = userCounts
			}
			run(t, p, func(m *analysis.Runner, _ chan event.GenericEvent) {
				began, of := time.Now().Truncate(5*time.Second), subject
				of.Routers = nil
				of.Release.New.Pods, of.Release.Stable.Pods = "web-5d8f-.*", "web-77c4-.*"
				m.SetRequests(web, of, []planner.MeasurementRequest{{Check: check, Began: began, From: began, Every: 5 * time.Second}})
				<-time.After(7 * time.Second)
				synctest.Wait()
				data := onlyMeasurement(t, m, check).Data
				if len(data.Windows) != 1 || data.Scrape != 15*time.Second {
					t.Errorf("%d windows, and scrapes every %s", len(data.Windows), data.Scrape)
				}
				if diff := cmp.Diff([]judge.Count{{Total: 1000, Bad: 2}, {Total: 900, Bad: 40}}, data.Pods); diff != "" {
					t.Errorf("pods (-want +got):\n%s", diff)
				}
				<-time.After(15 * time.Minute)
				synctest.Wait()
				scrapes, pods := 0, 0
				for _, r := range p.asked {
					if strings.Contains(r.PromQL, `"gap"`) {
						scrapes++
					}
					if strings.Contains(r.PromQL, "weir_pod") {
						pods++
						if slow := strings.Contains(r.PromQL, `le="500.0"`); slow != (check.Latency != nil) {
							t.Errorf("pods are asked for slow requests: %v, in %s", slow, r.PromQL)
						}
					}
				}
				if scrapes != 2 || pods != 1 {
					t.Errorf("asked %d times for scrapes, and %d times for pods", scrapes, pods)
				}
			})
		})
	}
}

// userCounts are those of a check that selects its own counters.
func userCounts(r analysis.RangeQuery) []metric.Series {
	of := func(version, class string, n float64) metric.Series {
		s := metric.Series{Labels: map[string]string{"weir_version": version, "weir_class": class}}
		for range r.Windows {
			s.Values = append(s.Values, metric.Value{Number: n, Known: true})
		}
		return s
	}
	return []metric.Series{of("new", "total", 10), of("new", "bad", 1), of("stable", "total", 90), of("stable", "bad", 0)}
}

// TestQueriesOfAWindow checks that one query for a window returns the requests and the newest
// sample.
func TestQueriesOfAWindow(t *testing.T) {
	p := &prometheus{bad: 1}
	run(t, p, func(m *analysis.Runner, _ chan event.GenericEvent) {
		askSuccessRate(m, 5*time.Second)
		<-time.After(20 * time.Second)
		synctest.Wait()
		before := len(p.asked)
		<-time.After(50 * time.Second)
		synctest.Wait()
		if n := len(p.asked) - before; n != 10 {
			t.Errorf("10 windows took %d queries", n)
		}
	})
}

// TestNumbersBehind checks that a check of a number has no value while its source is behind, and
// all values afterwards.
func TestNumbersBehind(t *testing.T) {
	check := rollouts.Check{Query: &rollouts.QueryCheck{PromQL: "max(heap)", Max: new("1")}}
	for _, targets := range []bool{true, false} {
		p := &prometheus{}
		p.series = func(r analysis.RangeQuery) []metric.Series {
			s := metric.Series{Values: make([]metric.Value, r.Windows)}
			for i := range s.Values {
				s.Values[i] = metric.Value{Number: 2, Known: !r.Start.Add(time.Duration(i+1) * r.Step).After(time.Now().Add(-p.behind))}
			}
			return []metric.Series{s}
		}
		p.noTargets = !targets
		run(t, remote{p, constantDelay(40 * time.Second), 0}, func(m *analysis.Runner, _ chan event.GenericEvent) {
			began := time.Now().Truncate(5 * time.Second)
			m.SetRequests(web, subject, []planner.MeasurementRequest{{Check: check, Began: began, From: began, Every: 5 * time.Second}})
			<-time.After(100 * time.Second)
			synctest.Wait()
			of := onlyMeasurement(t, m, check)
			if n := len(of.Data.Samples); n < 11 || n > 12 || len(of.Data.Windows) != n {
				t.Errorf("targets %v: %d samples in %d windows", targets, n, len(of.Data.Windows))
			}
			if of.Delay != "source default is 40 s behind" {
				t.Errorf("targets %v: the message is %q", targets, of.Delay)
			}
		})
	}
}

// TestNumbersAhead has a source whose clock is ahead: the first numbers of a step are about the time before it. The
// targets of the namespace show by how much, and they are queried for it rarely.
func TestNumbersAhead(t *testing.T) {
	check := rollouts.Check{Query: &rollouts.QueryCheck{PromQL: "max(heap)", Max: new("1")}}
	p := &prometheus{}
	p.series = func(r analysis.RangeQuery) []metric.Series {
		s := metric.Series{}
		for range r.Windows {
			s.Values = append(s.Values, metric.Value{Number: 2, Known: true})
		}
		return []metric.Series{s}
	}
	run(t, remote{p, constantDelay(-2 * time.Minute), 2 * time.Minute}, func(m *analysis.Runner, _ chan event.GenericEvent) {
		began := time.Now().Truncate(5 * time.Second)
		m.SetRequests(web, subject, []planner.MeasurementRequest{{Check: check, Began: began, From: began, Every: 5 * time.Second}})
		<-time.After(4 * time.Minute)
		synctest.Wait()
		of := onlyMeasurement(t, m, check)
		if of.ClockAhead != 2*time.Minute || of.Delay != "the clock of source default is 2 min ahead" {
			t.Errorf("got %q, %s ahead", of.Delay, of.ClockAhead)
		}
		clocks := 0
		for _, r := range p.asked {
			if strings.Contains(r.PromQL, `"gap"`) {
				clocks++
			}
		}
		if clocks != 1 {
			t.Errorf("the clock is read %d times in 4 minutes", clocks)
		}
	})
}

// TestAbandonedWindows has pods that are gone, so that nothing is scraped any more. After an hour
// the incomplete windows are kept.
func TestAbandonedWindows(t *testing.T) {
	began := time.Now()
	run(t, remote{&prometheus{bad: 1}, func() time.Duration { return max(time.Since(began)-32*time.Second, 0) }, 0}, func(m *analysis.Runner, _ chan event.GenericEvent) {
		began = time.Now()
		askSuccessRate(m, 5*time.Second)
		<-time.After(50 * time.Minute)
		synctest.Wait()
		wantComplete(t, m, 6, 6)
		<-time.After(20 * time.Minute)
		synctest.Wait()
		if n := len(onlyMeasurement(t, m, rate).Data.Windows); n < 100 || n > 125 {
			t.Errorf("%d windows are kept", n)
		}
	})
}
