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
	// Full is promote's own option, and Step is jump's.
	Full      bool
	Step      int32
	Via       rollouts.Via
	User, UID string
	UserAgent string
	Now       metav1.Time
}

// Refusal says why a verb is not possible now, and which verb would help.
type Refusal struct{ Why string }

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

// Decide applies a verb to the Rollout in place: it checks what the caller
// expects and what the state allows, changes the status and records the
// decision. A warning comes back when the Rollout already is as wanted and
// nothing was changed. An error is a *Refusal, or an *Invalid for a step that
// does not exist, and leaves the Rollout as it was.
func Decide(r *rollouts.Rollout, c Command) (warning string, err error) {
	if d := repeated(r, c); d != nil {
		return elsewhere(r, d), nil
	}
	if err := checkExpectation(r, c.Options.Expect); err != nil {
		return "", err
	}
	row, ok := verbs[c.Verb]
	if !ok {
		return "", refuse("there is no verb %q", c.Verb)
	}
	s := standingOf(r)
	if row.already != nil {
		if warning := row.already(r, s, c); warning != "" {
			return warning, nil
		}
	}
	if !slices.Contains(row.in, s) && !kept(s, c) {
		return "", refuse("%s is not possible: %s", c.Verb, s.explain(r))
	}
	next := r.Status.DeepCopy()
	if err := row.decide(r, next, c); err != nil {
		return "", err
	}
	overtake(next, row.overtakes)
	if err := record(next, c, row.outcome); err != nil {
		return "", err
	}
	r.Status = *next
	return "", nil
}

// kept tells that an approval as older clients give it is kept for the resume.
func kept(s standing, c Command) bool {
	return s == frozen && c.Verb == rollouts.VerbPromote && (c.Via == rollouts.ViaStatus || c.Via == rollouts.ViaSpec)
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
	for i := range r.Status.Decisions {
		if d := &r.Status.Decisions[i]; d.RequestID == c.Options.RequestID && d.Verb == c.Verb && d.User == c.User {
			return d
		}
	}
	return nil
}

// elsewhere warns whoever uses an ID again in another release, where nothing is
// done: somebody in a hurry may believe that this one was aborted.
func elsewhere(r *rollouts.Rollout, d *rollouts.Decision) string {
	p := r.Status.Active()
	if p == nil || p.UpdateRevision == d.Revision {
		return ""
	}
	return fmt.Sprintf("requestID %q was decision %d, about revision %s; nothing was done about revision %s: use another requestID",
		d.RequestID, d.ID, d.Revision, p.UpdateRevision)
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

// record appends the decision. The record of the release under way is never
// cut, nor any other that is not filed; what is filed makes room.
func record(next *rollouts.RolloutStatus, c Command, outcome rollouts.Outcome) error {
	p := next.Active()
	var last int64
	for _, d := range next.Decisions {
		last = max(last, d.ID)
	}
	for len(next.Decisions) >= maxDecisions {
		if unfiled(next, next.Decisions[0]) {
			return refuse("this release has %d decisions on record, which is the most; abort it by releasing another template", maxDecisions)
		}
		next.Decisions = next.Decisions[1:]
	}
	next.Decisions = append(next.Decisions, rollouts.Decision{
		ID: last + 1, Verb: c.Verb, User: c.User, UID: c.UID, UserAgent: c.UserAgent, Time: c.Now,
		Step: p.CurrentStepIndex, Revision: p.UpdateRevision,
		Reason: c.Options.Reason, RequestID: c.Options.RequestID, Via: c.Via, Outcome: outcome,
	})
	return nil
}

// unfiled tells that a decision is in no history yet. The first release after
// an update of this program may have no record.
func unfiled(s *rollouts.RolloutStatus, d rollouts.Decision) bool {
	for _, r := range s.Releases {
		if !r.Filed && d.ID >= r.FirstDecision {
			return true
		}
	}
	return len(s.Releases) == 0 && d.Revision == s.Active().UpdateRevision
}

func approvedBy(r *rollouts.Rollout, p *rollouts.Progress) string {
	return by(r, func(d rollouts.Decision) bool {
		return d.Verb == rollouts.VerbPromote && d.Step == p.CurrentStepIndex
	})
}

// abortedBy names whose word ended the release, which may have been a rollback.
func abortedBy(r *rollouts.Rollout) string {
	return by(r, func(d rollouts.Decision) bool {
		return d.Verb == rollouts.VerbAbort || d.Verb == rollouts.VerbRollback
	})
}

func pausedBy(r *rollouts.Rollout) string {
	return by(r, func(d rollouts.Decision) bool { return d.Verb == rollouts.VerbPause })
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
