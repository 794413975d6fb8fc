// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/expression"
	"github.com/weir-rollouts/weir/pkg/judge"
	"github.com/weir-rollouts/weir/pkg/source"
)

// directCheck is a kind of check that queries no source of metrics, but a Service or a job. It measures
// the present only: such targets cannot be asked about the past.
type directCheck struct {
	measures func(*rollouts.Check) bool
	ask      func(*Measures, context.Context, Subject, *series, rollouts.Check) (finding, error)
}

// finding is the sample that was measured; nil if there is none yet.
type finding *judge.Sample

var directChecks = []directCheck{
	{func(c *rollouts.Check) bool { return c.HTTP != nil }, (*Measures).askService},
	{func(c *rollouts.Check) bool { return c.Job != nil }, (*Measures).askJob},
}

// directCheckOf returns the kind of a check that queries no source of metrics; nil for other checks.
func directCheckOf(c *rollouts.Check) *directCheck {
	for i := range directChecks {
		if directChecks[i].measures(c) {
			return &directChecks[i]
		}
	}
	return nil
}

// transient is an error that the next try may not have.
type transient struct{ error }

func (t transient) Unwrap() error { return t.error }

// Invalid reports whether another try cannot help, because a user must change something first.
func Invalid(err error) bool { return !errors.As(err, new(transient)) }

func faultOf(err error, now time.Time) judge.Fault {
	return judge.Fault{Why: source.Clean(err.Error()), Since: now, Invalid: Invalid(err)}
}

// askDirectly measures once in each window, and sooner again while there is no sample.
func (m *Measures) askDirectly(
	ctx context.Context, subject Subject, s *series, check rollouts.Check, ask func(*Measures, context.Context, Subject, *series, rollouts.Check) (finding, error),
) (news bool, again time.Duration) {
	now, q := m.Clock.Now(), s.question
	if q.Try {
		s.measured.Answered = true // there is no past on which the check can be tried
		return true, tryAgain
	}
	if s.measured.Source = sourceOf(check); !now.After(q.Since) {
		return false, q.Since.Sub(now) + time.Millisecond
	}
	s.asked = true
	found, err := ask(m, ctx, subject, s, check)
	if err != nil {
		return s.setFault(faultOf(err, m.Clock.Now()), m.Clock.Now())
	}
	data := &s.measured.Data
	news = !s.measured.Answered || data.Fault.Why != ""
	s.measured.Answered, data.Fault = true, judge.Fault{}
	if found != nil && !slices.Contains(data.Samples, *found) {
		data.Samples, news = append(data.Samples, *found), true
	}
	again = now.Truncate(q.Every).Add(q.Every).Sub(now)
	if found == nil && !q.Passed {
		again = min(again, firstRetry)
	}
	return news, again
}

func sourceOf(c rollouts.Check) string {
	if c.HTTP != nil {
		return "service " + c.HTTP.Service
	}
	return "cronjob " + c.Job.CronJob
}

// askService returns 1 if the Service gives a good answer now, and 0 otherwise.
func (m *Measures) askService(ctx context.Context, subject Subject, s *series, check rollouts.Check) (finding, error) {
	text := cmp.Or(check.HTTP.Pass, expression.Default)
	pass, err := expression.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("http.pass: %w", err)
	}
	now := m.Clock.Now()
	window := now.Truncate(s.question.Every)
	if since := s.question.Since; window.Before(since) {
		window = since // a cached answer from before the step must not count in it
	}
	answer, err := m.Sources.Get(ctx, subject.Release.Namespace, *check.HTTP, Window{window, s.question.Every})
	if err != nil {
		return nil, err
	}
	// Users who can read a Rollout may not be allowed to call its Services. So the message contains
	// neither the body of the response nor the error of the expression, which may quote the body.
	says := fmt.Sprintf("%s answers %d", check.HTTP.Service, answer.Code)
	good, err := pass.Of(answer.Code, answer.Body)
	if err != nil {
		return nil, transient{fmt.Errorf("%s, and %s is neither true nor false: the body lacks a field, or has another type", says, text)}
	}
	found := judge.Sample{At: now, Value: 1, Says: says}
	if !good {
		found.Value, found.Says = 0, source.Clean(says+": "+text+" is false")
	}
	return &found, nil
}

// Job is a job of a step.
type Job struct {
	Subject
	// Check is the name of the check, and CronJob is the name of the object with the template.
	Check, CronJob string
	// Began is when the attempt began, and Since when the step began to be checked.
	Began, Since time.Time
	Step         int32
}

// Outcome is the state of a job.
type Outcome struct {
	Name string
	// Ended is when the job ended; zero while it runs. Why says why it failed; empty if it succeeded.
	Ended time.Time
	Why   string
}

// askJob returns 1 if the job of the step has succeeded, and 0 if it has failed.
func (m *Measures) askJob(ctx context.Context, subject Subject, s *series, check rollouts.Check) (finding, error) {
	if s.question.Passed {
		return nil, nil
	}
	q := s.question
	o, err := m.Sources.Run(ctx, Job{subject, rollouts.CheckName(&q.Check), check.Job.CronJob, q.Began, q.Since, q.Step})
	if err != nil || o.Ended.IsZero() {
		return nil, err
	}
	found := judge.Sample{At: o.Ended, Value: 1, Says: "job " + o.Name + " succeeded"}
	if !found.At.After(q.Since) {
		found.At = q.Since.Add(time.Millisecond) // the times of a job are in whole seconds
	}
	if o.Why != "" {
		found.Value, found.Says = 0, source.Clean("job "+o.Name+" failed: "+o.Why)
	}
	return &found, nil
}
