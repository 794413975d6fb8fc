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

// state is where a release stands, as far as verbs care.
type state string

const (
	// atRest: no release is in progress.
	atRest state = "at rest"
	// orphaned: the workload is gone, and the network is being tidied up.
	orphaned state = "orphaned"
	// departing: the Rollout is being deleted or disabled, and the workload is still held.
	departing state = "departing"
	// retreating: so it is, and its release was aborted.
	retreating state = "retreating"
	// starting: the release waits for what its first step needs.
	starting state = "starting"
	// running: a step is under way, or waits.
	running state = "running"
	// refusing: blue-green has no room for the template that is set.
	refusing state = "refusing"
	// frozen: paused by the verb, by the spec, or by both.
	frozen state = "frozen"
	// replacing: another template is taking over.
	replacing state = "replacing"
	// reverting: aborted, whether stable is whole again or not.
	reverting state = "reverting"
	// completing: every step is done, and the workload is still held.
	completing state = "completing"
	// handingBack: the workload is being given back.
	handingBack state = "handing back"
	// cancelling: the template is the stable one again.
	cancelling state = "cancelling"
)

// underWay are the states in which an abort has something to undo.
var underWay = []state{departing, starting, running, refusing, frozen, replacing, completing}

// states in order of precedence; the first that applies is it.
var states = []struct {
	state
	applies func(r *rollouts.Rollout, p *rollouts.Progress) bool
}{
	{atRest, func(r *rollouts.Rollout, p *rollouts.Progress) bool { return p == nil || !unfinished(r) }},
	{orphaned, func(r *rollouts.Rollout, _ *rollouts.Progress) bool {
		return strings.HasPrefix(r.Status.Message, workloadNotFound)
	}},
	{cancelling, isDoing(rollouts.ActivityCancelling)},
	{retreating, func(r *rollouts.Rollout, _ *rollouts.Progress) bool {
		return departs(r) && slices.Contains([]rollouts.Activity{rollouts.ActivityAborting, rollouts.ActivityAborted}, r.Status.Activity())
	}},
	{handingBack, func(r *rollouts.Rollout, p *rollouts.Progress) bool {
		if r.Status.Phase != rollouts.PhaseProgressing {
			return !before(disableTeardown, p)
		}
		style := rollouts.StyleFor(&r.Spec.Strategy, r.Spec.WorkloadRef)
		return r.Status.Activity() == rollouts.ActivityFinalising && !abortable(style, p)
	}},
	{replacing, func(r *rollouts.Rollout, p *rollouts.Progress) bool {
		return r.Status.Activity() == rollouts.ActivityAborted && !p.RollingBack && p.FinalisingStep != ""
	}},
	{reverting, isDoing(rollouts.ActivityAborting, rollouts.ActivityAborted)},
	{departing, func(r *rollouts.Rollout, _ *rollouts.Progress) bool { return departs(r) }},
	{completing, isDoing(rollouts.ActivityFinalising)},
	{refusing, func(r *rollouts.Rollout, _ *rollouts.Progress) bool { return refusesRevision(r) }},
	{frozen, func(r *rollouts.Rollout, p *rollouts.Progress) bool { return r.Spec.Strategy.Paused || p.Paused }},
	{replacing, func(_ *rollouts.Rollout, p *rollouts.Progress) bool {
		return p.FinalisingStep != "" && p.State != rollouts.BeforeStepUpgrade
	}},
	{starting, isDoing(rollouts.ActivityInitializing)},
}

// departs reports whether the Rollout is on its way out, whether that was seen yet or not.
func departs(r *rollouts.Rollout) bool {
	return r.DeletionTimestamp != nil || r.Spec.Disabled || r.Status.Phase != rollouts.PhaseProgressing
}

// unfinished reports whether a release is not over. A Rollout that leaves has still to undo
// one where it was doing something.
func unfinished(r *rollouts.Rollout) bool {
	switch r.Status.Phase {
	case rollouts.PhaseProgressing:
		return true
	case rollouts.PhaseTerminating, rollouts.PhaseDisabling:
		return !slices.Contains([]rollouts.Activity{rollouts.ActivityNone, rollouts.ActivityCompleted}, r.Status.Activity())
	default:
		return false
	}
}

