// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// The stable revision may be deleted or edited while a step waits. Operators must learn this at
// once. If only the abort reported it, they would learn it in the middle of an incident.

// reportRevertible sets the condition Revertible, and appends its message to status.message.
func reportRevertible(d *draft) {
	reason, message := irreversibleReason(d.facts)
	previous := d.status.Condition(rollouts.ConditionRevertible)
	if previous != nil {
		d.status.Message = strings.TrimSuffix(d.status.Message, "; "+previous.Message)
	}
	if reason == "" {
		d.status.RemoveCondition(rollouts.ConditionRevertible)
		return
	}
	if previous == nil || previous.Reason != string(reason) {
		d.warn(string(reason), message)
	}
	d.setCondition(rollouts.ConditionRevertible, metav1.ConditionFalse, string(reason), message)
	d.status.Message = strings.TrimSuffix(d.status.Message, ".") + "; " + message
}

// irreversibleReason returns the reason why abort and rollback cannot restore the stable revision; empty
// if they can. It covers only releases that are running or paused: an abort that has begun reports
// the same problem in the condition Stalled.
func irreversibleReason(f facts) (reason rollouts.StallReason, message string) {
	if f.w == nil || f.status.Phase != rollouts.PhaseProgressing || !f.isDoing(rollouts.ActivityInitializing, rollouts.ActivityInRolling, rollouts.ActivityPaused) {
		return "", ""
	}
	kind, stable := f.w.RevisionKind, f.progress().StableRevision
	switch {
	case stableEdited(f):
		return rollouts.StalledStableEdited, fmt.Sprintf(
			"the %s of the stable revision %s was edited, and its template is not restored: abort and rollback cannot go back to it; %s", kind, stable, stableGoneHelp(f))
	case f.w.StableRevisionGone && f.w.AbortSetsTemplate:
		return rollouts.StalledStableGone, fmt.Sprintf(
			"the %s of the stable revision %s was deleted: abort and rollback cannot go back to it; %s", kind, stable, stableGoneHelp(f))
	case f.w.StableRevisionGone:
		return rollouts.StalledStableGone, fmt.Sprintf(
			"the %s of the stable revision %s was deleted, and its pods with it: abort and rollback cannot go back to it; %s", kind, stable, stableGoneHelp(f))
	default:
		return "", ""
	}
}

// IrreversibleReason returns the reason why abort or rollback cannot restore the stable revision; empty
// if they can, and for all other verbs.
func IrreversibleReason(r *rollouts.Rollout, v rollouts.Verb) string {
	c := r.Status.Condition(rollouts.ConditionRevertible)
	if c == nil || c.Status != metav1.ConditionFalse || v != rollouts.VerbAbort && v != rollouts.VerbRollback {
		return ""
	}
	return c.Message
}
