// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package verb

import (
	"fmt"
	"strings"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Automatic puts on record what the checks of a plan have decided, where a status that is
// written says so: an abort, or that a step went on which no person had approved. The command
// has who writes, and when; it is made only for a decision. A status with a promotion must not
// be stored without the decision, so an error refuses the write.
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
	err := record(next, c, outcome)
	next.Active().CurrentStepIndex = at
	return err
}

// decidedByChecks is the verb that the checks stand for between two statuses, of which step,
// and why; empty if none.
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

// passedBy reports whether a step that was measured was left without a person.
func passedBy(before, after *rollouts.Progress) bool {
	measured := before.State == rollouts.StepMetricsAnalysis || before.State == rollouts.StepPaused
	left := after.CurrentStepIndex == before.CurrentStepIndex+1 || after.State == rollouts.StepCompleted
	return measured && left && !before.FullyPromoted
}

// reasons are those of the checks with one of the results.
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