func isDoing(as ...rollouts.Activity) func(*rollouts.Rollout, *rollouts.Progress) bool {
	return func(r *rollouts.Rollout, _ *rollouts.Progress) bool { return slices.Contains(as, r.Status.Activity()) }
}

// refusesRevision believes the condition, since nobody but Weir may give this reason.
func refusesRevision(r *rollouts.Rollout) bool {
	c := r.Status.Condition(rollouts.ConditionStalled)
	return c != nil && c.Status == metav1.ConditionTrue && c.Reason == string(rollouts.StalledRefused)
}

func stateOf(r *rollouts.Rollout) state {
	p := r.Status.Active()
	for _, s := range states {
		if s.applies(r, p) {
			return s.state
		}
	}
	return running
}

// explanations say where a release stands, and what would help.
var explanations = map[state]func(*rollouts.Rollout, *rollouts.Progress) string{
	atRest: func(r *rollouts.Rollout, _ *rollouts.Progress) string {
		return fmt.Sprintf("no release is in progress (phase %s)", r.Status.Phase)
	},
	orphaned: func(_ *rollouts.Rollout, p *rollouts.Progress) string {
		return fmt.Sprintf("the workload is gone, and the release of revision %s ends with it", p.UpdateRevision)
	},
	departing: func(r *rollouts.Rollout, _ *rollouts.Progress) string {
		return departure(r) + "; abort is still possible, and leaves the workload paused on the stable revision"
	},
	retreating: func(r *rollouts.Rollout, _ *rollouts.Progress) string {
		return departure(r) + ", and its release was aborted" + abortedBy(r) + ": the workload stays paused on the stable revision"
	},
	starting: says("the release is about to start its first step"),
	refusing: func(_ *rollouts.Rollout, p *rollouts.Progress) string {
		return "the workload has another template, which is refused while revision " + p.UpdateRevision +
			" is released in blue-green style; set the template of that revision to go on, or abort or rollback this release first"
	},
	frozen: func(r *rollouts.Rollout, _ *rollouts.Progress) string { return thaw(r) },
	replacing: func(_ *rollouts.Rollout, p *rollouts.Progress) string {
		return "another template is taking the place of revision " + p.UpdateRevision
	},
	reverting: func(r *rollouts.Rollout, _ *rollouts.Progress) string {
		return fmt.Sprintf("the release was aborted%s; retry starts it again at step 1, rollback sets the stable template, and releasing another template supersedes it",
			abortedBy(r))
	},
	completing:  says("every step is done and the release is being completed; abort is still possible"),
	handingBack: func(r *rollouts.Rollout, _ *rollouts.Progress) string { return handover(r) },
	cancelling:  says("the release is being cancelled, since the template is the stable one again"),
	running: func(_ *rollouts.Rollout, p *rollouts.Progress) string {
		return fmt.Sprintf("the release is in progress, at step %d in state %s", p.CurrentStepIndex, p.State)
	},
}

func says(text string) func(*rollouts.Rollout, *rollouts.Progress) string {
	return func(*rollouts.Rollout, *rollouts.Progress) string { return text }
}

// explain says where the release stands, and what would help.
func (s state) explain(r *rollouts.Rollout) string { return explanations[s](r, r.Status.Active()) }

func departure(r *rollouts.Rollout) string {
	if r.DeletionTimestamp != nil {
		return "the rollout is being deleted"
	}
	if r.Status.Phase == rollouts.PhaseDisabling || r.Status.Phase == rollouts.PhaseProgressing {
		return "the rollout is being disabled"
	}
	return "the rollout is disabled; set spec.disabled to false to release again"
}

// thaw says what ends the pause.
func thaw(r *rollouts.Rollout) string {
	if r.Spec.Strategy.Paused {
		return "the rollout is paused; set spec.strategy.paused to false first"
	}
	return fmt.Sprintf("the release was paused%s; resume it first", pausedBy(r))
}

func handover(r *rollouts.Rollout) string {
	if departs(r) {
		return departure(r) + " and the workload is being given back; set the earlier template to go back"
	}
	return "the release is complete and the workload is being given back; release the earlier template to go back"
}
