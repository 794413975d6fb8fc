// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package verb

import (
	"fmt"
	"slices"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// openChecksPassedBy returns the open checks that a command goes past, including inconclusive ones.
// Commands that go back or stop the release go past none. A retry goes past none either, because the
// checks judge the new attempt from its first step; a retry that overrides them goes past all.
func openChecksPassedBy(r *rollouts.Rollout, c Command) []planner.OpenCheck {
	_, plan := r.Spec.Strategy.Active()
	switch {
	case c.Verb == rollouts.VerbPromote && c.Full && c.Override:
		return planner.OpenToTheEnd(r)
	case c.Verb == rollouts.VerbPromote:
		return planner.OpenForApproval(r, c.Full)
	case c.Verb == rollouts.VerbJump && plan.Step(c.Step) != nil:
		return planner.OpenChecks(r, c.Step)
	case c.Verb == rollouts.VerbRetry && c.Override:
		return planner.OpenForRetry(r)
	default:
		return nil
	}
}

// requireOverride refuses a command that goes past open checks that need an override, unless the
// command overrides the checks.
func requireOverride(r *rollouts.Rollout, c Command, open []planner.OpenCheck) error {
	open = planner.NeedOverride(open)
	switch {
	case c.Override, len(open) == 0:
		return nil
	case c.Verb == rollouts.VerbPromote:
		return refuse("step %d waits for its checks: %s; abort, or %s", r.Status.Active().CurrentStepIndex, planner.DescribeResults(open), howToOverride(r, c))
	default:
		return refuse("the jump goes past checks that have not passed: %s; abort, or %s", planner.DescribeOpenChecks(open), howToOverride(r, c))
	}
}

// howToOverride says how a user overrides the checks, and which permission this takes. A write of an older
// client cannot override, so its text names the verb.
func howToOverride(r *rollouts.Rollout, c Command) string {
	how, flags := "override: true", ""
	if c.Full {
		how, flags = "full: true and override: true", " --full"
	}
	if c.Verb == rollouts.VerbJump {
		flags = fmt.Sprintf(" %d", c.Step)
	}
	how = fmt.Sprintf("%s with %s", c.Verb, how)
	if c.Via != rollouts.ViaVerb && c.Via != "" {
		how = fmt.Sprintf("use the verb %s (POST …/rollouts/%s/%s)", how, r.Name, c.Verb)
	}
	namespace := ""
	if r.Namespace != "" {
		namespace = " -n " + r.Namespace
	}
	return fmt.Sprintf("%s, which requires a reason and permission to create rollouts/override (kubectl weir %s %s%s --override --reason=…%s)", how, c.Verb, r.Name, flags, namespace)
}

// overriddenChecks returns the open checks that the record of a command with an override names.
func overriddenChecks(open []planner.OpenCheck) []rollouts.OverriddenCheck {
	var all []rollouts.OverriddenCheck
	for _, c := range open[:min(len(open), rollouts.MaxOverriddenChecks)] {
		all = append(all, c.OverriddenCheck)
	}
	return all
}

// ValidateEdit refuses an edit of the Rollout that drops open checks of the release under way. An edit never
// overrides checks: it has no place for a reason, and clients that apply manifests often have all
// permissions.
func ValidateEdit(r *rollouts.Rollout, edited *rollouts.RolloutSpec) error {
	change, open := planner.DroppedByEdit(r, edited)
	if len(open) == 0 {
		return nil
	}
	full := Command{Verb: rollouts.VerbPromote, Full: true, Via: rollouts.ViaSpec}
	return refuse("the edit %s, and checks of the release have not passed: %s; edit the Rollout once they have passed or after an abort, "+
		"or first %s; checks only report after that", change, planner.DescribeOpenChecks(open), howToOverride(r, full))
}

// ValidateStatus refuses a status that continues past open checks, or that ends or restarts the release while
// checks are open. It is for users who may write the progress of releases. Only the controller may leave a step
// without a decision on record.
func ValidateStatus(r *rollouts.Rollout, next *rollouts.RolloutStatus) error {
	was, is := r.Status.Active(), next.Active()
	if was == nil || !planner.IsUnderWay(r) {
		return nil
	}
	if open := planner.NeedOverride(planner.OpenToTheEnd(r)); len(open) > 0 && !continuesRelease(&r.Status, next) {
		full := Command{Verb: rollouts.VerbPromote, Full: true, Via: rollouts.ViaStatus}
		return refuse("the status ends or replaces the release, and checks of the release have not passed: %s; abort, or %s", planner.DescribeOpenChecks(open), howToOverride(r, full))
	}
	if is == nil || !was.SameRelease(is) {
		return nil
	}
	c := Command{Verb: rollouts.VerbJump, Via: rollouts.ViaStatus, Step: is.CurrentStepIndex}
	if is.State == rollouts.StepReady || is.State == rollouts.StepCompleted {
		c.Step++
	}
	if open := planner.NeedOverride(planner.OpenChecks(r, c.Step)); len(open) > 0 {
		return refuse("the status goes past checks that have not passed: %s; abort, or %s", planner.DescribeOpenChecks(open), howToOverride(r, c))
	}
	return nil
}

// continuesRelease reports whether a written status is about the same release, between the same templates and with
// the same plan, and the release is in its steps or goes back. In any other status, the controller would complete
// the release, or forget the results of its checks.
func continuesRelease(was, next *rollouts.RolloutStatus) bool {
	before, after := was.Active(), next.Active()
	if after == nil || (was.Canary == nil) != (next.Canary == nil) || was.WorkloadUID != next.WorkloadUID {
		return false
	}
	inStepsOrBack := []rollouts.Activity{rollouts.ActivityInRolling, rollouts.ActivityPaused, rollouts.ActivityAborting, rollouts.ActivityAborted}
	return next.Phase == rollouts.PhaseProgressing && slices.Contains(inStepsOrBack, next.Activity()) &&
		before.UpdateRevision == after.UpdateRevision && before.UpdateTemplate == after.UpdateTemplate &&
		before.StableRevision == after.StableRevision && before.StableTemplate == after.StableTemplate &&
		before.RolloutHash == after.RolloutHash
}
