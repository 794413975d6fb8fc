// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package analysis queries sources, Services and jobs for the checks of releases. Its workers run apart
// from the reconciler of Rollouts, so that no reconcile waits for a network. It keeps answers in memory
// only: after a restart it queries the same windows again, and the verdicts are the same.
package analysis

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/controller/queue"
	"github.com/weir-rollouts/weir/pkg/judge"
	"github.com/weir-rollouts/weir/pkg/metric"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/source"
)

// Source is a source of metrics that a namespace may query.
type Source struct {
	// Query returns a number for each window of a range, or a fault.
	Query func(context.Context, RangeQuery) ([]metric.Series, judge.Fault)
	// Dialect is how the source spells labels, and Lag is how old a window must be before it is queried.
	Dialect metric.Dialect
	Lag     time.Duration
	// RawQueries reports whether checks of a namespace may bring PromQL of their own.
	RawQueries bool
	// Skew is by how much the clock of the source is ahead of that of Weir; negative if it is behind.
	Skew time.Duration
}

// RangeQuery asks for a number per series and window. Window k is the time from Start + k*Step to
// Start + (k+1)*Step.
type RangeQuery struct {
	PromQL, Namespace string
	Start             time.Time
	Step              time.Duration
	Windows           int
	// BypassCache queries the source even if an earlier answer is cached.
	BypassCache bool
}

// Window is a time in which a Service is queried once. It is at most Length long.
type Window struct {
	Start  time.Time
	Length time.Duration
}

// number returns the number of the window. Consecutive windows have consecutive numbers. A window that
// begins later, with a step, has the number of the whole window.
func (w Window) number() int {
	return int(w.Start.Truncate(w.Length).Unix() / max(int64(w.Length/time.Second), 1))
}

// Sources gives access to the sources, reusable checks, Services and jobs of a cluster.
type Sources interface {
	// Source returns the source with that name. An error says why the namespace cannot query it.
	Source(ctx context.Context, name, namespace string) (*Source, error)
	// ResolveCheck returns a check with the content of the Check or ClusterCheck that it uses, and
	// reports whether an administrator wrote this content. An error says what is missing.
	ResolveCheck(ctx context.Context, namespace string, c rollouts.Check) (used rollouts.Check, trusted bool, err error)
	// QueryService sends a request to a Service of a namespace, once in each window. An error says
	// why there is no answer.
	QueryService(ctx context.Context, namespace string, h rollouts.HTTPCheck, window Window) (source.Answer, error)
	// RunJob starts a job unless it was started before, and returns its outcome. An error says why
	// the outcome is unknown.
	RunJob(ctx context.Context, j Job) (Outcome, error)
}

// Subject is the release that is measured.
type Subject struct {
	UID     types.UID
	Release metric.Release
	// Rollout and Revision are their names.
	Rollout, Revision string
	// Routers are the kinds of its routers, as metric.For expects them.
	Routers []string
}

// Runner runs the queries for the checks of all releases, and keeps the answers.
type Runner struct {
	Sources Sources
	Clock   clock.Clock
	// Wake gets an event for each Rollout with new answers, so that the Rollout is reconciled.
	Wake chan<- event.GenericEvent

	mu       sync.Mutex
	releases map[types.NamespacedName]*release
	// releaseQueue has the checks of releases in progress. trialQueue has the checks that are tried
	// before a release.
	releaseQueue, trialQueue *queue.TargetQueue[task]
	// targets maps each task to the queue.Target of its check. mu must not guard it: the queues
	// read it under their own locks, while holders of mu may be adding to the queues.
	targets sync.Map
}

// release has the measurements for one Rollout.
type release struct {
	subject Subject
	series  map[string]*series
}

// task is one check of a Rollout.
type task struct {
	rollout types.NamespacedName
	check   string
}

// series has the answers for a check.
type series struct {
	question planner.MeasurementRequest
	measured planner.MeasuredCheck
	// row describes the metrics that have requests of this release; nil until such metrics were
	// found.
	row *metric.Row
	// isSourceMissing reports whether the fault is about the MetricSource itself, and not about an answer of its server.
	isSourceMissing bool
	// queried reports whether this measurement has sent a query. Then its fault shows whether the
	// target answers.
	queried bool
	// findsNewest reports whether queries also return the time of the newest sample of the source.
	findsNewest bool
	// boundary is the bucket boundary by which latency is judged, as the histogram spells it.
	boundary string
	delay    delay
	// scrapeIntervalReadAt is when the interval between scrapes was queried.
	scrapeIntervalReadAt time.Time
}

