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
	"github.com/weir-rollouts/weir/pkg/controller/pass"
	"github.com/weir-rollouts/weir/pkg/controller/rollout"
	"github.com/weir-rollouts/weir/pkg/controller/trafficrouting"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/sizes"
)

// Passes in the world are those of the controllers, which are told and checked here.

type (
	rolloutDecision = pass.Decision[rollouts.RolloutStatus]
	batchDecision   = pass.Decision[rollouts.BatchReleaseStatus]
	routingDecision = pass.Decision[rollouts.TrafficRoutingStatus]
)

// unlogged is the context of passes: transcripts say what they do.
var unlogged = logf.IntoContext(context.Background(), logr.Discard())

func (w *world) clock() time.Time { return w.now }

// played runs one pass, of which a decision that is stored is told, and each action. Who has
// died acts no more.
func played[O, S any](w *world, name string, steps pass.Steps[O, S], planned func(*O, pass.Decision[S])) error {
	commit, act, stores := steps.Commit, steps.Act, false
	steps.Commit = func(ctx context.Context, o *O, status S) error {
		stores = true
		return commit(ctx, o, status)
	}
	steps.Stored = func(_ context.Context, o *O, d pass.Decision[S]) {
		if stores {
			planned(o, d)
		}
	}
	steps.Act = func(ctx context.Context, o *O, action planner.Action) error {
		if w.dead {
			return errCrash
		}
		w.acts++
		w.tell.acted(action.Effect)
		w.follows = action.When == planner.FromStored
		before := w.actor
		defer func() { w.actor, w.follows = before, false }()
		if size, is := action.Effect.(planner.Size); is {
			w.tell.sized(size.Scale)
			w.actor = "sizes"
		}
		return act(ctx, o, action)
	}
	_, _, err := steps.Run(unlogged, types.NamespacedName{Name: name})
	return err
}

// rolloutPass is one pass of the Rollout controller; it returns when that
// wants to be woken.
func (w *world) rolloutPass(name string) (wake time.Duration) {
	w.as("rollout", func() error {
		steps := rollout.Steps(api{w}, w.clock, rollout.Options{PodsCheck: rollouts.OnFailWait})
		var seen planner.Observed
		steps.Decide = func(o *rollout.Observation) rolloutDecision {
			d := w.check.rollout(o.Facts)
			wake, w.rule, seen = d.Wake, d.Rule, o.Facts
			return d
		}
		err := played(w, name, steps, func(o *rollout.Observation, d rolloutDecision) {
			if onlyRecord(o.Facts.Rollout.Status, d.Status) {
				w.filed++
			}
			w.tell.planned(o.Facts.Rollout, d)
		})
		if err == nil && !w.dead {
			w.check.protects(seen)
		}
		return err
	})
	return wake
}

// batchPass is one pass of the BatchRelease controller, of one that no Rollout has.
func (w *world) batchPass(name string) {
	w.as("batch", func() error {
		steps := batchrelease.Steps(api{w}, w.clock, "")
		steps.Decide = func(b *pass.Batch) batchDecision { return w.check.batch(b.Facts) }
		return played(w, name, steps, func(_ *pass.Batch, d batchDecision) { w.tell.batchPlanned(d) })
	})
}

// routingPass is one pass of the TrafficRouting controller; it returns when that
// wants to be woken.
func (w *world) routingPass(name string) (wake time.Duration) {
	w.as("routing", func() error {
		steps := trafficrouting.Steps(api{w}, w.clock)
		steps.Decide = func(o *trafficrouting.Observation) routingDecision {
			d := w.check.routing(o.Facts)
			wake = d.Wake
			return d
		}
		return played(w, name, steps, func(o *trafficrouting.Observation, d routingDecision) { w.tell.routingPlanned(o.Facts.Routing, d) })
	})
	return wake
}

// sizePass is one pass of the Deployment controller.
func (w *world) sizePass(name string) {
	w.as("sizes", func() error {
		return deployment.Run(unlogged, api{w}, types.NamespacedName{Name: name}, func(o *deployment.Observation) sizes.Scale {
			scale := w.check.sizes(o.Facts)
			if len(scale.Steps) > 0 {
				w.tell.sized(scale)
			}
			return scale
		})
	})
}
