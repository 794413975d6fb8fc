// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/event"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/analysis"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/controller/metrics"
	"github.com/weir-rollouts/weir/pkg/controller/queue"
	"github.com/weir-rollouts/weir/pkg/controller/reconcile"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// Reconciler runs one pass at a time over each Rollout.
type Reconciler struct {
	Server      cluster.Server
	Recorder    events.EventRecorder
	Clock       clock.PassiveClock
	Concurrency int
	// AtRest says which Rollouts may wait for a pass; nil if none may.
	AtRest queue.IsResting
	// Beside is the cache that Server.Indexes and AdmissionStatus read.
	Beside cache.Cache
	// AdmissionStatus reads which parts of admission are installed.
	AdmissionStatus cluster.AdmissionStatus
	network         *cluster.Network
	turns           cluster.Turns
	kinds           cluster.Kinds
	// noLater limits the backoff of a failed pass to its planned wake-up (queue.BackoffLimiter).
	noLater func(ctrl.Request, time.Duration)
	// Configuration are the namespaces where scripts of users are looked for.
	Configuration []string
	Options
	// Measures measure what checks are about; nil measures nothing.
	Measures Measures
	// Measured tells of Rollouts about which there is news; nil tells nothing.
	Measured <-chan event.GenericEvent
	// Metrics are told what is stored.
	Metrics *metrics.Metrics
	// Keep bounds the histories of each Rollout.
	Keep planner.HistoryRetention
}

// Reconcile runs one pass over a Rollout.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	p, err := Observe(ctx, server{r.Server, r.network, r}, r.Clock.Now(), r.Options, req.NamespacedName)
	if err != nil {
		return reconcile.Result(err)
	}
	if p == nil {
		return reconcile.Result(r.forget(ctx, req.NamespacedName))
	}
	decision := p.Decide()
	if p.Rollout.Status.Network == nil && decision.Status.Network == nil {
		r.turns.Leave(req.NamespacedName)
	}
	plan := PlanOf(decision)
	ctx = logf.IntoContext(ctx, logf.FromContext(ctx).WithValues(logValues(plan.Status)...))
	histories, err := reconcile.Execute(ctx, live{p, r, decision}, plan)
	again := p.again()
	if slices.ContainsFunc(histories, func(f planner.HistoryEntry) bool { return f.Release.EndTime != nil }) {
		again = reconcile.Moved // no watch tells that a history is stored
	}
	return reconcile.Next(req, plan, again, r.noLater, err)
}

// live is a pass whose result is announced to the parts of the controller, too.
type live struct {
	*Pass
	r        *Reconciler
	decision planner.Decision
}

// Commit implements reconcile.Object. A status that takes the network is not stored while another
// Rollout has just taken it and the caches may not show that yet.
func (l live) Commit(ctx context.Context, next rollouts.RolloutStatus) error {
	ro := l.Rollout
	by := types.NamespacedName{Namespace: ro.Namespace, Name: ro.Name}
	if ro.Status.Network == nil && next.Network != nil && !l.r.turns.Take(l.r.Clock.Now(), by, cluster.NetworkOf(ro)) {
		return cluster.ErrBehind
	}
	return l.Pass.Commit(ctx, next)
}

// Stored implements reconcile.Object: it requests measurements and logs what became of decisions.
func (l live) Stored(ctx context.Context) {
	l.r.askMetrics(ctx, l.Pass, l.decision)
	unsettled := map[int64]bool{}
	for _, before := range l.Facts.Rollout.Status.Decisions {
		unsettled[before.ID] = before.Outcome == ""
	}
	for _, d := range l.decision.Status.Decisions {
		if unsettled[d.ID] && d.Outcome != "" {
			logf.FromContext(ctx).Info("Settled decision", "decision", d.ID, "verb", d.Verb, "user", d.User, "via", d.Via, "outcome", d.Outcome)
		}
	}
	l.r.Metrics.Announced(l.decision.Events)
}

// Announce implements reconcile.Object.
func (l live) Announce(events []planner.Event) {
	cluster.Announce(l.r.Recorder, cluster.About(l.Rollout), "Release", events)
}

// forget removes a Rollout that does not exist from the index of the policies and from everything that
// the controller keeps in memory. The index may still have it if it lost its finalizer, or if somebody
// else wrote the entry.
func (r *Reconciler) forget(ctx context.Context, key types.NamespacedName) error {
	r.turns.Leave(key)
	if r.Measures != nil {
		r.Measures.SetQuestions(key, analysis.Subject{}, nil)
	}
	r.Metrics.Measured(key.Namespace, key.Name, nil)
	entry, err := r.Server.Entry(ctx, key, nil)
	if err != nil || !entry.Listed {
		return err
	}
	if gone, err := r.Server.Gone(ctx, entry); err != nil || !gone {
		return err
	}
	if err := r.Server.Remove(ctx, entry); !cluster.Moved(err) {
		return err
	}
	return nil // the write of somebody else starts the next pass
}

// logValues returns the keys and values that say in each line of the log which release a pass is about.
func logValues(status rollouts.RolloutStatus) []any {
	values := []any{"phase", status.Phase}
	if p := status.Active(); p != nil && p.UpdateRevision != "" {
		values = append(values, "revision", p.UpdateRevision, "step", p.CurrentStepIndex, "state", p.State)
	}
	return values
}

// server is where the passes of a Reconciler read and write.
type server struct {
	cluster.Server
	*cluster.Network
	r *Reconciler
}

// Unprotected implements Reader.
func (s server) Unprotected(ctx context.Context, ro *rollouts.Rollout, unlisted string) (string, error) {
	resource, err := s.Resource(ro.Spec.WorkloadRef)
	if err != nil {
		return "", err
	}
	return s.r.AdmissionStatus.Missing(ctx, ro.Namespace, resource, unlisted)
}

// Absent implements Reader.
func (s server) Absent(ctx context.Context, row workload.Row) (cluster.Absence, error) {
	return s.r.kinds.Absent(ctx, s.Server.Reader, row)
}

// File implements Writer. It makes room when a history was made.
func (s server) File(ctx context.Context, p cluster.Part, f planner.HistoryEntry) error {
	made, err := s.Server.File(ctx, p, f)
	if err != nil || !made {
		return err
	}
	return s.Prune(ctx, p.Rollout, s.r.Keep, s.r.Clock.Now())
}
