// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// State is the state of a release according to the stored status. Verbs, conditions, waits and
// messages all use it.
type State string

const (
	// StateIdle means that no release is in progress.
	StateIdle State = "Idle"
	// StateWorkloadGone means that the workload is gone, and Weir restores the Services and routers.
	StateWorkloadGone State = "WorkloadGone"
	// StateLeaving means that the Rollout is being deleted or disabled, and the workload is still held.
	StateLeaving State = "Leaving"
	// StateLeavingAborted is StateLeaving after the release was aborted.
	StateLeavingAborted State = "LeavingAborted"
	// StateInitializing means that the release waits for the objects that its first step needs.
	StateInitializing State = "Initializing"
	// StateInStep means that a step is in progress or waits.
	StateInStep State = "InStep"
	// StateRefused means that a third template was set during a blue-green release, which has room
	// for the pods of two revisions only.
	StateRefused State = "Refused"
	// StatePaused means that the release is paused by the verb pause, by the spec, or by both.
	StatePaused State = "Paused"
	// StateSuperseding means that the release of a newer template replaces this release.
	StateSuperseding State = "Superseding"
	// StateAborted means that the release was aborted. The stable revision may not have all its pods yet.
	StateAborted State = "Aborted"
	// StateFinalising means that all steps are complete, and the workload is still held.
	StateFinalising State = "Finalising"
	// StateRestoring means that the workload is being returned to its native controller.
	StateRestoring State = "Restoring"
	// StateCancelling means that the user set the stable template again.
	StateCancelling State = "Cancelling"
)

// states has the states in order of precedence: StateOf returns the first that applies.
var states = []struct {
	state   State
	applies func(r *rollouts.Rollout, p *rollouts.Progress) bool
}{
	{StateIdle, func(r *rollouts.Rollout, p *rollouts.Progress) bool { return p == nil || !isUnfinished(r) }},
	{StateWorkloadGone, func(r *rollouts.Rollout, _ *rollouts.Progress) bool {
		return strings.HasPrefix(r.Status.Message, workloadNotFound) || strings.HasPrefix(r.Status.Message, workloadMadeAgain)
	}},
	{StateCancelling, activityIn(rollouts.ActivityCancelling)},
	{StateLeavingAborted, func(r *rollouts.Rollout, _ *rollouts.Progress) bool {
		return isLeaving(r) && slices.Contains([]rollouts.Activity{rollouts.ActivityAborting, rollouts.ActivityAborted}, r.Status.Activity())
	}},
	{StateRestoring, func(r *rollouts.Rollout, p *rollouts.Progress) bool {
		if r.Status.Phase != rollouts.PhaseProgressing {
			return !isBefore(disableTeardown, p)
		}
		style := rollouts.StyleFor(&r.Spec.Strategy, r.Spec.WorkloadRef)
		return r.Status.Activity() == rollouts.ActivityFinalising && !canStillAbort(style, p)
	}},
	{StateSuperseding, func(r *rollouts.Rollout, p *rollouts.Progress) bool {
		return r.Status.Activity() == rollouts.ActivityAborted && !p.RollingBack && p.FinalisingStep != ""
	}},
	{StateAborted, activityIn(rollouts.ActivityAborting, rollouts.ActivityAborted)},
	{StateLeaving, func(r *rollouts.Rollout, _ *rollouts.Progress) bool { return isLeaving(r) }},
	{StateFinalising, activityIn(rollouts.ActivityFinalising)},
	{StateRefused, func(r *rollouts.Rollout, _ *rollouts.Progress) bool { return refusesRevision(r) }},
	{StatePaused, func(r *rollouts.Rollout, p *rollouts.Progress) bool { return r.Spec.Strategy.Paused || p.Paused }},
	{StateSuperseding, func(_ *rollouts.Rollout, p *rollouts.Progress) bool {
		return p.FinalisingStep != "" && p.State != rollouts.BeforeStepUpgrade
	}},
	{StateInitializing, activityIn(rollouts.ActivityInitializing)},
}

// isLeaving reports whether the Rollout was deleted or disabled, even if no reconcile has observed it yet.
func isLeaving(r *rollouts.Rollout) bool {
	return r.DeletionTimestamp != nil || r.Spec.Disabled || r.Status.Phase != rollouts.PhaseProgressing
}

// isUnfinished reports whether a release is not over. A Rollout that is being deleted or disabled still
// has to undo a release that was active.
func isUnfinished(r *rollouts.Rollout) bool {
	switch r.Status.Phase {
	case rollouts.PhaseProgressing:
		return true
	case rollouts.PhaseTerminating, rollouts.PhaseDisabling:
		return !slices.Contains([]rollouts.Activity{rollouts.ActivityNone, rollouts.ActivityCompleted}, r.Status.Activity())
	default:
		return false
	}
}

