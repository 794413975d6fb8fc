// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package verb applies verbs such as promote and abort to a Rollout. It checks the expectation of the caller and
// the state of the release, changes the status and records the decision. The package is pure: it does not know
// how a Rollout is stored or who may use a verb.
package verb

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Command is one use of a verb by a user or by the checks.
type Command struct {
	Verb    rollouts.Verb
	Options rollouts.DecisionOptions
	// Full is an option of promote, Step of jump, and Override of promote, retry and jump.
	Full      bool
	Override  bool
	Step      int32
	Via       rollouts.Via
	User, UID string
	UserAgent string
	// overriddenChecks are the checks that had not passed.
	overriddenChecks []rollouts.OverriddenCheck
	// fromStep is the step of the release before the command.
	fromStep int32
	// Now is the current time with fractions of seconds, which the stored time does not have.
	Now metav1.Time
	// Earlier has the decisions that are stored outside of the status. It is set if NeedsEarlier returns true.
	Earlier []rollouts.Decision
	// Shortage says which part of the store is full; empty if none is. Then the decision is
	// recorded without free text (the reason and the user agent).
	Shortage string
	// ReplaceEarlier also records a safety verb in place of earlier ones, because the store has no room.
	ReplaceEarlier bool
}

// Refusal is the error for a verb that is not possible now. The message says which verb would help.
type Refusal struct {
	Message string
	// IsStateRelated reports whether the verb is possible in other states of a release only.
	IsStateRelated bool
}

func (r *Refusal) Error() string { return r.Message }

// InvalidStep is the error for a step that the plan does not have.
type InvalidStep struct {
	Step    int32
	Message string
}

func (i *InvalidStep) Error() string { return i.Message }

func refuse(format string, args ...any) error {
	return &Refusal{Message: fmt.Sprintf(format, args...)}
}

// Apply applies a verb to the Rollout in place. It checks the expectation of the caller and the state of the
// release, changes the status and records the decision. Apply returns a warning if it changes nothing, because
// the Rollout is already as requested or because the request is a repetition that is no longer in force. An
// error is a *Refusal, or an *InvalidStep for a step that does not exist, and leaves the Rollout unchanged.
func Apply(r *rollouts.Rollout, c Command) (warning string, err error) {
	if d := findRepeated(r, c); d != nil {
		return repetitionWarning(r, d, c), nil
	}
	if err := checkExpectation(r, c.Options.Expect); err != nil {
		return "", err
	}
	row, ok := verbRules[c.Verb]
	if !ok {
		return "", refuse("there is no verb %q", c.Verb)
	}
	s := planner.StateOf(r)
	if row.alreadyDone != nil {
		if warning := row.alreadyDone(r, s, c); warning != "" {
			return warning, nil
		}
	}
	if !slices.Contains(row.allowedStates, s) && !isApprovalBeforeResume(s, c) {
		return "", &Refusal{Message: fmt.Sprintf("%s is not possible: %s", c.Verb, s.Explain(r)), IsStateRelated: true}
	}
	return "", row.apply(r, c)
}

// apply changes the status and records the decision.
func (row verbRule) apply(r *rollouts.Rollout, c Command) error {
	next, now := r.Status.DeepCopy(), c.Now.Time
	c.Now = c.Now.Rfc3339Copy()
	open := openChecksPassedBy(r, c)
	if err := requireOverride(r, c, open); err != nil {
		return err
	}
	if c.Override {
		c.overriddenChecks = overriddenChecks(open)
	}
	c.fromStep = next.Active().CurrentStepIndex
	if err := row.changeStatus(r, next, c); err != nil {
		return err
	}
	supersedeOpenDecisions(next, row.supersedes)
	if err := recordDecision(next, c, row.immediateOutcome); err != nil {
		return err
	}
	if !isFieldWrite(c) {
		completeStatus(r, next, c.Verb, now)
	}
	r.Status = *next
	return nil
}

// isFieldWrite reports whether the command came as a write of a field, as older clients send it. These clients
// expect to read back what they wrote.
func isFieldWrite(c Command) bool { return c.Via == rollouts.ViaStatus || c.Via == rollouts.ViaSpec }

