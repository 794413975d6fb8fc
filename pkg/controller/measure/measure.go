// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package measure queries sources, Services and jobs for the checks of releases. Its workers run apart
// from the reconciler of Rollouts, so that no reconcile waits for a network. It keeps answers in memory
// only: after a restart it queries the same windows again, and the verdicts are the same.
package measure

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
	"github.com/weir-rollouts/weir/pkg/controller/fair"
	"github.com/weir-rollouts/weir/pkg/judge"
	"github.com/weir-rollouts/weir/pkg/metric"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/source"
)

// Source is a source of metrics that a namespace may ask.
type Source struct {
	// Ask returns numbers for the windows of a range, or a fault.
	Ask func(context.Context, Range) ([]metric.Series, judge.Fault)
	// Dialect is how the source spells labels, and Lag is how old a window must be before it is queried.
	Dialect metric.Dialect
	Lag     time.Duration
	// RawQueries reports whether checks of a namespace may bring PromQL of their own.
	RawQueries bool
	// Skew is by how much the clock of the source is ahead of that of Weir; negative if it is behind.
	Skew time.Duration
}

// Range asks for a number per series and window. The windows begin at Since.
type Range struct {
	Text, Namespace string
	Since           time.Time
	Every           time.Duration
	Windows         int
	// Again asks the source even if an earlier answer is cached.
	Again bool
}

// Window is a time in which a Service is asked once. It is at most Every long.
type Window struct {
	Start time.Time
	Every time.Duration
}

// number returns the number of the window. Consecutive windows have consecutive numbers. A window that
// begins later, with a step, has the number of the whole window.
func (w Window) number() int {
	return int(w.Start.Truncate(w.Every).Unix() / max(int64(w.Every/time.Second), 1))
}

// Sources gives access to the sources, reusable checks, Services and jobs of a cluster.
type Sources interface {
	// Source returns the source with that name. An error says why the namespace cannot query it.
	Source(ctx context.Context, name, namespace string) (*Source, error)
	// Use returns a check with the content of the Check or ClusterCheck that it uses, and reports whether
	// an administrator wrote this content. An error says what is missing.
	Use(ctx context.Context, namespace string, c rollouts.Check) (used rollouts.Check, trusted bool, err error)
	// Get asks a Service of a namespace, once in each window. An error says why there is no answer.
	Get(ctx context.Context, namespace string, h rollouts.HTTPCheck, window Window) (source.Answer, error)
	// Run starts a job unless it was started before, and returns its outcome. An error says why the
	// outcome is unknown.
	Run(ctx context.Context, j Job) (Outcome, error)
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

// Measures queries what the checks of all releases need, and keeps the answers.
type Measures struct {
	Sources Sources
	Clock   clock.Clock
	// Wake gets an event for each Rollout with new answers, so that the Rollout is reconciled.
	Wake chan<- event.GenericEvent

	mu       sync.Mutex
	releases map[types.NamespacedName]*release
	// queue has the checks of releases under way, and tries has the checks that are tried before a release.
	queue, tries *fair.Targets[task]
	// targets maps each task to the fair.Target of its check. mu must not guard it: the queues
	// read it under their own locks, while holders of mu may be adding to the queues.
	targets sync.Map
}

// release is what is measured for one Rollout.
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
	measured planner.Measured
	// row describes the metrics that have requests of this release; nil until such metrics were found.
	row *metric.Row
	// asked reports whether this turn has sent a query, so that its fault shows whether the target
	// answers.
	asked bool
	// findsNewest reports whether questions also find the newest sample of the source.
	findsNewest bool
	// boundary is the bucket boundary by which latency is judged, as the histogram spells it.
	boundary string
	delay    delay
	// scrapesAsked is when the interval of scrapes was learnt.
	scrapesAsked time.Time
}

// New returns measures whose workers begin with Start.
func New(sources Sources, c clock.WithTicker, wake chan<- event.GenericEvent) *Measures {
	m := &Measures{Sources: sources, Clock: c, Wake: wake, releases: map[types.NamespacedName]*release{}}
	m.queue = fair.NewTargets(c, questions, m.targetOf)
	m.tries = fair.NewTargets(c, tries, m.targetOf)
	return m
}

// A query may wait for an answer until the timeout of its source. So the number of concurrent
// queries per namespace is small, and the total is large: other namespaces wait only if targets
// in more than a hundred namespaces do not answer. A waiting query costs one connection. Each
// source additionally limits the queries that it gets.
var (
	questions = fair.Limits{All: 256, Namespace: 4}
	// tries are few, because each queries the data of a whole day.
	tries = fair.Limits{All: 2, Namespace: 1}
)

const (
	// mostOfService is the number of concurrent queries to a Service, and mostOfOther to another
	// target, while they answer. mostOfOther leaves one place of the namespace for other targets.
	mostOfService = 1
	mostOfOther   = 3
	// A check that finds no data in the last day is tried again after tryAgain. If its source does not
	// answer, the check is tried again tryLess times less often than it would be queried in a release.
	tryAgain = time.Hour
	tryLess  = 10
)

// targetOf returns the target that the check of a task queries.
func (m *Measures) targetOf(t task) fair.Target {
	if target, ok := m.targets.Load(t); ok {
		return target.(fair.Target)
	}
	return fair.Target{Namespace: t.rollout.Namespace, Most: mostOfOther} // the check was removed
}

