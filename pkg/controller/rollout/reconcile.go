// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
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
	"github.com/weir-rollouts/weir/pkg/controller/pass"
	"github.com/weir-rollouts/weir/pkg/controller/queue"
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
	// noLater limits the backoff of a failed reconcile to its planned requeue time (queue.BackoffLimiter).
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
	Keep planner.Keep
}

// Reconcile runs one pass.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	steps := Steps(server{r.Server, r.network, r}, r.Clock.Now, r.Options)
	observe := steps.Observe
	steps.Observe = func(ctx context.Context, key types.NamespacedName) (*Observation, error) {
		obs, err := observe(ctx, key)
		if obs == nil && err == nil {
			r.turns.Leave(key)
			if r.Measures != nil {
				r.Measures.SetQuestions(key, analysis.Subject{}, nil)
			}
			r.Metrics.SetCheckResults(key.Namespace, key.Name, nil)
			err = r.forget(ctx, key)
		}
		return obs, err
	}
	steps.Claim, steps.Stored, steps.Values = r.takes, r.stored, values
	steps.Announce = func(obs *Observation, announced []planner.Event) {
		cluster.Announce(r.Recorder, cluster.About(obs.Rollout), "Release", announced)
	}
	steps.NoLater = r.noLater
	return steps.Reconcile(ctx, req)
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
func (s server) File(ctx context.Context, p cluster.Part, f planner.Filing) error {
	made, err := s.Server.File(ctx, p, f)
	if err != nil || !made {
		return err
	}
	return s.Prune(ctx, p.Rollout, s.r.Keep, s.r.Clock.Now())
}

// takes reports whether the decision may be stored: one that takes the network may not
// while another Rollout has just taken it, and the caches may not show that yet.
func (r *Reconciler) takes(obs *Observation, d pass.Decision[rollouts.RolloutStatus]) bool {
	ro := obs.Rollout
	by := types.NamespacedName{Namespace: ro.Namespace, Name: ro.Name}
	switch {
	case ro.Status.Network == nil && d.Status.Network != nil:
		return r.turns.Take(r.Clock.Now(), by, cluster.NetworkOf(ro))
	case ro.Status.Network == nil:
		r.turns.Leave(by)
	}
	return true
}

// forget takes what is not there out of the index: a Rollout that lost its
// finalizer, or entries that somebody else wrote, all of them in one write.
func (r *Reconciler) forget(ctx context.Context, key types.NamespacedName) error {
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
	return nil // what they wrote wakes the next pass
}

// values say which release a pass is about, and where that is; which Rollout is in the
// log already.
func values(d pass.Decision[rollouts.RolloutStatus]) []any {
	all := []any{"phase", d.Status.Phase}
	if p := d.Status.Active(); p != nil && p.UpdateRevision != "" {
		all = append(all, "revision", p.UpdateRevision, "step", p.CurrentStepIndex, "state", p.State)
	}
	return all
}

// stored logs what became of decisions, and counts what is stored.
func (r *Reconciler) stored(ctx context.Context, obs *Observation, d pass.Decision[rollouts.RolloutStatus]) {
	r.ask(ctx, obs, d)
	before := obs.Facts.Rollout.Status
	open := map[int64]bool{}
	for _, was := range before.Decisions {
		open[was.ID] = was.Outcome == ""
	}
	for _, is := range d.Status.Decisions {
		if open[is.ID] && is.Outcome != "" {
			logf.FromContext(ctx).Info("Settled decision", "decision", is.ID, "verb", is.Verb, "user", is.User, "via", is.Via, "outcome", is.Outcome)
		}
	}
	r.Metrics.CountEvents(d.Events)
}
