// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package analysis_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/analysis"
	"github.com/weir-rollouts/weir/pkg/judge"
	"github.com/weir-rollouts/weir/pkg/metric"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/source"
)

// onlyMeasurement is the check of a Rollout, as it was measured.
func onlyMeasurement(t *testing.T, m *analysis.Runner, c rollouts.Check) planner.MeasuredCheck {
	t.Helper()
	measured, err := m.Measurements(t.Context(), rollout(c))
	if err != nil || len(measured) != 1 {
		t.Fatalf("measured %d checks: %v", len(measured), err)
	}
	return measured[0]
}

// TestEditedCheck checks that an edited check has no measurements of the check before the edit.
func TestEditedCheck(t *testing.T) {
	p := &prometheus{bad: 1}
	run(t, p, func(m *analysis.Runner, _ chan event.GenericEvent) {
		began := time.Now().Truncate(5 * time.Second)
		m.SetRequests(web, subject, []planner.MeasurementRequest{{Check: rate, Began: began, From: began, Every: 5 * time.Second}})
		<-time.After(12 * time.Second)
		synctest.Wait()
		edited := rollouts.Check{SuccessRate: new("95%")}
		if of := onlyMeasurement(t, m, edited); of.Answered || *of.Check.SuccessRate != "95%" {
			t.Errorf("the edited check is measured as %+v", of)
		}
		if of := onlyMeasurement(t, m, rate); !of.Answered || len(of.Data.Windows) != 2 {
			t.Errorf("the check of before is measured as %+v", of)
		}
	})
}

// TestEditedWindows checks that a change of the window length causes new queries.
func TestEditedWindows(t *testing.T) {
	p := &prometheus{bad: 1}
	run(t, p, func(m *analysis.Runner, _ chan event.GenericEvent) {
		began := time.Now().Truncate(time.Minute)
		for _, every := range []time.Duration{20 * time.Second, 5 * time.Second} {
			m.SetRequests(web, subject, []planner.MeasurementRequest{{Check: rate, Began: began, From: began, Every: every}})
			<-time.After(42 * time.Second)
			synctest.Wait()
			for i, w := range onlyMeasurement(t, m, rate).Data.Windows {
				if want := began.Add(time.Duration(i) * every); !w.Start.Equal(want) {
					t.Errorf("window %d of %s begins at %s", i, every, w.Start)
				}
			}
		}
	})
}

// late is a source that answers a minute after it was asked.
type late struct{ *prometheus }

func (l late) Source(ctx context.Context, name, namespace string) (*analysis.Source, error) {
	of, err := l.prometheus.Source(ctx, name, namespace)
	ask := of.Query
	of.Query = func(ctx context.Context, r analysis.RangeQuery) ([]metric.Series, judge.Fault) {
		<-time.After(time.Minute)
		return ask(ctx, r)
	}
	return of, err
}

func (l late) QueryService(ctx context.Context, namespace string, h rollouts.HTTPCheck, window analysis.Window) (source.Answer, error) {
	<-time.After(time.Minute)
	return l.prometheus.QueryService(ctx, namespace, h, window)
}

// TestLateService checks that a late answer of a Service counts for the step of its query, not for
// a step that began in the meantime.
func TestLateService(t *testing.T) {
	p := &prometheus{answer: source.Answer{Code: 200, Body: []byte(`{"errors": 0}`)}}
	run(t, late{p}, func(m *analysis.Runner, _ chan event.GenericEvent) {
		since := setQuestion(m, health, false)
		<-time.After(70 * time.Second)
		synctest.Wait()
		if all := onlyMeasurement(t, m, health).Data.Samples; len(all) != 1 || all[0].At.Sub(since) > time.Second {
			t.Errorf("measured %+v, asked from %s on", all, since)
		}
	})
}

// TestLateAnswer checks that an answer is dropped if the check was edited after the query.
func TestLateAnswer(t *testing.T) {
	p := &prometheus{bad: 10}
	run(t, late{p}, func(m *analysis.Runner, _ chan event.GenericEvent) {
		began := time.Now().Truncate(5 * time.Second)
		question := planner.MeasurementRequest{Check: rate, Began: began, From: began, Every: 5 * time.Second}
		m.SetRequests(web, subject, []planner.MeasurementRequest{question})
		<-time.After(20 * time.Second)
		edited := rollouts.Check{SuccessRate: new("95%")}
		question.Check = edited
		m.SetRequests(web, subject, []planner.MeasurementRequest{question})
		<-time.After(2 * time.Minute)
		synctest.Wait()
		if of := onlyMeasurement(t, m, edited); of.Answered {
			t.Errorf("the answer to another question is %+v", of)
		}
	})
}

// forgetful is a source that does not answer about the time before a release.
type forgetful struct {
	*prometheus
	began time.Time
}

func (f forgetful) Source(ctx context.Context, name, namespace string) (*analysis.Source, error) {
	of, err := f.prometheus.Source(ctx, name, namespace)
	ask := of.Query
	of.Query = func(ctx context.Context, r analysis.RangeQuery) ([]metric.Series, judge.Fault) {
		if r.Start.Before(f.began) {
			return nil, judge.Fault{Why: "no answer within 10s", Since: time.Now()}
		}
		return ask(ctx, r)
	}
	return of, err
}

