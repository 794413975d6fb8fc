// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/controller/metrics"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Reconciler runs one pass at a time over each Rollout.
type Reconciler struct {
	Server      cluster.Server
	Recorder    events.EventRecorder
	Clock       clock.PassiveClock
	Concurrency int
	// Beside is the cache that Server.Indexes and AdmissionStatus read.
	Beside cache.Cache
	// AdmissionStatus reads which parts of admission are installed.
	AdmissionStatus cluster.AdmissionStatus
	network         cluster.Network
	turns           cluster.Turns
	kinds           cluster.Kinds
	// Configuration are the namespaces where scripts of users are looked for.
	Configuration []string
	// Metrics are told what is stored.
	Metrics *metrics.Metrics
	// Keep bounds the histories of each Rollout.
	Keep planner.Keep
}

// moved is how soon to look again when somebody else wrote first.
const moved = 20 * time.Millisecond

// Reconcile runs one pass: observe, plan, commit, announce, apply.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	obs, err := r.observe(ctx, req.NamespacedName)
	if err == nil && obs == nil {
		r.turns.Leave(req.NamespacedName)
		err = r.forget(ctx, req.NamespacedName)
	}
	if cluster.Behind(err) {
		return ctrl.Result{RequeueAfter: cluster.Patience}, nil
	}
	if err != nil || obs == nil {
		return ctrl.Result{}, err
	}
	plan := planner.Rollout(obs.facts)
	filings := planner.Filings(plan.Status, obs.facts.Histories)
	before := obs.rollout.Status
	ctx = naming(ctx, plan.Status)
	if !r.takes(obs, plan) {
		return ctrl.Result{RequeueAfter: cluster.Patience}, nil
	}
	err = r.Server.CommitRollout(ctx, obs.rollout, plan.Status, len(plan.Actions)+len(filings) > 0)
	if err == nil {
		say(ctx, before, plan)
		r.Metrics.Stored(obs.rollout, before.Releases, plan.Events)
		r.announce(obs, plan.Events)
		err = r.apply(ctx, obs, plan, filings)
	}
	return r.next(obs, plan, filings, err)
}

// next is when to look again after a pass that ended so.
func (r *Reconciler) next(obs *observation, plan planner.Plan, filings []planner.Filing, err error) (ctrl.Result, error) {
	switch {
	case cluster.Moved(err):
		return ctrl.Result{RequeueAfter: moved}, nil
	case cluster.Vanished(err, obs.rollout.Name):
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("applying %q: %w", plan.Rule, err)
	case over(filings):
		return ctrl.Result{RequeueAfter: moved}, nil // nothing else tells that they are stored
	}
	return ctrl.Result{RequeueAfter: sooner(plan.Wake, obs.again())}, nil
}

// takes reports whether the plan may be stored: one that takes the network may not
// while another Rollout has just taken it, and the caches may not show that yet.
func (r *Reconciler) takes(obs *observation, plan planner.Plan) bool {
	ro := obs.rollout
	by := types.NamespacedName{Namespace: ro.Namespace, Name: ro.Name}
	switch {
	case ro.Status.Network == nil && plan.Status.Network != nil:
		return r.turns.Take(r.Clock.Now(), by, cluster.NetworkOf(ro))
	case ro.Status.Network == nil:
		r.turns.Leave(by)
	}
	return true
}

// unread is how soon to look again for a workload that may not be read: nothing
// tells when it may.
const unread = 10 * time.Second

// sooner is the shorter of two waits; one of 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
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

// announce tells what has happened, now that it is stored.
func (r *Reconciler) announce(obs *observation, announced []planner.Event) {
	about := cluster.About(obs.rollout)
	for _, e := range announced {
		r.Recorder.Eventf(about, nil, cluster.EventType(e), e.Reason, "Release", "%s", e.Message)
	}
}

// apply files what is to be filed and carries out the plan. A release does not
// wait for its history; only a Rollout that is about to go does.
func (r *Reconciler) apply(ctx context.Context, obs *observation, plan planner.Plan, filings []planner.Filing) error {
	err := r.file(ctx, obs, filings)
	if err != nil && leaves(plan) {
		if !hopeless(err) {
			return err
		}
		logf.FromContext(ctx).Error(err, "Leaving without a history")
		err = nil
	}
	return errors.Join(r.recordWriteError(ctx, obs, r.carryOut(ctx, obs, plan)), err)
}

// recordWriteError notes that the server has denied an action, unless it denies the batches
// one. The planner takes that back when nothing is to be written any more.
func (r *Reconciler) recordWriteError(ctx context.Context, obs *observation, err error) error {
	writeError, denied := cluster.WriteError(err)
	if b := obs.facts.Batch; !denied || b != nil && b.WriteError != nil {
		return err
	}
	next, news := *obs.rollout.Status.DeepCopy(), false
	next.Conditions, news = planner.RecordWriteError(next.Conditions, writeError, r.Clock.Now())
	if commit := r.Server.CommitRollout(ctx, obs.rollout, next, false); commit != nil {
		return errors.Join(err, commit)
	}
	if news {
		r.announce(obs, []planner.Event{{Warning: true, Reason: planner.EventDenied, Message: writeError.Message}})
	}
	return err
}

// carryOut reaches the targets in order and stops at the first that fails.
func (r *Reconciler) carryOut(ctx context.Context, obs *observation, plan planner.Plan) error {
	for _, action := range plan.Actions {
		logf.FromContext(ctx).Info("Acting", "action", action.String(), "reason", plan.Rule)
		if err := r.act(ctx, obs, action); err != nil {
			return err
		}
	}
	return nil
}