// setTarget records the target of a check. The target of a check with use is known only after the
// check that it uses was read.
func (m *Measures) setTarget(t task, c rollouts.Check) {
	target := fair.Target{Namespace: t.rollout.Namespace, Most: mostOfOther}
	switch {
	case c.HTTP != nil:
		target.Name, target.Most = sourceOf(c), mostOfService
	case c.Job != nil:
		target.Name = sourceOf(c)
	case c.Use != nil:
		target.Name = c.Use.Kind + " " + c.Use.Name
	default:
		target.Name = "metricsource " + sourceName(c)
	}
	m.targets.Store(t, target)
}

// Start implements manager.Runnable.
func (m *Measures) Start(ctx context.Context) error {
	var running sync.WaitGroup
	for _, row := range []struct {
		queue   *fair.Targets[task]
		workers int
		measure func(context.Context, Subject, *series) (bool, time.Duration)
	}{{m.queue, questions.All, m.measure}, {m.tries, tries.All, m.try}} {
		for range row.workers {
			running.Go(func() {
				for m.next(ctx, row.queue, row.measure) {
				}
			})
		}
	}
	<-ctx.Done()
	m.queue.ShutDown()
	m.tries.ShutDown()
	running.Wait()
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (m *Measures) NeedLeaderElection() bool { return true }

// Ask replaces the questions about a Rollout. Answers to questions that continue earlier ones are kept.
func (m *Measures) Ask(rollout types.NamespacedName, subject Subject, questions []planner.MeasurementRequest) {
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
		if before := was.of(subject.UID, name); before.answers(q) {
			s = before.continueWith(q)
		} else {
			m.setTarget(task{rollout, name}, q.Check)
			m.queueOf(q).Add(task{rollout, name})
		}
		now.series[name] = s
	}
	m.releases[rollout] = now
}

// queueOf returns the queue in which a question waits.
func (m *Measures) queueOf(q planner.MeasurementRequest) *fair.Targets[task] {
	if q.Try {
		return m.tries
	}
	return m.queue
}

// of returns the answers for a check of the Rollout with that UID; nil if there are none.
func (r *release) of(uid types.UID, check string) *series {
	if r == nil || r.subject.UID != uid {
		return nil
	}
	return r.series[check]
}

// answers reports whether a series answers a question. A series of the check before an edit, or of
// windows of another length, does not. Neither does a series from which windows of the question were
// removed after they were folded.
func (s *series) answers(q planner.MeasurementRequest) bool {
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

// Measured implements rollout.Measures.
func (m *Measures) Measured(_ context.Context, r *rollouts.Rollout) ([]planner.Measured, error) {
	_, plan := r.Spec.Strategy.Active()
	if plan == nil || plan.Analysis == nil {
		return nil, nil
	}
	var all []planner.Measured
	for _, c := range plan.Analysis.Checks {
		if c.PodsHealthy != "" {
			continue
		}
		all = append(all, m.measured(r, c))
	}
	return all, nil
}

func (m *Measures) measured(r *rollouts.Rollout, c rollouts.Check) planner.Measured {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.releases[types.NamespacedName{Namespace: r.Namespace, Name: r.Name}].of(r.UID, rollouts.CheckName(&c))
	if of == nil || !of.measured.Answered || !equality.Semantic.DeepEqual(of.question.Check, c) {
		return planner.Measured{Planned: c, Check: c}
	}
	measured := of.measured
	measured.Planned = c
	measured.Data.Windows = slices.Clone(measured.Data.Windows)
	measured.Data.Samples = slices.Clone(measured.Data.Samples)
	return measured
}

// next measures one check of a queue, and reports whether there may be more.
func (m *Measures) next(ctx context.Context, queue *fair.Targets[task], measure func(context.Context, Subject, *series) (bool, time.Duration)) bool {
	t, ended := queue.Get()
	if ended {
		return false
	}
	defer queue.Done(t)
	subject, s := m.lookUp(t)
	switch {
	case s == nil:
		m.targets.Delete(t)
		return true // there is no question about the check any more
	case m.queueOf(s.question) != queue:
		return true // the check has moved to the other queue
	}
	news, again := measure(ctx, subject, s)
	if s.asked {
		fault := s.measured.Data.Fault
		queue.Heard(t, fault.Why == "" || fault.Invalid)
		m.setTarget(t, s.measured.Check)
	}
	m.keep(t, subject.UID, *s)
	if news {
		select {
		case m.Wake <- event.GenericEvent{Object: &v1beta1.Rollout{ObjectMeta: metaOf(t.rollout)}}:
		case <-ctx.Done():
		}
	}
	queue.AddAfter(t, again)
	return true
}

// lookUp returns a copy of the series of a check; nil if there is no question about the check any more.
func (m *Measures) lookUp(t task) (Subject, *series) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.releases[t.rollout]
	if of == nil || of.series[t.check] == nil {
		return Subject{}, nil
	}
	s := *of.series[t.check]
	s.asked = false
	return of.subject, &s
}

// try evaluates a check on data of the last day, before a release uses the check.
func (m *Measures) try(ctx context.Context, subject Subject, s *series) (news bool, again time.Duration) {
	news, again = m.measure(ctx, subject, s)
	if s.measured.Data.Fault.Why != "" {
		return news, again * tryLess
	}
	return news, tryAgain
}

// keep stores a series, unless there is no question about its check any more, or another one.
func (m *Measures) keep(t task, uid types.UID, s series) {
	m.mu.Lock()
	defer m.mu.Unlock()
	release := m.releases[t.rollout]
	if now := release.of(uid, t.check); now.answers(s.question) {
		release.series[t.check] = s.continueWith(now.question)
	}
}