// TestUnknownPast checks that nothing is judged before the dispersion of the past is known.
func TestUnknownPast(t *testing.T) {
	p := forgetful{&prometheus{bad: 10}, time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)}
	run(t, p, func(m *analysis.Runner, _ chan event.GenericEvent) {
		began := time.Now()
		m.SetRequests(web, subject, []planner.MeasurementRequest{{Check: rate, Began: began, From: began, Every: 5 * time.Second}})
		<-time.After(time.Minute)
		synctest.Wait()
		if data := onlyMeasurement(t, m, rate).Data; len(data.Windows) > 0 || data.Fault.Why == "" {
			t.Errorf("measured %d windows, fault %q", len(data.Windows), data.Fault.Why)
		}
	})
}

// shared is a source in a namespace with a Check that plans use.
type shared struct {
	*prometheus
	check rollouts.Check
}

func (s *shared) ResolveCheck(_ context.Context, _ string, c rollouts.Check) (rollouts.Check, bool, error) {
	if c.Use == nil {
		return c, false, nil
	}
	return s.check, false, nil
}

var jvm = rollouts.Check{Use: &rollouts.CheckRef{Kind: "Check", Name: "jvm"}}

// TestEditedSharedCheck edits a Check that a plan uses in the middle of a release. All windows are
// queried again, so that no verdict combines the answers to two queries.
func TestEditedSharedCheck(t *testing.T) {
	query := func(text string) rollouts.Check { return rollouts.Check{Query: &rollouts.QueryCheck{PromQL: text}} }
	p := &shared{prometheus: &prometheus{}, check: query("heap")}
	p.series = func(r analysis.RangeQuery) []metric.Series {
		s := metric.Series{}
		for range r.Windows {
			s.Values = append(s.Values, metric.Value{Number: float64(len(r.PromQL)), Known: true})
		}
		return []metric.Series{s}
	}
	run(t, p, func(m *analysis.Runner, woken chan event.GenericEvent) {
		began := time.Now().Truncate(5 * time.Second)
		question := planner.MeasurementRequest{Check: jvm, Began: began, From: began, Every: 5 * time.Second}
		m.SetRequests(web, subject, []planner.MeasurementRequest{question})
		<-time.After(17 * time.Second)
		synctest.Wait()
		if of := onlyMeasurement(t, m, jvm); len(of.Data.Samples) != 3 || of.Data.Samples[0].Value != 4 || of.Check.Query.PromQL != "heap" {
			t.Fatalf("measured %+v", of)
		}
		p.check = query("threads")
		woken = discardEvents(woken)
		<-time.After(5 * time.Second)
		synctest.Wait()
		of := onlyMeasurement(t, m, jvm)
		if len(of.Data.Samples) != 4 || len(of.Data.Windows) != 4 || of.Check.Query.PromQL != "threads" || len(woken) == 0 {
			t.Errorf("after the edit it measures %+v, and wakes the Rollout %d times", of, len(woken))
		}
		for _, s := range of.Data.Samples {
			if s.Value != 7 {
				t.Errorf("an answer to the earlier query counts: %+v", s)
			}
		}
	})
}

func discardEvents(woken chan event.GenericEvent) chan event.GenericEvent {
	for len(woken) > 0 {
		<-woken
	}
	return woken
}

// TestEditedSharedService checks that answers of a Service are dropped if the check names another
// Service.
func TestEditedSharedService(t *testing.T) {
	of := func(name string) rollouts.Check { return rollouts.Check{HTTP: &rollouts.HTTPCheck{Service: name}} }
	p := &shared{prometheus: &prometheus{answer: source.Answer{Code: 500}}, check: of("old")}
	run(t, p, func(m *analysis.Runner, _ chan event.GenericEvent) {
		setQuestion(m, jvm, false)
		<-time.After(40 * time.Second)
		synctest.Wait()
		if all := onlyMeasurement(t, m, jvm).Data.Samples; len(all) < 2 || all[0].Value != 0 {
			t.Fatalf("measured %+v", all)
		}
		p.check, p.answer = of("other"), source.Answer{Code: 200}
		<-time.After(40 * time.Second)
		synctest.Wait()
		all := onlyMeasurement(t, m, jvm).Data.Samples
		for _, s := range all {
			if s.Value != 1 {
				t.Errorf("an answer of the earlier Service counts: %+v", s)
			}
		}
		if len(all) == 0 {
			t.Error("nothing is measured after the edit")
		}
	})
}

// TestWindowsAgain checks that evidence which was folded for an earlier check is not used. The
// windows are queried again from the beginning of the attempt.
func TestWindowsAgain(t *testing.T) {
	p := &prometheus{bad: 1}
	run(t, p, func(m *analysis.Runner, _ chan event.GenericEvent) {
		began := time.Now().Truncate(5 * time.Second)
		question := planner.MeasurementRequest{Check: rate, Began: began, From: began, Every: 5 * time.Second}
		for _, row := range []struct {
			from, wait time.Duration
			want       int
		}{{0, 22 * time.Second, 4}, {10 * time.Second, 5 * time.Second, 3}, {0, 5 * time.Second, 6}} {
			question.From = began.Add(row.from)
			m.SetRequests(web, subject, []planner.MeasurementRequest{question})
			<-time.After(row.wait)
			synctest.Wait()
			if got := onlyMeasurement(t, m, rate).Data.Windows; len(got) != row.want || !got[0].Start.Equal(question.From) {
				t.Errorf("from %s on it has %d windows, want %d", row.from, len(got), row.want)
			}
		}
	})
}
