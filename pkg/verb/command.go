// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package verb answers what a verb does to a Rollout: it checks what the caller expects
// and what the state of the release allows, changes the status and records the decision.
// It is pure. It must not know how a Rollout is stored or who may use a verb.
package verb

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Command is one use of a verb by somebody.
type Command struct {
	Verb    rollouts.Verb
	Options rollouts.DecisionOptions
	// Full is promote's own option, and Step is jump's. Promote, retry and jump have Override.
	Full      bool
	Override  bool
	Step      int32
	Via       rollouts.Via
	User, UID string
	UserAgent string
	// overridden are the checks that had not passed.
	overridden []rollouts.OverriddenCheck
	// Now is more precise than what is stored of it.
	Now metav1.Time
	// Earlier are the decisions that are kept beside the status, where NeedsEarlier says so.
	Earlier []rollouts.Decision
	// Shortage says which part of the store is full; empty if none is. Then the decision is
	// recorded without free text (the reason and the user agent).
	Shortage string
	// Replace also records a safety verb in place of earlier ones, because the store has no room.
	Replace bool
}

// Refusal says why a verb is not possible now, and which verb would help.
type Refusal struct {
	Why string
	// ByState reports whether the verb is possible in other states of a release only.
	ByState bool
}

func (r *Refusal) Error() string { return r.Why }

// Invalid says that a command names a step that the plan does not have.
type Invalid struct {
	Step int32
	Why  string
}

func (i *Invalid) Error() string { return i.Why }

func refuse(format string, args ...any) error {
	return &Refusal{Why: fmt.Sprintf(format, args...)}
}

// Apply applies a verb to the Rollout in place: it checks what the caller
// expects and what the state allows, changes the status and records the
// decision. A warning comes back when nothing was changed: the Rollout already is
// as wanted, or the request was sent before and has been overtaken. An error is a
// *Refusal, or an *Invalid for a step that does not exist, and leaves the Rollout as
// it was.
func Apply(r *rollouts.Rollout, c Command) (warning string, err error) {
	if d := repeated(r, c); d != nil {
		return overtaken(r, d, c), nil
	}
	if err := checkExpectation(r, c.Options.Expect); err != nil {
		return "", err
	}
	row, ok := verbs[c.Verb]
	if !ok {
		return "", refuse("there is no verb %q", c.Verb)
	}
	s := planner.StateOf(r)
	if row.already != nil {
		if warning := row.already(r, s, c); warning != "" {
			return warning, nil
		}
	}
	if !slices.Contains(row.in, s) && !kept(s, c) {
		return "", &Refusal{Why: fmt.Sprintf("%s is not possible: %s", c.Verb, s.Explain(r)), ByState: true}
	}
	return "", row.apply(r, c)
}

// apply changes the status and records the decision.
func (row verb) apply(r *rollouts.Rollout, c Command) error {
	next, now := r.Status.DeepCopy(), c.Now.Time
	c.Now = c.Now.Rfc3339Copy()
	open := openFor(r, c)
	if err := mustOverride(r, c, open); err != nil {
		return err
	}
	if c.Override {
		c.overridden = overridden(open)
	}
	if err := row.decide(r, next, c); err != nil {
		return err
	}
	overtake(next, row.overtakes)
	if err := record(next, c, row.outcome); err != nil {
		return err
	}
	if !written(c) {
		complete(r, next, c.Verb, now)
	}
	r.Status = *next
	return nil
}

// written reports whether the command came as a write of a field, as older clients send it:
// they read back what they wrote.
func written(c Command) bool { return c.Via == rollouts.ViaStatus || c.Via == rollouts.ViaSpec }

// kept reports whether an approval as older clients give it is kept for the resume.
func kept(s planner.State, c Command) bool {
	return s == planner.StatePaused && c.Verb == rollouts.VerbPromote && written(c)
}

// complete adds what follows, so that the controller has nothing to store for the command.
func complete(r *rollouts.Rollout, next *rollouts.RolloutStatus, v rollouts.Verb, now time.Time) {
	if v == rollouts.VerbPromote {
		planner.LeaveStep(r, next, now)
	}
	planner.CompleteStatus(r, next, now)
}

// overtake closes the open decisions of verbs that a later word makes void.
func overtake(next *rollouts.RolloutStatus, by []rollouts.Verb) {
	for i := range next.Decisions {
		if d := &next.Decisions[i]; d.Outcome == "" && slices.Contains(by, d.Verb) {
			d.Outcome = rollouts.OutcomeSuperseded
		}
	}
}

// repeated finds the decision that this very request led to before: the same
// requestID of the same user for the same verb.
func repeated(r *rollouts.Rollout, c Command) *rollouts.Decision {
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

// overtaken warns whoever repeats a request that is not in force any more.
// Nothing is done: it may be a late copy of one that somebody has answered since.
// And nothing may look done: somebody in a hurry may believe that this release
// was aborted.
func overtaken(r *rollouts.Rollout, d *rollouts.Decision, c Command) string {
	p, s := r.Status.Active(), planner.StateOf(r)
	switch {
	case !d.IsAbout(p):
		revision := ""
		if p != nil {
			revision = p.UpdateRevision
		}
		return fmt.Sprintf("requestID %q was decision %d, about revision %s; nothing was done about revision %s: use another requestID",
			d.RequestID, d.ID, d.Revision, revision)
	case d.Outcome != rollouts.OutcomeSuperseded && d.Outcome != rollouts.OutcomeRejected && verbs[c.Verb].inForce(p, s, d, c):
		return ""
	default:
		return fmt.Sprintf("requestID %q was decision %d, about step %d, and is not in force any more%s; nothing was done: %s; use another requestID to decide again",
			d.RequestID, d.ID, d.Step, after(r, d), s.Explain(r))
	}
}

// after names the latest word since the decision.
func after(r *rollouts.Rollout, d *rollouts.Decision) string {
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
