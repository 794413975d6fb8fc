// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// naming puts on every line of the log which release it is about, and where that
// is; which Rollout is there already.
func naming(ctx context.Context, status rollouts.RolloutStatus) context.Context {
	p := status.Active()
	if p == nil || p.UpdateRevision == "" {
		return ctx
	}
	return logf.IntoContext(ctx, logf.FromContext(ctx).WithValues("revision", p.UpdateRevision, "step", p.CurrentStepIndex, "state", p.State))
}

// say logs a plan that is stored, and what became of decisions.
func say(ctx context.Context, before rollouts.RolloutStatus, plan planner.Plan) {
	log := logf.FromContext(ctx)
	for _, d := range settled(before.Decisions, plan.Status.Decisions) {
		log.Info("Settled decision", "decision", d.ID, "verb", d.Verb, "user", d.User, "via", d.Via, "outcome", d.Outcome)
	}
	level := 4
	if !equality.Semantic.DeepEqual(before, plan.Status) || len(plan.Actions) > 0 {
		level = 2
	}
	log.V(level).Info("Planned", "reason", plan.Rule, "phase", plan.Status.Phase, "actions", len(plan.Actions), "wake", plan.Wake)
}

// settled are the decisions of which it is known now what became of them.
func settled(before, after []rollouts.Decision) []rollouts.Decision {
	open := map[int64]bool{}
	for _, d := range before {
		open[d.ID] = d.Outcome == ""
	}
	var news []rollouts.Decision
	for _, d := range after {
		if open[d.ID] && d.Outcome != "" {
			news = append(news, d)
		}
	}
	return news
}
