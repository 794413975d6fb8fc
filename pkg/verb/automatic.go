// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package verb

import (
	"fmt"
	"strings"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Automatic records the decision of a plan's checks that a written status contains: an abort, or the end of a
// step that no user has approved. It calls command, which has the writer and the time, only for a decision. A
// status with a promotion must not be stored without the decision, so an error must refuse the write.
func Automatic(was, next *rollouts.RolloutStatus, command func() Command) error {
	v, step, reason := decidedByChecks(was, next)
	if v == "" {
		return nil
	}
	c := command()
	c.Verb, c.Via, c.Options.Reason = v, rollouts.ViaAnalysis, rollouts.Clean(reason, rollouts.MaxReason)
	outcome := rollouts.OutcomeApplied
	if v == rollouts.VerbAbort {
		outcome = "" // until the pass that goes back
	}
	at := next.Active().CurrentStepIndex
	next.Active().CurrentStepIndex = step
	err := recordDecision(next, c, outcome)
	next.Active().CurrentStepIndex = at
	return err
}

// decidedByChecks returns the verb that the checks have decided between two statuses, with its step and reason.
// The verb is empty if there was no such decision.
func decidedByChecks(was, next *rollouts.RolloutStatus) (v rollouts.Verb, step int32, reason string) {
	before, after := was.Active(), next.Active()
	if before == nil || after == nil || next.Analysis == nil || !before.SameRelease(after) {
		return "", 0, ""
	}
	aborts := next.Activity() == rollouts.ActivityAborting
	switch {
	case aborts && was.Activity() != rollouts.ActivityAborting:
		return rollouts.VerbAbort, before.CurrentStepIndex, reasons(next.Analysis, rollouts.CheckFailed, rollouts.CheckInconclusive)
	case !aborts && passedBy(before, after):
		return rollouts.VerbPromote, before.CurrentStepIndex, reasons(was.Analysis, rollouts.CheckPassed, rollouts.CheckRunning)
	default:
		return "", 0, ""
	}
}

// passedBy reports whether the release has left a measured step that no user has approved.
func passedBy(before, after *rollouts.Progress) bool {
	measured := before.State == rollouts.StepMetricsAnalysis || before.State == rollouts.StepPaused
	left := after.CurrentStepIndex == before.CurrentStepIndex+1 || after.State == rollouts.StepCompleted
	return measured && left && !before.FullyPromoted
}

// reasons returns the reasons of the checks that have one of the results.
func reasons(a *rollouts.AnalysisStatus, results ...rollouts.CheckResult) string {
	var all []string
	if a != nil {
		for _, c := range a.Checks {
			for _, result := range results {
				if c.Result == result {
					all = append(all, fmt.Sprintf("%s: %s", c.Name, c.Why))
				}
			}
		}
	}
	return strings.Join(all, "; ")
}
