// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/batchrelease"
	"github.com/weir-rollouts/weir/pkg/controller/deployment"
	"github.com/weir-rollouts/weir/pkg/controller/reconcile"
	"github.com/weir-rollouts/weir/pkg/controller/rollout"
	"github.com/weir-rollouts/weir/pkg/controller/trafficrouting"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/sizes"
)

// Passes in the world run the real controllers. The transcript and the invariants observe them.

type (
	batchPlan   = reconcile.Plan[rollouts.BatchReleaseStatus]
	routingPlan = reconcile.Plan[rollouts.TrafficRoutingStatus]
)

// quietContext is the context of passes. Logs are discarded, because transcripts show the actions.
var quietContext = logf.IntoContext(context.Background(), logr.Discard())

// recordedObject is the object of a pass. The transcript shows each stored plan and each action.
type recordedObject[S any] struct {
	reconcile.Object[S]
	w         *world
	committed bool
	// planned adds the plan to the transcript.
	planned func()
}

func (o *recordedObject[S]) Commit(ctx context.Context, next S) error {
	o.committed = true
	return o.Object.Commit(ctx, next)
}

func (o *recordedObject[S]) AfterCommit(context.Context) {
	if o.committed {
		o.planned()
	}
}

// Act carries out an action, unless the process has crashed.
func (o *recordedObject[S]) Act(ctx context.Context, action planner.Action) error {
	w := o.w
	if w.dead {
		return errCrash
	}
	w.actionCount++
	w.observer.acted(action.Effect)
	w.isFromStored = action.When == planner.FromStored
	before := w.actor
	defer func() { w.actor, w.isFromStored = before, false }()
	if size, is := action.Effect.(planner.ScaleReplicaSets); is {
		w.observer.sized(size.Scale)
		w.actor = "sizes"
	}
	return o.Object.Act(ctx, action)
}

// execute carries out a plan.
func execute[S any](w *world, o reconcile.Object[S], p reconcile.Plan[S], planned func()) error {
	_, err := reconcile.Execute(quietContext, &recordedObject[S]{Object: o, w: w, planned: planned}, p)
	return err
}

// rolloutPass runs one pass of the Rollout controller, and returns its requeue interval.
func (w *world) rolloutPass(name string) (wake time.Duration) {
	w.runAs("rollout", func() error {
		p, err := rollout.Observe(quietContext, cachedCluster{w}, w.now, rollout.Options{PodsCheck: rollouts.OnFailWait}, types.NamespacedName{Name: name})
		if p == nil || err != nil {
			return err
		}
		d := w.check.decideRollout(p.Facts)
		plan := rollout.PlanOf(d)
		wake, w.rule = plan.RequeueAfter, plan.Rule
		before := p.Facts.Rollout
		err = execute(w, p, plan, func() {
			if onlyRecord(before.Status, plan.Status) {
				w.historyWrites++
			}
			w.observer.planned(before, d)
		})
		if err == nil && !w.dead && !w.isLate {
			w.check.checkWorkloadProtected(p.Facts)
		}
		return err
	})
	return wake
}

// batchPass runs one pass of the BatchRelease controller. That controller handles BatchReleases
// without a Rollout.
func (w *world) batchPass(name string) {
	w.runAs("batch", func() error {
		p, err := batchrelease.Observe(quietContext, cachedCluster{w}, w.now, "", types.NamespacedName{Name: name})
		if p == nil || err != nil {
			return err
		}
		w.check.decideBatch(p.Facts)
		plan := p.Decide()
		return execute(w, p, plan, func() { w.observer.batchPlanned(plan) })
	})
}

// routingPass runs one pass of the TrafficRouting controller, and returns its requeue interval.
func (w *world) routingPass(name string) (wake time.Duration) {
	w.runAs("routing", func() error {
		p, err := trafficrouting.Observe(quietContext, cachedCluster{w}, w.now, types.NamespacedName{Name: name})
		if p == nil || err != nil {
			return err
		}
		before := p.Facts.Routing
		w.check.decideRouting(p.Facts)
		plan := p.Decide()
		wake = plan.RequeueAfter
		return execute(w, p, plan, func() { w.observer.routingPlanned(before, plan) })
	})
	return wake
}

// sizePass runs one pass of the Deployment controller of Weir.
func (w *world) sizePass(name string) {
	w.runAs("sizes", func() error {
		return deployment.Run(quietContext, cachedCluster{w}, types.NamespacedName{Name: name}, func(o *deployment.Observation) sizes.Scale {
			scale := w.check.decideSizes(o.Facts)
			if len(scale.Steps) > 0 {
				w.observer.sized(scale)
			}
			return scale
		})
	})
}
