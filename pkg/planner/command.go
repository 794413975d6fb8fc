// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// maxDecisions bounds the record kept in the status.
const maxDecisions = 200

// Command is one use of a verb by somebody.
type Command struct {
	Verb    rollouts.Verb
	Options rollouts.DecisionOptions
	// Full is promote's own option.
	Full      bool
	Via       rollouts.Via
	User, UID string
	UserAgent string
	Now       metav1.Time
}

// Refusal says why a verb is not possible now, and which verb would help.
type Refusal struct{ Why string }

func (r *Refusal) Error() string { return r.Why }

func refuse(format string, args ...any) error {
	return &Refusal{Why: fmt.Sprintf(format, args...)}
}

// Decide applies a verb to the Rollout in place: it checks what the caller
// expects and what the state allows, changes the status and records the
// decision. A warning comes back when the Rollout already is as wanted and
// nothing was changed. An error is a *Refusal and leaves the Rollout as it was.
func Decide(r *rollouts.Rollout, c Command) (warning string, err error) {
	if repeated(r, c) {
		return "", nil
	}
	if err := checkExpectation(r, c.Options.Expect); err != nil {
		return "", err
	}
	decided, ok := verbs[c.Verb]
	if !ok {
		return "", refuse("there is no verb %q", c.Verb)
	}
	next := r.Status.DeepCopy()
	warning, err = decided(r, next, c)
	if err != nil || warning != "" {
		return warning, err
	}
	if err := record(next, c); err != nil {
		return "", err
	}
	r.Status = *next
	return "", nil
}

// verbs is the table of what each verb does to the status.
var verbs = map[rollouts.Verb]func(r *rollouts.Rollout, next *rollouts.RolloutStatus, c Command) (string, error){
	rollouts.VerbPromote: promote,
	rollouts.VerbAbort:   abort,
}

// repeated tells whether this very request was decided before: the same
// requestID of the same user for the same verb.
func repeated(r *rollouts.Rollout, c Command) bool {
	if c.Options.RequestID == "" {
		return false
	}
	for _, d := range r.Status.Decisions {
		if d.RequestID == c.Options.RequestID && d.Verb == c.Verb && d.User == c.User {
			return true
		}
	}
	return false
}

func checkExpectation(r *rollouts.Rollout, want *rollouts.Expectation) error {
	if want == nil {
		return nil
	}
	var p rollouts.Progress
	if active := r.Status.Active(); active != nil {
		p = *active
	}
	if want.Step != nil && *want.Step != p.CurrentStepIndex {
		return refuse("expected step %d, but the rollout is at step %d", *want.Step, p.CurrentStepIndex)
	}
	for _, e := range []struct{ want, have, format string }{
		{string(want.UID), string(r.UID), "expected uid %s, but this rollout has uid %s"},
		{want.Revision, p.UpdateRevision, "expected revision %s, but the rollout releases revision %s"},
		{want.Plan, p.RolloutHash, "expected plan %s, but the steps now are those of plan %s"},
		{want.ResourceVersion, r.ResourceVersion, "expected resourceVersion %s, but the rollout is at %s"},
	} {
		if e.want != "" && e.want != e.have {
			return refuse(e.format, e.want, e.have)
		}
	}
	return nil
}

func promote(r *rollouts.Rollout, next *rollouts.RolloutStatus, c Command) (string, error) {
	p := next.Active()
	if err := promotable(r, p); err != nil {
		return "", err
	}
	if c.Full {
		if p.FullyPromoted {
			return "the rollout is fully promoted already", nil
		}
		p.FullyPromoted = true
		if p.State == rollouts.StepPaused {
			approve(p, c.Now)
		}
		return "", nil
	}
	switch p.State {
	case rollouts.StepPaused:
		approve(p, c.Now)
		return "", nil
	case rollouts.StepReady:
		return "", refuse("step %d was approved already%s; the next step is not waiting yet", p.CurrentStepIndex, approvedBy(r, p))
	default:
		return "", refuse("step %d is in state %s and does not wait for approval yet; wait for StepPaused, or promote with full: true",
			p.CurrentStepIndex, p.State)
	}
}

