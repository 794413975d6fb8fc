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

// sentDecision is the decision that a client means with a write of the status.
type sentDecision struct {
	// verb is empty when nothing is decided.
	verb rollouts.Verb
	// step is where a jump goes.
	step int32
	// path is the field that was written.
	path *field.Path
}

// sentDecisionOf compares what was sent with what is stored. With both fields set, the
// jump counts, as in OpenKruise.
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

// ignoredFields is the warning about sent fields that only weir-controller writes; empty
// if there are none. A client may have no field for what it leaves out.
func ignoredFields(sent, stored *rollouts.RolloutStatus) string {
	after, before := cmp.Or(sent.Active(), &rollouts.Progress{}), cmp.Or(stored.Active(), &rollouts.Progress{})
	progress := progressPath(sent)
	var fields []string
	for _, f := range []struct {
		path    *field.Path
		differs bool
	}{
		{field.NewPath("status", "phase"), differs(sent.Phase, stored.Phase)},
		{field.NewPath("status", "message"), differs(sent.Message, stored.Message)},
		{progress.Child("currentStepIndex"), differs(after.CurrentStepIndex, before.CurrentStepIndex)},
		{progress.Child("currentStepState"), differs(after.State, before.State)},
		{progress.Child("stableRevision"), differs(after.StableRevision, before.StableRevision)},
		{progress.Child("paused"), differs(after.Paused, before.Paused)},
		{progress.Child("fullyPromoted"), differs(after.FullyPromoted, before.FullyPromoted)},
	} {
		if f.differs {
			fields = append(fields, f.path.String())
		}
	}
	if len(fields) == 0 {
		return ""
	}
	return "not written, since that takes the right to update rollouts/progress: " + strings.Join(fields, ", ") +
		"; to decide about a release, use a verb such as promote, pause or abort"
}

func differs[T comparable](sent, stored T) bool {
	var none T
	return sent != none && sent != stored
}

func progressPath(s *rollouts.RolloutStatus) *field.Path {
	if s.BlueGreen != nil {
		return field.NewPath("status", "blueGreenStatus")
	}
	return field.NewPath("status", "canaryStatus")
}

// reserved reports whether only Weir writes the condition. Another controller may say
// that a release is stalled, as long as Weir does not say so, and for a reason that
// is not one of Weir's.
func reserved(stored *rollouts.RolloutStatus, sent rollouts.Condition) bool {
	if sent.Type != rollouts.ConditionStalled {
		return slices.Contains(rollouts.ConditionTypes, sent.Type)
	}
	c := stored.Condition(sent.Type)
	return ourReason(sent) || c != nil && ourReason(*c)
}

func ourReason(c rollouts.Condition) bool { return rollouts.StallReason(c.Reason).Known() }

// keepForeignConditions takes over the conditions that other controllers sent. None is
// dropped, since an older client may not have read it.
func keepForeignConditions(next *rollouts.RolloutStatus, sent []rollouts.Condition) {
	for _, c := range sent {
		if reserved(next, c) {
			continue
		}
		if stored := next.Condition(c.Type); stored != nil {
			*stored = c
		} else {
			next.Conditions = append(next.Conditions, c)
		}
	}
}

// keepUnknownFields restores the fields of a status that clients built for OpenKruise do
// not have. Tools often run as administrators, who may write everything, and would
// remove these fields with every condition that they write.
func keepUnknownFields(sent, stored *rollouts.RolloutStatus) {
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
		keepUnknownProgress(p, was)
		if sent.Analysis == nil {
			sent.Analysis = stored.Analysis.DeepCopy() // or a check that has failed would be measured again
		}
	}
}

func keepUnknownProgress(p, was *rollouts.Progress) {
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

// settleOutcomes keeps the decisions as they are stored: no writer of a status
// adds, changes or removes one. The outcome of a decision is set once.
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
