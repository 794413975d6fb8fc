// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package verb

import (
	"fmt"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// mustOverride refuses a command that goes past a check that is open or has failed, unless the
// command overrides the checks. It is the one place that decides this, for every way in which a
// command can come.
func mustOverride(r *rollouts.Rollout, c Command) error {
	why := pastChecks(r, c)
	if why == "" || c.Override {
		return nil
	}
	how := fmt.Sprintf("%s with override: true", c.Verb)
	if c.Via != rollouts.ViaVerb && c.Via != "" {
		how = fmt.Sprintf("use the verb %s (POST …/rollouts/%s/%s)", how, r.Name, c.Verb)
	}
	return refuse("%s, or %s, which takes a reason and permission to create rollouts/override", why, how)
}

// pastChecks says past which checks a command goes, and what else is possible; empty if it goes
// past none. Commands that go back, or stop the release, never do.
func pastChecks(r *rollouts.Rollout, c Command) string {
	switch c.Verb {
	case rollouts.VerbPromote:
		if why := planner.ChecksClosed(r, c.Full); why != "" {
			return fmt.Sprintf("step %d waits for its checks: %s; abort", r.Status.Active().CurrentStepIndex, why)
		}
	case rollouts.VerbJump:
		if why := planner.ChecksBefore(r, c.Step); why != "" {
			return fmt.Sprintf("the jump goes past checks that have not passed: %s; abort", why)
		}
	case rollouts.VerbRetry:
		if why := planner.ChecksAborted(r, c.Earlier); why != "" {
			return fmt.Sprintf("the release was aborted by its checks: %s; release another template", why)
		}
	}
	return ""
}

// Edit refuses an edit of the plan that goes past a check that is open or has failed. An edit has
// no way to override checks.
func Edit(r *rollouts.Rollout, edited *rollouts.Strategy) error {
	if why := planner.ChecksDropped(r, edited); why != "" {
		return refuse("the edit drops %s; wait for them, abort, or first use the verb promote with full: true and override: true (POST …/rollouts/%s/promote), "+
			"which takes a reason and permission to create rollouts/override: checks only report after that", why, r.Name)
	}
	return nil
}