// promotable refuses whatever no promotion can act on.
func promotable(r *rollouts.Rollout, p *rollouts.Progress) error {
	switch {
	case r.DeletionTimestamp != nil:
		return refuse("the rollout is being deleted; nothing waits for approval")
	case r.Status.Phase != rollouts.PhaseProgressing || p == nil:
		return refuse("no release is in progress (phase %s); nothing waits for approval", r.Status.Phase)
	case r.Spec.Disabled:
		return refuse("the rollout is disabled; set spec.disabled to false to release again")
	}
	switch a := r.Status.Activity(); a {
	case rollouts.ActivityInRolling:
		return proceeding(r, p)
	case rollouts.ActivityAborting, rollouts.ActivityAborted:
		return refuse("the release was aborted%s; change the workload's template to release something else", abortedBy(r))
	case rollouts.ActivityPaused:
		return refuse("the rollout is paused; set spec.strategy.paused to false first")
	default:
		return refuse("the release is %s; nothing waits for approval", a)
	}
}

// proceeding refuses what is about to stop.
func proceeding(r *rollouts.Rollout, p *rollouts.Progress) error {
	switch {
	case p.State == rollouts.StepPaused && p.FinalisingStep != "":
		return refuse("another template is taking the place of revision %s; nothing of it waits for approval", p.UpdateRevision)
	case r.Spec.Strategy.Paused:
		return refuse("the rollout is paused; set spec.strategy.paused to false first")
	default:
		return nil
	}
}

func approve(p *rollouts.Progress, now metav1.Time) {
	p.State = rollouts.StepReady
	p.LastUpdateTime = &now
}

func abort(r *rollouts.Rollout, next *rollouts.RolloutStatus, c Command) (string, error) {
	a := r.Status.Activity()
	switch {
	case r.Status.Phase != rollouts.PhaseProgressing || next.Active() == nil:
		return "", refuse("no release is in progress (phase %s); there is nothing to abort", r.Status.Phase)
	case a == rollouts.ActivityAborting || a == rollouts.ActivityAborted:
		return "the release is aborted already" + abortedBy(r), nil
	case a == rollouts.ActivityCancelling:
		return "", refuse("the release is being cancelled, since the template is the stable one again")
	case a == rollouts.ActivityFinalising && !abortable(next.Active()):
		return "", refuse("the release is complete and the workload given back; release the earlier template to go back")
	}
	message := "Rollout is being aborted, and traffic and pods go back to the stable revision"
	p := next.Active()
	p.FinalisingStep = ""
	p.FullyPromoted = false
	p.LastUpdateTime = &c.Now
	next.Message = message
	next.SetActivity(rollouts.ActivityAborting, message, c.Now)
	return "", nil
}

// record appends the decision. The record of the release under way is never
// cut; that of earlier ones makes room.
func record(next *rollouts.RolloutStatus, c Command) error {
	p := next.Active()
	var last int64
	for _, d := range next.Decisions {
		last = max(last, d.ID)
	}
	for len(next.Decisions) >= maxDecisions {
		if next.Decisions[0].Revision == p.UpdateRevision {
			return refuse("this release has %d decisions on record, which is the most; abort it by releasing another template", maxDecisions)
		}
		next.Decisions = next.Decisions[1:]
	}
	next.Decisions = append(next.Decisions, rollouts.Decision{
		ID: last + 1, Verb: c.Verb, User: c.User, UID: c.UID, UserAgent: c.UserAgent, Time: c.Now,
		Step: p.CurrentStepIndex, Revision: p.UpdateRevision,
		Reason: c.Options.Reason, RequestID: c.Options.RequestID, Via: c.Via,
	})
	return nil
}

func approvedBy(r *rollouts.Rollout, p *rollouts.Progress) string {
	return by(r, func(d rollouts.Decision) bool {
		return d.Verb == rollouts.VerbPromote && d.Step == p.CurrentStepIndex
	})
}

func abortedBy(r *rollouts.Rollout) string {
	return by(r, func(d rollouts.Decision) bool { return d.Verb == rollouts.VerbAbort })
}

// by names the author of the latest decision that matches.
func by(r *rollouts.Rollout, match func(rollouts.Decision) bool) string {
	for _, d := range slices.Backward(r.Status.Decisions) {
		if match(d) {
			return " by " + d.User
		}
	}
	return ""
}
