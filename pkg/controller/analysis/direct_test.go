// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package analysis_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/analysis"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/source"
)

var (
	health = rollouts.Check{HTTP: &rollouts.HTTPCheck{Service: "health", Pass: "body.errors < 5"}}
	smoke  = rollouts.Check{Job: &rollouts.JobCheck{CronJob: "web-smoke"}}
)

// setQuestion asks about a check from now on, whose step begins in two seconds, and the first window later.
func setQuestion(m *analysis.Runner, c rollouts.Check, passed bool) (since time.Time) {
	since = time.Now().Truncate(time.Second).Add(2 * time.Second)
	first := since.Add(28 * time.Second)
	m.SetRequests(web, subject, []planner.MeasurementRequest{{Check: c, Began: first, From: first, Every: 10 * time.Second, Since: since, Step: 2, Passed: passed}})
	return since
}

// sampleTexts is what a check has measured, and why it does not know more.
func sampleTexts(t *testing.T, m *analysis.Runner, c rollouts.Check) (all []string) {
	t.Helper()
	measured, err := m.Measurements(t.Context(), rollout(c))
	if err != nil || len(measured) != 1 {
		t.Fatalf("measured %d checks: %v", len(measured), err)
	}
	for _, s := range measured[0].Data.Samples {
		all = append(all, fmt.Sprintf("%v %s", s.Value, s.Says))
	}
	if f := measured[0].Data.Fault; f.Why != "" {
		all = append(all, fmt.Sprintf("invalid %v: %s", f.Invalid, f.Why))
	}
	return all
}

// TestServiceAnswers checks that a Service is queried when a step begins, and then at the beginning
// of each window. The message is one sentence. An answer that says nothing about the new version is
// a fault.
func TestServiceAnswers(t *testing.T) {
	const unclear = "invalid false: health answers 200, and body.errors < 5 is neither true nor false: the body lacks a field, or has another type"
	for _, test := range []struct {
		body  string
		fault error
		want  string
	}{
		{`{"errors": 4}`, nil, "1 health answers 200"},
		{`{"errors": 5}`, nil, "0 health answers 200: body.errors < 5 is false"},
		{`{"error": 4}`, nil, unclear},
		{`NaN`, nil, unclear},
		{"a\x00b", nil, unclear},
		{strings.Repeat("x", 129), nil, unclear},
		{`7`, nil, unclear},
		{`"secret"`, nil, unclear},
		{`{"errors": "secret"}`, nil, unclear},
		{"", errors.New("service health is of type ExternalName"), "invalid true: service health is of type ExternalName"},
	} {
		p := &prometheus{answer: source.Answer{Code: 200, Body: []byte(test.body)}, fault: test.fault}
		run(t, p, func(m *analysis.Runner, _ chan event.GenericEvent) {
			setQuestion(m, health, false)
			<-time.After(3 * time.Second)
			synctest.Wait()
			if diff := cmp.Diff([]string{test.want}, sampleTexts(t, m, health)); diff != "" {
				t.Errorf("%.20q (-want +got):\n%s", test.body, diff)
			}
		})
	}
}

func TestServiceWindows(t *testing.T) {
	p := &prometheus{answer: source.Answer{Code: 200, Body: []byte(`{"errors": 0}`)}}
	run(t, p, func(m *analysis.Runner, woken chan event.GenericEvent) {
		since := setQuestion(m, health, false)
		<-time.After(time.Second)
		synctest.Wait()
		if len(p.windows) > 0 {
			t.Error("asked before the step has begun")
		}
		<-time.After(31 * time.Second)
		synctest.Wait()
		if n := len(sampleTexts(t, m, health)); n != 4 || len(p.windows) != 4 || len(woken) != 4 {
			t.Errorf("%d answers of %d, woken %d times", n, len(p.windows), len(woken))
		}
		// What was answered before the step says nothing about it.
		for i, w := range p.windows {
			if want := since.Truncate(10 * time.Second).Add(time.Duration(i) * 10 * time.Second); i > 0 && !w.Equal(want) || i == 0 && !w.Equal(since) {
				t.Errorf("window %d begins at %s", i, w)
			}
		}
	})
}

// TestBodiesAreNotRepeated checks that no part of a response body appears in a message, because
// readers of the Rollout may not be allowed to call the Service.
func TestBodiesAreNotRepeated(t *testing.T) {
	for _, pass := range []string{"body.ok[body.password]", "body[body.password] == 1", "body.ok == body.password", "int(body.password) == 1", "duration(body.password) == duration('1s')"} {
		check := rollouts.Check{HTTP: &rollouts.HTTPCheck{Service: "health", Pass: pass}}
		p := &prometheus{answer: source.Answer{Code: 200, Body: []byte(`{"ok": {}, "password": "hunter2"}`)}}
		run(t, p, func(m *analysis.Runner, _ chan event.GenericEvent) {
			setQuestion(m, check, false)
			<-time.After(3 * time.Second)
			synctest.Wait()
			if all := strings.Join(sampleTexts(t, m, check), "; "); all == "" || strings.Contains(all, "hunter2") {
				t.Errorf("%s: %s", pass, all)
			}
		})
	}
}

