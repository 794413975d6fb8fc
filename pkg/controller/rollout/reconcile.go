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
	// IsResting says which Rollouts may wait for a pass; nil if none may.
	IsResting queue.IsResting
	// AdmissionCache is the cache that Server.Indexes and AdmissionStatus read.
	AdmissionCache cache.Cache
	// AdmissionStatus reads which parts of admission are installed.
	AdmissionStatus cluster.AdmissionStatus
	network         *cluster.Network
	networkLocks    cluster.NetworkLocks
	workloadKinds   cluster.WorkloadKinds
	// limitBackoff limits the backoff of a failed pass to its planned wake-up (queue.BackoffLimiter).
	limitBackoff func(ctrl.Request, time.Duration)
	// ScriptNamespaces are the namespaces where scripts of users are looked for.
	ScriptNamespaces []string
	Options
	// Measurer measure what checks are about; nil measures nothing.
	Measurer Measurer
	// MeasurementEvents tells of Rollouts about which there is news; nil tells nothing.
	MeasurementEvents <-chan event.GenericEvent
	// Metrics are told what is stored.
	Metrics *metrics.Metrics
	// Retention bounds the histories of each Rollout.
	Retention planner.HistoryRetention
}

// Reconcile runs one pass over a Rollout.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	p, err := Observe(ctx, liveCluster{r.Server, r.network, r}, r.Clock.Now(), r.Options, req.NamespacedName)
	if err != nil {
		return reconcile.Result(err)
	}
	if p == nil {
		return reconcile.Result(r.forgetRollout(ctx, req.NamespacedName))
	}
	decision := p.Decide()
	if p.Rollout.Status.Network == nil && decision.Status.Network == nil {
		r.networkLocks.Release(req.NamespacedName)
	}
	plan := PlanOf(decision)
	ctx = logf.IntoContext(ctx, logf.FromContext(ctx).WithValues(logValues(plan.Status)...))
	histories, err := reconcile.Execute(ctx, reportingPass{p, r, decision}, plan)
	again := p.requeueDelay()
	if slices.ContainsFunc(histories, func(f planner.HistoryEntry) bool { return f.Release.EndTime != nil }) {
		again = reconcile.ConflictRequeueDelay // no watch tells that a history is stored
	}
	return reconcile.PassResult(req, plan, again, r.limitBackoff, err)
}

// reportingPass is a pass whose result is announced to the parts of the controller, too.
type reportingPass struct {
	*Pass
	r        *Reconciler
	decision planner.Decision
}

// Commit implements reconcile.Object. A status that takes the network is not stored while another
// Rollout has just taken it and the caches may not show that yet.
func (l reportingPass) Commit(ctx context.Context, next rollouts.RolloutStatus) error {
	ro := l.Rollout
	by := types.NamespacedName{Namespace: ro.Namespace, Name: ro.Name}
	if ro.Status.Network == nil && next.Network != nil && !l.r.networkLocks.TryAcquire(l.r.Clock.Now(), by, cluster.NetworkKeysOf(ro)) {
		return cluster.ErrStaleCache
	}
	return l.Pass.Commit(ctx, next)
}

// AfterCommit implements reconcile.Object: it requests measurements and logs what became of decisions.
func (l reportingPass) AfterCommit(ctx context.Context) {
	l.r.requestMeasurements(ctx, l.Pass, l.decision)
	unsettled := map[int64]bool{}
	for _, before := range l.Facts.Rollout.Status.Decisions {
		unsettled[before.ID] = before.Outcome == ""
	}
	for _, d := range l.decision.Status.Decisions {
		if unsettled[d.ID] && d.Outcome != "" {
			logf.FromContext(ctx).Info("Settled decision", "decision", d.ID, "verb", d.Verb, "user", d.User, "via", d.Via, "outcome", d.Outcome)
		}
	}
	l.r.Metrics.CountEvents(l.decision.Events)
}

// RecordEvents implements reconcile.Object.
func (l reportingPass) RecordEvents(events []planner.Event) {
	cluster.RecordEvents(l.r.Recorder, cluster.MetadataOf(l.Rollout), "Release", events)
}

// forgetRollout removes a Rollout that does not exist from the index of the policies and from everything that
// the controller keeps in memory. The index may still have it if it lost its finalizer, or if somebody
// else wrote the entry.
func (r *Reconciler) forgetRollout(ctx context.Context, key types.NamespacedName) error {
	r.networkLocks.Release(key)
	if r.Measurer != nil {
		r.Measurer.SetRequests(key, analysis.Subject{}, nil)
	}
	r.Metrics.SetCheckResults(key.Namespace, key.Name, nil)
	entry, err := r.Server.IndexEntry(ctx, key, nil)
	if err != nil || !entry.IsListed {
		return err
	}
	if gone, err := r.Server.IsRolloutGone(ctx, entry); err != nil || !gone {
		return err
	}
	if err := r.Server.RemoveFromIndex(ctx, entry); !cluster.IsConflict(err) {
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

// liveCluster is where the passes of a Reconciler read and write.
type liveCluster struct {
	cluster.Server
	*cluster.Network
	r *Reconciler
}

// MissingAdmission implements Reader.
func (s liveCluster) MissingAdmission(ctx context.Context, ro *rollouts.Rollout, unlisted string) (string, error) {
	resource, err := s.WorkloadResource(ro.Spec.WorkloadRef)
	if err != nil {
		return "", err
	}
	return s.r.AdmissionStatus.MissingPart(ctx, ro.Namespace, resource, unlisted)
}

// CheckAvailability implements Reader.
func (s liveCluster) CheckAvailability(ctx context.Context, row workload.Row) (cluster.Unavailability, error) {
	return s.r.workloadKinds.CheckAvailability(ctx, s.Server.Reader, row)
}

// WriteHistory implements Writer. It makes room when a history was made.
func (s liveCluster) WriteHistory(ctx context.Context, p cluster.ReleaseObjects, f planner.HistoryEntry) error {
	made, err := s.Server.WriteHistory(ctx, p, f)
	if err != nil || !made {
		return err
	}
	return s.PruneHistories(ctx, p.Rollout, s.r.Retention, s.r.Clock.Now())
}