// isApprovalBeforeResume reports whether an older client approves a step of a paused release. The approval takes
// effect after the resume.
func isApprovalBeforeResume(s planner.State, c Command) bool {
	return s == planner.StatePaused && c.Verb == rollouts.VerbPromote && isFieldWrite(c)
}

// completeStatus adds the consequences of a command to the status, so that the controller does not need to store
// another status.
func completeStatus(r *rollouts.Rollout, next *rollouts.RolloutStatus, v rollouts.Verb, now time.Time) {
	if v == rollouts.VerbPromote {
		planner.LeaveStep(r, next, now)
	}
	planner.CompleteStatus(r, next, now)
}

// supersedeOpenDecisions sets the outcome of the open decisions that a later decision supersedes.
func supersedeOpenDecisions(next *rollouts.RolloutStatus, by []rollouts.Verb) {
	for i := range next.Decisions {
		if d := &next.Decisions[i]; d.Outcome == "" && slices.Contains(by, d.Verb) {
			d.Outcome = rollouts.OutcomeSuperseded
		}
	}
}

// findRepeated returns the decision of the same request: the same requestID, user and verb; nil if there is none.
func findRepeated(r *rollouts.Rollout, c Command) *rollouts.Decision {
	if c.Options.RequestID == "" {
		return nil
	}
	for _, all := range [][]rollouts.Decision{r.Status.Decisions, c.Earlier} {
		for i := range slices.Backward(all) {
			if d := &all[i]; d.RequestID == c.Options.RequestID && d.Verb == c.Verb && d.User == c.User {
				return d
			}
		}
	}
	return nil
}

// repetitionWarning returns the warning for a repeated request whose decision is no longer in force; empty if it
// is. The repetition changes nothing, because it may be a late copy of a request that somebody has overruled. The
// warning says so, because a user may believe that this release was aborted.
func repetitionWarning(r *rollouts.Rollout, d *rollouts.Decision, c Command) string {
	p, s := r.Status.Active(), planner.StateOf(r)
	switch {
	case !d.IsAbout(p):
		revision := ""
		if p != nil {
			revision = p.UpdateRevision
		}
		return fmt.Sprintf("requestID %q already belongs to decision %d about revision %s; nothing was changed for revision %s; use a new requestID",
			d.RequestID, d.ID, d.Revision, revision)
	case d.Outcome != rollouts.OutcomeSuperseded && d.Outcome != rollouts.OutcomeRejected && verbRules[c.Verb].isInForce(p, s, d, c):
		return ""
	default:
		return fmt.Sprintf("requestID %q already belongs to decision %d (step %d), which no longer applies%s; nothing was changed: %s; use a new requestID to decide again",
			d.RequestID, d.ID, d.Step, lastDecisionSince(r, d), s.Explain(r))
	}
}

// lastDecisionSince describes the latest decision after d; empty if d is the latest.
func lastDecisionSince(r *rollouts.Rollout, d *rollouts.Decision) string {
	last := r.Status.Decisions[len(r.Status.Decisions)-1]
	if last.ID == d.ID {
		return ""
	}
	return fmt.Sprintf(", since decision %d, %s by %s", last.ID, last.Verb, last.User)
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
		{want.UpdateTemplate, p.UpdateTemplate, "expected updateTemplate %s, but the rollout releases another template, with the digest %q; read the rollout before you repeat the request"},
		{want.Plan, p.RolloutHash, "expected plan %s, but the steps now are those of plan %s"},
		{want.ResourceVersion, r.ResourceVersion, "expected resourceVersion %s, but the rollout is at %s"},
	} {
		if e.want != "" && e.want != e.have {
			return refuse(e.format, e.want, e.have)
		}
	}
	return nil
}

func approvedBy(r *rollouts.Rollout, p *rollouts.Progress) string {
	return planner.DecidedBy(r, func(d rollouts.Decision) bool {
		return d.Verb == rollouts.VerbPromote && d.Step == p.CurrentStepIndex && d.IsAbout(p)
	})
}