// New returns a runner whose workers begin with Start.
func New(sources Sources, c clock.WithTicker, wake chan<- event.GenericEvent) *Runner {
	m := &Runner{Sources: sources, Clock: c, Wake: wake, releases: map[types.NamespacedName]*release{}}
	m.releaseQueue = queue.NewTargetQueue(c, releaseLimits, m.targetOf)
	m.trialQueue = queue.NewTargetQueue(c, trialLimits, m.targetOf)
	return m
}

// A query may wait for an answer until the timeout of its source. So the number of concurrent
// queries per namespace is small, and the total is large: other namespaces wait only if targets
// in more than a hundred namespaces do not answer. A waiting query costs one connection. Each
// source additionally limits the queries that it gets.
var (
	releaseLimits = queue.Limits{Total: 256, PerNamespace: 4}
	// trialLimits are low, because each trial queries the data of a whole day.
	trialLimits = queue.Limits{Total: 2, PerNamespace: 1}
)

const (
	// maxServiceQueries is the number of concurrent queries to a Service, and maxOtherQueries to
	// another target, while they answer. maxOtherQueries leaves one place of the namespace for
	// other targets.
	maxServiceQueries = 1
	maxOtherQueries   = 3
	// A check that finds no data in the last day is tried again after trialInterval. If its source
	// does not answer, trialBackoffFactor multiplies the delay after which a release would query
	// the source again.
	trialInterval      = time.Hour
	trialBackoffFactor = 10
)

// targetOf returns the target that the check of a task queries.
func (m *Runner) targetOf(t task) queue.Target {
	if target, ok := m.targets.Load(t); ok {
		return target.(queue.Target)
	}
	return queue.Target{Namespace: t.rollout.Namespace, MaxQueries: maxOtherQueries} // the check was removed
}

// setTarget records the target of a check. The target of a check with use is known only after the
// check that it uses was read.
func (m *Runner) setTarget(t task, c rollouts.Check) {
	target := queue.Target{Namespace: t.rollout.Namespace, MaxQueries: maxOtherQueries}
	switch {
	case c.HTTP != nil:
		target.Name, target.MaxQueries = directSource(c), maxServiceQueries
	case c.Job != nil:
		target.Name = directSource(c)
	case c.Use != nil:
		target.Name = c.Use.Kind + " " + c.Use.Name
	default:
		target.Name = "metricsource " + sourceName(c)
	}
	m.targets.Store(t, target)
}

// Start implements manager.Runnable.
func (m *Runner) Start(ctx context.Context) error {
	var running sync.WaitGroup
	for _, row := range []struct {
		queue   *queue.TargetQueue[task]
		workers int
		measure func(context.Context, Subject, *series) (bool, time.Duration)
	}{{m.releaseQueue, releaseLimits.Total, m.measure}, {m.trialQueue, trialLimits.Total, m.measureTrial}} {
		for range row.workers {
			running.Go(func() {
				for m.processNext(ctx, row.queue, row.measure) {
				}
			})
		}
	}
	<-ctx.Done()
	m.releaseQueue.ShutDown()
	m.trialQueue.ShutDown()
	running.Wait()
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (m *Runner) NeedLeaderElection() bool { return true }

// SetRequests replaces the questions about a Rollout. Answers to questions that continue earlier
// ones are kept.
func (m *Runner) SetRequests(rollout types.NamespacedName, subject Subject, questions []planner.MeasurementRequest) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.releases[rollout]
	if len(questions) == 0 {
		delete(m.releases, rollout)
		return
	}
	now := &release{subject: subject, series: map[string]*series{}}
	for _, q := range questions {
		name := rollouts.CheckName(&q.Check)
		s := &series{question: q}
		if before := was.seriesFor(subject.UID, name); before.canAnswer(q) {
			s = before.continueWith(q)
		} else {
			m.setTarget(task{rollout, name}, q.Check)
			m.queueFor(q).Add(task{rollout, name})
		}
		now.series[name] = s
	}
	m.releases[rollout] = now
}

// RetrySource measures the checks that query a MetricSource at once, because it was created, changed or deleted.
// Otherwise these checks wait for their next attempt: up to a minute in a release, and up to an hour before one.
func (m *Runner) RetrySource(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for rollout, release := range m.releases {
		for check, s := range release.series {
			if s.asksSource(name) {
				m.queueFor(s.question).Add(task{rollout, check})
			}
		}
	}
}

// asksSource reports whether a check queries a MetricSource. The check that a plan uses is known only after it was read.
func (s *series) asksSource(name string) bool {
	c := s.measured.Check
	if rollouts.CheckName(&c) == "" {
		c = s.question.Check
	}
	return c.HTTP == nil && c.Job == nil && c.Use == nil && sourceName(c) == name
}

// queueFor returns the queue for a question.
func (m *Runner) queueFor(q planner.MeasurementRequest) *queue.TargetQueue[task] {
	if q.Try {
		return m.trialQueue
	}
	return m.releaseQueue
}

