// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/verb"
)

// Attempt is the expected result of a verb.
type Attempt struct {
	Possible bool
	// Reason is why the verb is not possible, or what it does.
	Reason string
	// RequiredFields are the fields that the user must add to the request.
	RequiredFields []string
}

// The fields of a request that the user must add.
const (
	NeedsStep     = "step"
	NeedsReason   = "reason"
	NeedsOverride = "override"
)

// TryVerb returns what a verb would do to a Rollout. The Rollout is not changed.
func TryVerb(r *rollouts.Rollout, c verb.Command, batch *rollouts.BatchRelease) Attempt {
	next, warning, err := applyToCopy(r, c)
	if invalid, ok := errors.AsType[*verb.InvalidStep](err); ok {
		// The caller chooses the step.
		return Attempt{Possible: true, Reason: "continues at the step that you name; " + invalid.Message, RequiredFields: []string{NeedsStep}}
	}
	if err != nil {
		reason := refusalReason(r, c, err)
		c.Override, c.Options.Reason = true, NeedsReason
		if _, warning, again := applyToCopy(r, c); again != nil || warning != "" {
			return Attempt{Reason: reason}
		}
		return Attempt{Possible: true, Reason: reason, RequiredFields: []string{NeedsReason, NeedsOverride}}
	}
	if warning != "" {
		return Attempt{Reason: warning}
	}
	if why := planner.IrreversibleReason(r, c.Verb); why != "" {
		return Attempt{Possible: c.Verb == rollouts.VerbAbort && stablePodsSurvive(r), Reason: why}
	}
	if c.Verb == rollouts.VerbAbort && planner.StateOf(r) == planner.StateAborted {
		return Attempt{Possible: true, Reason: "the release is aborted already; a template that was set since is aborted, too"}
	}
	if effect := verbEffects[c.Verb]; effect != "" {
		return Attempt{Possible: true, Reason: effect}
	}
	return Attempt{Possible: true, Reason: describeEffect(next, batch)}
}

// verbEffects describe what verbs do that do not start a step. The message in the status that follows such a verb has
// the words of OpenKruise.
var verbEffects = map[rollouts.Verb]string{
	rollouts.VerbAbort:    "moves all requests and pods back to the stable version, and keeps the workload held",
	rollouts.VerbRollback: "moves all requests and pods back to the stable version, and sets its template again",
	rollouts.VerbPause:    "stops the release where it is, until resume",
}

// stablePodsSurvive reports whether the stable pods keep running after their ReplicaSet or
// ControllerRevision is deleted, so that an abort can still move requests to them. The pods of
// a Deployment are deleted with their ReplicaSet.
func stablePodsSurvive(r *rollouts.Rollout) bool {
	return r.Spec.WorkloadRef != nil && r.Spec.WorkloadRef.Kind != "Deployment"
}

// blockedReasons are short reasons why a state does not allow a verb, and what helps.
var blockedReasons = map[planner.State]string{
	planner.StateIdle:           "no release is in progress",
	planner.StateWorkloadGone:   "the workload is gone",
	planner.StateLeaving:        "the Rollout is being disabled or deleted; abort is possible",
	planner.StateLeavingAborted: "the Rollout is being disabled or deleted; the release is aborted",
	planner.StateRefused:        "the workload has another template; set that of the release again, or abort",
	planner.StatePaused:         "the release is paused; resume it first",
	planner.StateSuperseding:    "another template is replacing this one",
	planner.StateAborted:        "the release is aborted; retry starts it again",
	planner.StateFinalising:     "all steps are done; abort is possible",
	planner.StateRestoring:      "the release is complete; release the earlier template to go back",
	planner.StateCancelling:     "the template is the stable one again",
	planner.StateInitializing:   "only an aborted release is retried",
	planner.StateInStep:         "only an aborted release is retried",
}

// refusalReason returns why a verb was refused. The error of the verb itself is longer.
func refusalReason(r *rollouts.Rollout, c verb.Command, err error) string {
	refusal, ok := errors.AsType[*verb.Refusal](err)
	switch s := planner.StateOf(r); {
	case !ok:
	case s == planner.StatePaused && r.Spec.Strategy.Paused:
		return "spec.strategy.paused is true; set it to false first"
	case refusal.IsStateRelated:
		return blockedReasons[s]
	case c.Verb == rollouts.VerbPromote && s == planner.StateInStep:
		return cmp.Or(unreadyStepReason(r, c), err.Error())
	}
	return err.Error()
}

// unreadyStepReason returns what a step waits for other than an approval.
func unreadyStepReason(r *rollouts.Rollout, c verb.Command) string {
	p := r.Status.Active()
	if open := planner.NeedOverride(planner.OpenForApproval(r, c.Full)); len(open) > 0 {
		return fmt.Sprintf("step %d waits for its checks: %s", p.CurrentStepIndex, planner.DescribeResults(open))
	}
	what := waitDescriptions[planner.WaitingFor(r).For]
	if what == "" || p.State == rollouts.StepReady || p.State == rollouts.StepPaused {
		return ""
	}
	return fmt.Sprintf("step %d waits for %s; approve it later, or promote in full", p.CurrentStepIndex, what)
}

func applyToCopy(r *rollouts.Rollout, c verb.Command) (next *rollouts.Rollout, warning string, err error) {
	next = r.DeepCopy()
	warning, err = verb.Apply(next, c)
	return next, warning, err
}

// describeEffect describes what happens after a verb.
func describeEffect(next *rollouts.Rollout, batch *rollouts.BatchRelease) string {
	p := next.Status.Active()
	_, release := next.Spec.Strategy.Active()
	if planner.StateOf(next) != planner.StateInStep || p == nil || release == nil {
		return next.Status.Message
	}
	step := p.CurrentStepIndex
	if p.State == rollouts.StepReady {
		step = release.Next(step)
	}
	text := "the release is completed"
	if s := release.Step(step); s != nil {
		text = fmt.Sprintf("step %d continues: %s", step, describeStep(next, s, batch))
		if step != p.CurrentStepIndex || p.State == rollouts.BeforeStepUpgrade || p.State == rollouts.StepUpgrade {
			text = fmt.Sprintf("step %d starts: %s", step, describeStep(next, s, batch))
		}
	}
	if p.FullyPromoted {
		text += ", and the remaining steps need no approval"
	}
	return text
}

// describeStep describes the pods and the requests of a step.
func describeStep(r *rollouts.Rollout, s *rollouts.Step, batch *rollouts.BatchRelease) string {
	text := "no pods"
	switch {
	case s.Replicas == nil:
	case batch != nil && batch.Status.ObservedWorkloadReplicas > 0:
		of := batch.Status.ObservedWorkloadReplicas
		style := rollouts.StyleFor(&r.Spec.Strategy, r.Spec.WorkloadRef)
		text = fmt.Sprintf("%d of %d pods", planner.Limit(style, *s.Replicas, of), of)
	default:
		text = s.Replicas.String() + " pods"
		if last := len(text) - len(" pods") - 1; text[last] == '%' {
			text = s.Replicas.String() + " of the pods"
		}
	}
	switch {
	case s.Traffic != nil:
		text += ", " + *s.Traffic + " of the requests"
	case len(s.Matches) > 0:
		text += ", matching requests"
	}
	return text
}