// activityIn returns a condition that a release has one of the activities.
func activityIn(as ...rollouts.Activity) func(*rollouts.Rollout, *rollouts.Progress) bool {
	return func(r *rollouts.Rollout, _ *rollouts.Progress) bool { return slices.Contains(as, r.Status.Activity()) }
}

// refusesRevision reports whether a blue-green release refuses the current template. It reads this from
// the condition Stalled: this reason is reserved for Weir (pkg/apis/rollouts/foreign.go).
func refusesRevision(r *rollouts.Rollout) bool {
	c := r.Status.Condition(rollouts.ConditionStalled)
	return c != nil && c.Status == metav1.ConditionTrue && c.Reason == string(rollouts.StalledRefused)
}

// StateOf classifies a Rollout by its stored status.
func StateOf(r *rollouts.Rollout) State {
	p := r.Status.Active()
	for _, s := range states {
		if s.applies(r, p) {
			return s.state
		}
	}
	return StateInStep
}

// explanations has a function for each state, which describes the state and what the user can do.
var explanations = map[State]func(*rollouts.Rollout, *rollouts.Progress) string{
	StateIdle: func(r *rollouts.Rollout, _ *rollouts.Progress) string {
		return fmt.Sprintf("no release is in progress (phase %s)", r.Status.Phase)
	},
	StateWorkloadGone: func(_ *rollouts.Rollout, p *rollouts.Progress) string {
		return fmt.Sprintf("the workload is gone, and the release of revision %s ends with it", p.UpdateRevision)
	},
	StateLeaving: func(r *rollouts.Rollout, _ *rollouts.Progress) string {
		return leavingText(r) + "; abort is still possible, and leaves the workload paused on the stable revision"
	},
	StateLeavingAborted: func(r *rollouts.Rollout, _ *rollouts.Progress) string {
		return leavingText(r) + ", and its release was aborted" + AbortedBy(r) + ": the workload stays paused on the stable revision"
	},
	StateInitializing: fixedText("the release is about to start its first step"),
	StateRefused: func(_ *rollouts.Rollout, p *rollouts.Progress) string {
		return "the workload has another template, which is refused while revision " + p.UpdateRevision +
			" is released in blue-green style; apply the template of that revision again to continue, or abort this release first"
	},
	StatePaused: func(r *rollouts.Rollout, _ *rollouts.Progress) string { return resumeHint(r) },
	StateSuperseding: func(_ *rollouts.Rollout, p *rollouts.Progress) string {
		return "another template is replacing revision " + p.UpdateRevision
	},
	StateAborted: func(r *rollouts.Rollout, p *rollouts.Progress) string {
		if p.RollingBack {
			return "the release is being rolled back" + AbortedBy(r) + ", and ends when all pods and requests are back on the stable version; release another version instead, or retry this one"
		}
		return fmt.Sprintf("the release was aborted%s; retry it from step 1, roll back to apply the stable template again, or release another version",
			AbortedBy(r))
	},
	StateFinalising: fixedText("all steps are done, and the release is being finished; abort is still possible"),
	StateRestoring:  func(r *rollouts.Rollout, _ *rollouts.Progress) string { return restoringText(r) },
	StateCancelling: fixedText("the release is being cancelled, because the stable template was applied again"),
	StateInStep: func(_ *rollouts.Rollout, p *rollouts.Progress) string {
		return fmt.Sprintf("the release is in progress, at step %d in state %s", p.CurrentStepIndex, p.State)
	},
}

// fixedText returns an explanation that is the same for all Rollouts.
func fixedText(text string) func(*rollouts.Rollout, *rollouts.Progress) string {
	return func(*rollouts.Rollout, *rollouts.Progress) string { return text }
}

// Explain describes the state of the release and what the user can do.
func (s State) Explain(r *rollouts.Rollout) string { return explanations[s](r, r.Status.Active()) }

// leavingText says why the Rollout is leaving.
func leavingText(r *rollouts.Rollout) string {
	if r.DeletionTimestamp != nil {
		return "the rollout is being deleted"
	}
	if r.Status.Phase == rollouts.PhaseDisabling || r.Status.Phase == rollouts.PhaseProgressing {
		return "the rollout is being disabled"
	}
	return "the rollout is disabled; set spec.disabled to false to release again"
}

// resumeHint says how the user ends the pause.
func resumeHint(r *rollouts.Rollout) string {
	if r.Spec.Strategy.Paused {
		return "the rollout is paused; set spec.strategy.paused to false first"
	}
	return fmt.Sprintf("the release was paused%s; resume it first", PausedBy(r))
}

// restoringText says why the workload is being restored, and how the user returns to the earlier template.
func restoringText(r *rollouts.Rollout) string {
	if isLeaving(r) {
		return leavingText(r) + " and the workload is being returned to its native controller; apply the stable template again to go back"
	}
	return "the release is complete and the workload is being returned to its native controller; release the stable version again to go back"
}