// seriesFor returns the answers for a check of the Rollout with this UID; nil if there are none.
func (r *release) seriesFor(uid types.UID, check string) *series {
	if r == nil || r.subject.UID != uid {
		return nil
	}
	return r.series[check]
}

// canAnswer reports whether a series answers a question. A series of the check before an edit, or
// of windows of another length, does not. Neither does a series from which windows of the question
// were removed after they were folded.
func (s *series) canAnswer(q planner.MeasurementRequest) bool {
	return s != nil && s.question.Try == q.Try && !q.From.Before(s.question.From) && s.question.Began.Equal(q.Began) && s.question.Every == q.Every && equality.Semantic.DeepEqual(s.question.Check, q.Check)
}

// continueWith returns the series with a later question. Windows that were folded are removed. Samples of
// the current step are kept, because the first step may be measured before the first window begins.
func (s *series) continueWith(q planner.MeasurementRequest) *series {
	next := *s
	next.question = q
	next.measured.Data.Windows = slices.DeleteFunc(slices.Clone(next.measured.Data.Windows), func(w judge.Window) bool { return w.Start.Before(q.From) })
	next.measured.Data.Samples = slices.DeleteFunc(slices.Clone(next.measured.Data.Samples), func(s judge.Sample) bool {
		return s.At.Before(q.From) && (q.Since.IsZero() || s.At.Before(q.Since))
	})
	return &next
}

// Measurements implements rollout.Measures.
func (m *Runner) Measurements(_ context.Context, r *rollouts.Rollout) ([]planner.MeasuredCheck, error) {
	_, plan := r.Spec.Strategy.Active()
	if plan == nil || plan.Analysis == nil {
		return nil, nil
	}
	var all []planner.MeasuredCheck
	for _, c := range plan.Analysis.Checks {
		if c.PodsHealthy != "" {
			continue
		}
		all = append(all, m.measurementOf(r, c))
	}
	return all, nil
}

func (m *Runner) measurementOf(r *rollouts.Rollout, c rollouts.Check) planner.MeasuredCheck {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.releases[types.NamespacedName{Namespace: r.Namespace, Name: r.Name}].seriesFor(r.UID, rollouts.CheckName(&c))
	if of == nil || !of.measured.Answered || !equality.Semantic.DeepEqual(of.question.Check, c) {
		return planner.MeasuredCheck{Planned: c, Check: c}
	}
	measured := of.measured
	measured.Planned = c
	measured.Data.Windows = slices.Clone(measured.Data.Windows)
	measured.Data.Samples = slices.Clone(measured.Data.Samples)
	return measured
}

// processNext measures one check of a queue, and reports whether the worker must continue.
func (m *Runner) processNext(ctx context.Context, queue *queue.TargetQueue[task], measure func(context.Context, Subject, *series) (bool, time.Duration)) bool {
	t, ended := queue.Get()
	if ended {
		return false
	}
	defer queue.Done(t)
	subject, s := m.copySeries(t)
	switch {
	case s == nil:
		m.targets.Delete(t)
		return true // there is no question about the check any more
	case m.queueFor(s.question) != queue:
		return true // the check has moved to the other queue
	}
	news, again := measure(ctx, subject, s)
	if s.queried {
		fault := s.measured.Data.Fault
		queue.ReportAnswer(t, fault.Why == "" || fault.Invalid)
		m.setTarget(t, s.measured.Check)
	}
	m.storeSeries(t, subject.UID, *s)
	if news {
		select {
		case m.Wake <- event.GenericEvent{Object: &v1beta1.Rollout{ObjectMeta: objectMeta(t.rollout)}}:
		case <-ctx.Done():
		}
	}
	queue.AddAfter(t, again)
	return true
}

// copySeries returns a copy of the series of a check; nil if the check has no question any more.
func (m *Runner) copySeries(t task) (Subject, *series) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.releases[t.rollout]
	if of == nil || of.series[t.check] == nil {
		return Subject{}, nil
	}
	s := *of.series[t.check]
	s.queried = false
	return of.subject, &s
}

// measureTrial evaluates a check on data of the last day, before a release uses the check.
func (m *Runner) measureTrial(ctx context.Context, subject Subject, s *series) (news bool, again time.Duration) {
	news, again = m.measure(ctx, subject, s)
	if s.measured.Data.Fault.Why != "" {
		return news, again * trialBackoffFactor
	}
	return news, trialInterval
}

// storeSeries stores a series, unless its check has no question any more, or another one.
func (m *Runner) storeSeries(t task, uid types.UID, s series) {
	m.mu.Lock()
	defer m.mu.Unlock()
	release := m.releases[t.rollout]
	if now := release.seriesFor(uid, t.check); now.canAnswer(s.question) {
		release.series[t.check] = s.continueWith(now.question)
	}
}
