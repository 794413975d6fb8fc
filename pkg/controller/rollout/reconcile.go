// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-rollouts/weir/pkg/controller/effect"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Reconciler runs one pass at a time over each Rollout.
type Reconciler struct {
	Server      effect.Server
	Recorder    events.EventRecorder
	Clock       clock.PassiveClock
	Concurrency int
}

// moved is how soon to look again when somebody else wrote first.
const moved = 20 * time.Millisecond

// Reconcile runs one pass: observe, plan, commit, announce, apply.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	obs, err := r.observe(ctx, req.NamespacedName)
	if err != nil || obs == nil {
		return ctrl.Result{}, err
	}
	plan := planner.Rollout(obs.facts)
	err = r.Server.CommitRollout(ctx, obs.rollout, plan.Status, len(plan.Actions) > 0)
	if err == nil {
		r.announce(obs, plan.Events)
		err = r.apply(ctx, obs, plan)
	}
	if effect.Moved(err) {
		return ctrl.Result{RequeueAfter: moved}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("applying %q: %w", plan.Rule, err)
	}
	return ctrl.Result{RequeueAfter: plan.Wake}, nil
}

// announce tells what has happened, now that it is stored.
func (r *Reconciler) announce(obs *observation, announced []planner.Event) {
	about := effect.About(obs.rollout)
	for _, e := range announced {
		kind := corev1.EventTypeNormal
		if e.Warning {
			kind = corev1.EventTypeWarning
		}
		r.Recorder.Eventf(about, nil, kind, e.Reason, "Release", "%s", e.Message)
	}
}

// apply reaches the targets in order and stops at the first that fails.
func (r *Reconciler) apply(ctx context.Context, obs *observation, plan planner.Plan) error {
	for _, action := range plan.Actions {
		logf.FromContext(ctx).Info("Acting", "action", action.String(), "reason", plan.Rule)
		if err := r.act(ctx, obs, action); err != nil {
			return err
		}
	}
	return nil
}
