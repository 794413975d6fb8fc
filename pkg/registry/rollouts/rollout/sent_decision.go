// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// sentDecision is the decision that a client expresses by writing the status.
type sentDecision struct {
	// verb is empty if the write expresses no decision.
	verb rollouts.Verb
	// step is the target of a jump.
	step int32
	// path is the field that was written.
	path *field.Path
}

// findSentDecision compares the sent status with the stored one. If a client changes both fields, the jump
// takes precedence, as in OpenKruise.
func findSentDecision(sent, stored *rollouts.RolloutStatus) sentDecision {
	after, before := sent.Active(), stored.Active()
	path := progressPath(sent)
	if before == nil {
		before = &rollouts.Progress{}
	}
	switch {
	case after == nil:
		return sentDecision{}
	case after.NextStepIndex != before.NextStepIndex && after.NextStepIndex != 0:
		return sentDecision{verb: rollouts.VerbJump, step: after.NextStepIndex, path: path.Child("nextStepIndex")}
	case after.State == rollouts.StepReady && before.State != rollouts.StepReady:
		return sentDecision{verb: rollouts.VerbPromote, path: path.Child("currentStepState")}
	default:
		return sentDecision{}
	}
}

// warnIgnoredFields returns a warning about sent fields that only weir-controller may write; empty if there are
// none. Zero values cause no warning, because the client's type may lack the field.
func warnIgnoredFields(sent, stored *rollouts.RolloutStatus) string {
	after, before := cmp.Or(sent.Active(), &rollouts.Progress{}), cmp.Or(stored.Active(), &rollouts.Progress{})
	progress := progressPath(sent)
	var fields []string
	for _, f := range []struct {
		path    *field.Path
		differs bool
	}{
		{field.NewPath("status", "phase"), isSetAndDiffers(sent.Phase, stored.Phase)},
		{field.NewPath("status", "message"), isSetAndDiffers(sent.Message, stored.Message)},
		{progress.Child("currentStepIndex"), isSetAndDiffers(after.CurrentStepIndex, before.CurrentStepIndex)},
		{progress.Child("currentStepState"), isSetAndDiffers(after.State, before.State)},
		{progress.Child("stableRevision"), isSetAndDiffers(after.StableRevision, before.StableRevision)},
		{progress.Child("paused"), isSetAndDiffers(after.Paused, before.Paused)},
		{progress.Child("fullyPromoted"), isSetAndDiffers(after.FullyPromoted, before.FullyPromoted)},
	} {
		if f.differs {
			fields = append(fields, f.path.String())
		}
	}
	if len(fields) == 0 {
		return ""
	}
	return "not written, because it requires permission to update rollouts/progress: " + strings.Join(fields, ", ") +
		"; to decide about a release, use a verb such as promote, pause or abort"
}

func isSetAndDiffers[T comparable](sent, stored T) bool {
	var none T
	return sent != none && sent != stored
}

func progressPath(s *rollouts.RolloutStatus) *field.Path {
	if s.BlueGreen != nil {
		return field.NewPath("status", "blueGreenStatus")
	}
	return field.NewPath("status", "canaryStatus")
}

// isReservedCondition reports whether only Weir may write the condition. Another controller may write the condition
// Stalled with a reason of its own, while Weir has not set it.
func isReservedCondition(stored *rollouts.RolloutStatus, sent rollouts.Condition) bool {
	if sent.Type != rollouts.ConditionStalled {
		return slices.Contains(rollouts.ConditionTypes, sent.Type)
	}
	c := stored.Condition(sent.Type)
	return isWeirReason(sent) || c != nil && isWeirReason(*c)
}

func isWeirReason(c rollouts.Condition) bool { return rollouts.StallReason(c.Reason).Known() }

// keepForeignConditions takes over the conditions that other controllers sent. It removes none: an older
// client may not have read all of them.
func keepForeignConditions(next *rollouts.RolloutStatus, sent []rollouts.Condition) {
	for _, c := range sent {
		if isReservedCondition(next, c) {
			continue
		}
		if stored := next.Condition(c.Type); stored != nil {
			*stored = c
		} else {
			next.Conditions = append(next.Conditions, c)
		}
	}
}

// restoreUnknownFields restores the fields that clients built for OpenKruise do not have. Such tools often run
// as administrators, who may write the whole status. Each of their writes of a condition would remove these
// fields.
func restoreUnknownFields(sent, stored *rollouts.RolloutStatus) {
	if len(sent.Releases) == 0 {
		sent.Releases = stored.DeepCopy().Releases
	}
	if sent.WorkloadUID == "" {
		sent.WorkloadUID = stored.WorkloadUID
	}
	if sent.Network == nil {
		sent.Network = stored.Network.DeepCopy()
	}
	if sent.TrafficChange == nil {
		sent.TrafficChange = stored.TrafficChange.DeepCopy()
	}
	if sent.Active() == nil {
		sent.BlueGreen = stored.BlueGreen.DeepCopy() // v1alpha1 has none
	}
	p, was := sent.Active(), stored.Active()
	if p != nil && was != nil && p.SameRelease(was) {
		restoreUnknownProgress(p, was)
		// Only the controller writes the results of checks. Otherwise a writer could change a failed check to a passed one.
		sent.Analysis = stored.Analysis.DeepCopy()
	}
}

func restoreUnknownProgress(p, was *rollouts.Progress) {
	p.FullyPromoted = p.FullyPromoted || was.FullyPromoted
	p.Paused = p.Paused || was.Paused
	p.RollingBack = p.RollingBack || was.RollingBack
	if p.StableTemplate == "" && p.StableRevision == was.StableRevision {
		p.StableTemplate = was.StableTemplate
	}
	p.UpdateTemplate = cmp.Or(p.UpdateTemplate, was.UpdateTemplate)
	if p.AbortedRevision == "" || p.AbortedTemplate == "" && p.AbortedRevision == was.AbortedRevision {
		p.AbortedRevision, p.AbortedTemplate = was.AbortedRevision, was.AbortedTemplate
	}
	if p.LastProgressTime == nil {
		p.LastProgressTime, p.ProgressMark = was.LastProgressTime.DeepCopy(), was.ProgressMark
	}
	if p.NextStepIndex == 0 {
		// No release has step 0: the client is older than the field.
		p.NextStepIndex, p.FinalisingStep = was.NextStepIndex, was.FinalisingStep
	}
}

// mergeOutcomes keeps the stored decisions: writers of the status cannot add, change or remove decisions.
// They can set the outcome of a decision, once.
func mergeOutcomes(sent, stored []rollouts.Decision) []rollouts.Decision {
	kept := slices.Clone(stored)
	for i := range kept {
		if kept[i].Outcome != "" {
			continue
		}
		for _, d := range sent {
			if d.ID == kept[i].ID {
				kept[i].Outcome = d.Outcome
			}
		}
	}
	return kept
}
