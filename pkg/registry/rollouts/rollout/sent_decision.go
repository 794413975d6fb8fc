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

// sentDecision is the decision that a client means who writes the status.
type sentDecision struct {
	// verb is empty when nothing is decided.
	verb rollouts.Verb
	// step is where a jump goes.
	step int32
	// path is the field that says so.
	path *field.Path
}

// sentDecisionOf compares what was sent with what is stored. Whoever sets both fields
// means the jump: that is what OpenKruise does first.
func sentDecisionOf(sent, stored *rollouts.RolloutStatus) sentDecision {
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

// unwritten says which fields somebody sent that only weir-controller writes; empty if
// none. What a client leaves out, it may have no field for.
func unwritten(sent, stored *rollouts.RolloutStatus) string {
	after, before := cmp.Or(sent.Active(), &rollouts.Progress{}), cmp.Or(stored.Active(), &rollouts.Progress{})
	progress := progressPath(sent)
	var fields []string
	for _, f := range []struct {
		path  *field.Path
		other bool
	}{
		{field.NewPath("status", "phase"), other(sent.Phase, stored.Phase)},
		{field.NewPath("status", "message"), other(sent.Message, stored.Message)},
		{progress.Child("currentStepIndex"), other(after.CurrentStepIndex, before.CurrentStepIndex)},
		{progress.Child("currentStepState"), other(after.State, before.State)},
		{progress.Child("stableRevision"), other(after.StableRevision, before.StableRevision)},
		{progress.Child("paused"), other(after.Paused, before.Paused)},
		{progress.Child("fullyPromoted"), other(after.FullyPromoted, before.FullyPromoted)},
	} {
		if f.other {
			fields = append(fields, f.path.String())
		}
	}
	if len(fields) == 0 {
		return ""
	}
	return "not written, since that takes the right to update rollouts/progress: " + strings.Join(fields, ", ") +
		"; to decide about a release, use a verb such as promote, pause or abort"
}

func other[T comparable](sent, stored T) bool {
	var none T
	return sent != none && sent != stored
}

func progressPath(s *rollouts.RolloutStatus) *field.Path {
	if s.BlueGreen != nil {
		return field.NewPath("status", "blueGreenStatus")
	}
	return field.NewPath("status", "canaryStatus")
}

// own reports whether others may not write the condition as they sent it. A gate
// beside us may say that a release is stalled, as long as we do not say so, and
// for no reason of ours.
func own(stored *rollouts.RolloutStatus, sent rollouts.Condition) bool {
	if sent.Type != rollouts.ConditionStalled {
		return slices.Contains(rollouts.ConditionTypes, sent.Type)
	}
	c := stored.Condition(sent.Type)
	return ourReason(sent) || c != nil && ourReason(*c)
}

func ourReason(c rollouts.Condition) bool { return rollouts.StallReason(c.Reason).Known() }

// keepForeignConditions takes over the conditions that others wrote about the
// Rollout. None is dropped, since an older client may not have read it.
func keepForeignConditions(next *rollouts.RolloutStatus, sent []rollouts.Condition) {
	for _, c := range sent {
		if own(next, c) {
			continue
		}
		if stored := next.Condition(c.Type); stored != nil {
			*stored = c
		} else {
			next.Conditions = append(next.Conditions, c)
		}
	}
}

// keepUnsaid gives back to a status what clients built for OpenKruise have no
// fields for. Tools often run as administrators, who may write everything, and
// would take it away with every condition that they write.
func keepUnsaid(sent, stored *rollouts.RolloutStatus) {
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
	if p != nil && was != nil && p.UpdateRevision == was.UpdateRevision {
		keepUnsaidProgress(p, was)
	}
}

func keepUnsaidProgress(p, was *rollouts.Progress) {
	p.FullyPromoted = p.FullyPromoted || was.FullyPromoted
	p.Paused = p.Paused || was.Paused
	p.RollingBack = p.RollingBack || was.RollingBack
	if p.StableTemplate == "" && p.StableRevision == was.StableRevision {
		p.StableTemplate = was.StableTemplate
	}
	p.AbortedRevision = cmp.Or(p.AbortedRevision, was.AbortedRevision)
	if p.LastProgressTime == nil {
		p.LastProgressTime, p.ProgressMark = was.LastProgressTime.DeepCopy(), was.ProgressMark
	}
	if p.NextStepIndex == 0 {
		// No release has such a step: the client is older than the field.
		p.NextStepIndex, p.FinalisingStep = was.NextStepIndex, was.FinalisingStep
	}
}

// settleOutcomes keeps the decisions as they are stored: no writer of a status
// adds, changes or forgets one. What became of a decision is said once.
func settleOutcomes(sent, stored []rollouts.Decision) []rollouts.Decision {
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