// TestJob checks that a job is created when its step begins, is read until it has ended, and is not
// read after its step has passed.
func TestJob(t *testing.T) {
	p := &prometheus{outcome: analysis.Outcome{Name: "web-smoke-1"}}
	run(t, p, func(m *analysis.Runner, _ chan event.GenericEvent) {
		since := setQuestion(m, smoke, false)
		<-time.After(8 * time.Second)
		synctest.Wait()
		if got := sampleTexts(t, m, smoke); len(got) > 0 || len(p.jobs) != 2 {
			t.Errorf("measured %v, and looked %d times", got, len(p.jobs))
		}
		want := analysis.Job{Subject: subject, Check: "job", CronJob: "web-smoke", Began: since.Add(28 * time.Second), Since: since, Step: 2}
		if diff := cmp.Diff(want, p.jobs[0]); diff != "" {
			t.Errorf("the job (-want +got):\n%s", diff)
		}
		p.outcome.Ended = since.Add(-time.Second) // as a clock that is late says
		<-time.After(10 * time.Second)
		synctest.Wait()
		measured, _ := m.Measurements(t.Context(), rollout(smoke))
		if samples := measured[0].Data.Samples; len(samples) != 1 || !samples[0].At.After(since) || samples[0].Says != "job web-smoke-1 succeeded" {
			t.Errorf("measured %+v", samples)
		}
		looked := len(p.jobs)
		setQuestion(m, smoke, true)
		<-time.After(time.Minute)
		synctest.Wait()
		if len(p.jobs) > looked+1 {
			t.Errorf("looked %d times after it had passed", len(p.jobs)-looked)
		}
	})
}

func TestJobFails(t *testing.T) {
	for _, test := range []struct {
		why   string
		fault error
		want  string
	}{
		{"BackoffLimitExceeded: it ended\n7 times", nil, "0 job j failed: BackoffLimitExceeded: it ended 7 times"},
		{"", errors.New("cronjob web-smoke runs by itself"), "invalid true: cronjob web-smoke runs by itself"},
	} {
		p := &prometheus{outcome: analysis.Outcome{Name: "j", FailureReason: test.why, Ended: time.Now()}, fault: test.fault}
		run(t, p, func(m *analysis.Runner, _ chan event.GenericEvent) {
			setQuestion(m, smoke, false)
			<-time.After(5 * time.Second)
			synctest.Wait()
			if diff := cmp.Diff([]string{test.want}, sampleTexts(t, m, smoke)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestTry checks that a trial queries the whole last day once, and again only after an hour. The
// answer is marked as a trial. A check by http or job is not tried.
func TestTry(t *testing.T) {
	p := &prometheus{bad: 1}
	run(t, p, func(m *analysis.Runner, woken chan event.GenericEvent) {
		from := time.Now().Truncate(time.Hour).Add(-24 * time.Hour)
		questions := []planner.MeasurementRequest{{Check: rate, Began: from, From: from, Every: 2 * time.Minute, Try: true}, {Check: smoke, Began: from, From: from, Every: 2 * time.Minute, Try: true}}
		m.SetRequests(web, subject, questions)
		<-time.After(50 * time.Minute)
		synctest.Wait()
		measured, err := m.Measurements(t.Context(), rollout(rate, smoke))
		if err != nil || !measured[0].IsTrial || !measured[0].Answered || !measured[1].IsTrial || !measured[1].Answered {
			t.Errorf("%+v, %v", measured, err)
		}
		if n := len(measured[0].Data.Windows); n < 719 || len(p.asked) != 1 || len(p.jobs) > 0 || len(woken) != 2 {
			t.Errorf("%d windows by %d questions and %d jobs, woken %d times", n, len(p.asked), len(p.jobs), len(woken))
		}
		questions[0].Check.SuccessRate = new("99.9%")
		m.SetRequests(web, subject, questions)
		<-time.After(time.Second)
		synctest.Wait()
		if len(p.asked) != 2 {
			t.Errorf("another check is asked about %d times", len(p.asked)-1)
		}
	})
}

// TestInvalidAfterOutage checks that a check that becomes invalid after a long outage is
// inconclusive only a minute later, so that a user can repair the cause. The outage itself keeps
// its time.
func TestInvalidAfterOutage(t *testing.T) {
	p := &prometheus{answer: source.Answer{Code: 200, Body: []byte(`{}`)}} // which is neither true nor false
	run(t, p, func(m *analysis.Runner, _ chan event.GenericEvent) {
		setQuestion(m, health, false)
		<-time.After(10 * time.Minute)
		synctest.Wait()
		outage := onlyMeasurement(t, m, health).Data.Fault
		if age := time.Since(outage.Since); age < 9*time.Minute || outage.Invalid {
			t.Errorf("the outage began %s ago: %+v", age, outage)
		}
		p.fault = errors.New("service health has no port 80 of TCP")
		<-time.After(time.Minute)
		synctest.Wait()
		invalid := onlyMeasurement(t, m, health).Data.Fault
		if age := time.Since(invalid.Since); age > time.Minute || !invalid.Invalid {
			t.Errorf("the check is invalid since %s: %+v", age, invalid)
		}
		<-time.After(10 * time.Minute)
		synctest.Wait()
		if again := onlyMeasurement(t, m, health).Data.Fault; !again.Since.Equal(invalid.Since) {
			t.Errorf("the check is invalid since %s, then since %s", invalid.Since, again.Since)
		}
	})
}
