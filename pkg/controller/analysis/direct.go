// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package analysis

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

// directCheck is a kind of check that queries a Service or a job instead of a source of metrics. It
// measures only the present, because these targets cannot be queried about the past.
type directCheck struct {
	appliesTo func(*rollouts.Check) bool
	measure   func(*Runner, context.Context, Subject, *series, rollouts.Check) (directSample, error)
}

// directSample is the sample that was measured; nil if there is none yet.
type directSample *judge.Sample

var directChecks = []directCheck{
	{func(c *rollouts.Check) bool { return c.HTTP != nil }, (*Runner).measureService},
	{func(c *rollouts.Check) bool { return c.Job != nil }, (*Runner).measureJob},
}

// directCheckOf returns the kind of a check that queries no source of metrics; nil for other
// checks.
func directCheckOf(c *rollouts.Check) *directCheck {
	for i := range directChecks {
		if directChecks[i].appliesTo(c) {
			return &directChecks[i]
		}
	}
	return nil
}

// transientError is an error that may not occur at the next attempt.
type transientError struct{ error }

func (t transientError) Unwrap() error { return t.error }

// NeedsUserChange reports whether retries cannot help, because a user must change something first.
func NeedsUserChange(err error) bool { return !errors.As(err, new(transientError)) }

func faultOf(err error, now time.Time) judge.Fault {
	return judge.Fault{Why: source.Sanitize(err.Error()), Since: now, Invalid: NeedsUserChange(err)}
}

// measureDirectly measures once in each window, and retries earlier while there is no sample.
func (m *Runner) measureDirectly(
	ctx context.Context, subject Subject, s *series, check rollouts.Check, ask func(*Runner, context.Context, Subject, *series, rollouts.Check) (directSample, error),
) (news bool, again time.Duration) {
	now, q := m.Clock.Now(), s.question
	if q.Try {
		s.measured.Answered = true // there is no past on which the check can be tried
		return true, trialInterval
	}
	if s.measured.Source = directSource(check); !now.After(q.Since) {
		return false, q.Since.Sub(now) + time.Millisecond
	}
	s.queried = true
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
		again = min(again, minRetry)
	}
	return news, again
}

func directSource(c rollouts.Check) string {
	if c.HTTP != nil {
		return "service " + c.HTTP.Service
	}
	return "cronjob " + c.Job.CronJob
}

// measureService returns 1 if the Service gives a good answer now, and 0 otherwise.
func (m *Runner) measureService(ctx context.Context, subject Subject, s *series, check rollouts.Check) (directSample, error) {
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
	answer, err := m.Sources.QueryService(ctx, subject.Release.Namespace, *check.HTTP, Window{window, s.question.Every})
	if err != nil {
		return nil, err
	}
	// Users who can read a Rollout may not be allowed to call its Services. So the message contains
	// neither the body of the response nor the error of the expression, which may quote the body.
	says := fmt.Sprintf("%s answers %d", check.HTTP.Service, answer.Code)
	good, err := pass.Evaluate(answer.Code, answer.Body)
	if err != nil {
		return nil, transientError{fmt.Errorf("%s, and %s is neither true nor false: the body lacks a field, or has another type", says, text)}
	}
	found := judge.Sample{At: now, Value: 1, Says: says}
	if !good {
		found.Value, found.Says = 0, source.Sanitize(says+": "+text+" is false")
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
	// Ended is when the job ended; zero while it runs. FailureReason is empty if the job succeeded.
	Ended         time.Time
	FailureReason string
}

// measureJob returns 1 if the job of the step has succeeded, and 0 if it has failed.
func (m *Runner) measureJob(ctx context.Context, subject Subject, s *series, check rollouts.Check) (directSample, error) {
	if s.question.Passed {
		return nil, nil
	}
	q := s.question
	o, err := m.Sources.RunJob(ctx, Job{subject, rollouts.CheckName(&q.Check), check.Job.CronJob, q.Began, q.Since, q.Step})
	if err != nil || o.Ended.IsZero() {
		return nil, err
	}
	found := judge.Sample{At: o.Ended, Value: 1, Says: "job " + o.Name + " succeeded"}
	if !found.At.After(q.Since) {
		found.At = q.Since.Add(time.Millisecond) // the times of a job are in whole seconds
	}
	if o.FailureReason != "" {
		found.Value, found.Says = 0, source.Sanitize("job "+o.Name+" failed: "+o.FailureReason)
	}
	return &found, nil
}
