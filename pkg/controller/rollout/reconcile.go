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

// Reconciler reconciles Rollouts.
type Reconciler struct {
	Server      cluster.Server
	Recorder    events.EventRecorder
	Clock       clock.PassiveClock
	Concurrency int
	// IsResting reports whether the pass over a Rollout may wait behind others; nil if none may.
	IsResting queue.IsResting
	// AdmissionCache is the cache that Server.Indexes and AdmissionStatus read from.
	AdmissionCache cache.Cache
	// AdmissionStatus reads which parts of admission are installed.
	AdmissionStatus cluster.AdmissionStatus
	network         *cluster.Network
	networkLocks    cluster.NetworkLocks
	workloadKinds   cluster.WorkloadKinds
	// limitBackoff limits the backoff of a failed pass to its planned delay (queue.BackoffLimiter).
	limitBackoff func(ctrl.Request, time.Duration)
	// ScriptNamespaces are the namespaces that may have a ConfigMap with traffic scripts of users.
	ScriptNamespaces []string
	Options
	// Measurer measures for the checks of releases; nil if nothing is measured.
	Measurer Measurer
	// MeasurementEvents receives the Rollouts that have new measurements; nil if nothing is measured.
	MeasurementEvents <-chan event.GenericEvent
	// Metrics counts the stored results.
	Metrics *metrics.Metrics
	// Retention limits the histories of each Rollout.
	Retention planner.HistoryRetention
	// ReleaseAnnotations names the annotations that say what was built into a release.
	ReleaseAnnotations map[string]string
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
	requeueAfter := p.requeueDelay()
	if slices.ContainsFunc(histories, func(h planner.HistoryEntry) bool { return h.Release.EndTime != nil }) {
		requeueAfter = reconcile.ConflictRequeueDelay // the controller does not watch histories
	}
	return reconcile.PassResult(req, plan, requeueAfter, r.limitBackoff, err)
}

// reportingPass is a pass that also records events, metrics and log lines, and requests measurements.
type reportingPass struct {
	*Pass
	r        *Reconciler
	decision planner.Decision
}

// Commit implements reconcile.Object. If the status acquires Services and routers, Commit first acquires
// the in-process lock. Without the lock, the passes over two Rollouts could both acquire the same Service
// before the caches show the first status.
func (p reportingPass) Commit(ctx context.Context, next rollouts.RolloutStatus) error {
	ro := p.Rollout
	holder := types.NamespacedName{Namespace: ro.Namespace, Name: ro.Name}
	if ro.Status.Network == nil && next.Network != nil && !p.r.networkLocks.TryAcquire(p.r.Clock.Now(), holder, cluster.NetworkKeysOf(ro)) {
		return cluster.ErrStaleCache
	}
	return p.Pass.Commit(ctx, next)
}

// AfterCommit implements reconcile.Object. It requests measurements, and logs the outcomes of decisions.
func (p reportingPass) AfterCommit(ctx context.Context) {
	p.r.requestMeasurements(ctx, p.Pass, p.decision)
	unsettled := map[int64]bool{}
	for _, before := range p.Facts.Rollout.Status.Decisions {
		unsettled[before.ID] = before.Outcome == ""
	}
	for _, d := range p.decision.Status.Decisions {
		if unsettled[d.ID] && d.Outcome != "" {
			logf.FromContext(ctx).Info("Settled decision", "decision", d.ID, "verb", d.Verb, "user", d.User, "via", d.Via, "outcome", d.Outcome)
		}
	}
}

// RecordEvents implements reconcile.Object.
func (p reportingPass) RecordEvents(events []planner.Event) {
	p.r.Metrics.CountEvents(events)
	cluster.RecordEvents(p.r.Recorder, cluster.MetadataOf(p.Rollout), "Release", events)
}

// forgetRollout removes a deleted Rollout from the index of the policies and from the memory of the
// controller. The index may still have an entry if somebody removed the Rollout's finalizer or wrote the
// entry.
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
	return nil // a conflict: the watch event of the other write starts the next pass
}

// logValues returns the keys and values that identify the release in each log line of a pass.
func logValues(status rollouts.RolloutStatus) []any {
	values := []any{"phase", status.Phase}
	if p := status.Active(); p != nil && p.UpdateRevision != "" {
		values = append(values, "revision", p.UpdateRevision, "step", p.CurrentStepIndex, "state", p.State)
	}
	return values
}

// liveCluster implements Cluster with informer caches and the API server.
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

// WriteHistory implements Writer. After it has created a history, it deletes the outdated ones.
func (s liveCluster) WriteHistory(ctx context.Context, o cluster.ReleaseObjects, h planner.HistoryEntry) error {
	o.Annotations = s.r.ReleaseAnnotations
	created, err := s.Server.WriteHistory(ctx, o, h)
	if err != nil || !created {
		return err
	}
	return s.PruneHistories(ctx, o.Rollout, s.r.Retention, s.r.Clock.Now())
}
