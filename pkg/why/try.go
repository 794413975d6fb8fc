// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"errors"
	"fmt"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/verb"
)

// Attempt is what a verb would do.
type Attempt struct {
	Possible bool
	// Reason is why it is not possible, or what happens.
	Reason string
	// Needs are the fields of the body that a person adds.
	Needs []string
}

// The fields of bodies that a person adds.
const (
	NeedsStep     = "step"
	NeedsReason   = "reason"
	NeedsOverride = "override"
)

// Try asks what a verb would do to a Rollout, which stays as it is.
func Try(r *rollouts.Rollout, c verb.Command, batch *rollouts.BatchRelease) Attempt {
	next, warning, err := apply(r, c)
	if invalid, ok := errors.AsType[*verb.Invalid](err); ok {
		// Which step it is, is the caller's to choose.
		return Attempt{Possible: true, Reason: invalid.Why, Needs: []string{NeedsStep}}
	}
	if err != nil {
		c.Override, c.Options.Reason = true, NeedsReason
		if _, warning, again := apply(r, c); again != nil || warning != "" {
			return Attempt{Reason: err.Error()}
		}
		return Attempt{Possible: true, Reason: err.Error(), Needs: []string{NeedsReason, NeedsOverride}}
	}
	if warning != "" {
		return Attempt{Reason: warning}
	}
	return Attempt{Possible: true, Reason: effect(next, batch)}
}

func apply(r *rollouts.Rollout, c verb.Command) (next *rollouts.Rollout, warning string, err error) {
	next = r.DeepCopy()
	warning, err = verb.Apply(next, c)
	return next, warning, err
}

// effect says what happens after a verb.
func effect(next *rollouts.Rollout, batch *rollouts.BatchRelease) string {
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
		text = fmt.Sprintf("step %d goes on: %s", step, goal(next, s, batch))
		if step != p.CurrentStepIndex || p.State == rollouts.BeforeStepUpgrade || p.State == rollouts.StepUpgrade {
			text = fmt.Sprintf("step %d starts: %s", step, goal(next, s, batch))
		}
	}
	if p.FullyPromoted {
		text += ", and no further step waits"
	}
	return text
}

// goal says what a step wants.
func goal(r *rollouts.Rollout, s *rollouts.Step, batch *rollouts.BatchRelease) string {
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
