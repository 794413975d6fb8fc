// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package verb

import (
	"slices"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

const (
	// maxDecisions bounds a share, and maxBytes what it takes in storage.
	maxDecisions = 200
	maxBytes     = 192 << 10
	// maxCheckBytes is the size limit of the share ofChecks; the other shares have maxBytes.
	maxCheckBytes = 64 << 10
	// maxTurns is how many pauses and resumes in a row one user has on record.
	maxTurns = 10
	// maxReplaced is how many safety verbs a release has on record before the next one must not
	// make the record longer, where the store has no room.
	maxReplaced = 10
)

// share is a class of decisions with its own size limit, so that decisions of one class cannot
// use up the space of another.
type share int

const (
	// ofUsers has promote and jump, which are refused when the share is full.
	ofUsers share = iota
	// ofSafety has the safety verbs, which must always be possible: older decisions are
	// removed for them.
	ofSafety
	// ofChecks has the promotions by checks. No client could react to a refusal, so older
	// promotions by checks are removed for them.
	ofChecks
)

// shareFor returns the share that a decision is counted in.
func shareFor(d *rollouts.Decision) share {
	switch {
	case verbs[d.Verb].safety:
		return ofSafety
	case d.Via == rollouts.ViaAnalysis:
		return ofChecks
	default:
		return ofUsers
	}
}

// record appends the decision. To make room it first removes decisions that are already in a
// RolloutHistory. It removes other decisions only from the shares ofSafety and ofChecks.
func record(next *rollouts.RolloutStatus, c Command, outcome rollouts.Outcome) error {
	p := next.Active()
	d := rollouts.Decision{
		ID: lastID(next.Decisions) + 1, Verb: c.Verb, User: c.User, UID: c.UID, UserAgent: c.UserAgent, Time: c.Now,
		Step: p.CurrentStepIndex, Revision: p.UpdateRevision, UpdateTemplate: p.UpdateTemplate,
		Reason: c.Options.Reason, RequestID: c.Options.RequestID, Via: c.Via, Outcome: outcome,
	}
	if c.Override {
		d.Overrode, d.OverriddenChecks = []string{"analysis"}, c.overridden
	}
	if c.Shortage != "" {
		d.UserAgent = ""
		if d.Reason = rollouts.Clean(d.Reason, maxBriefReason); !c.Override {
			d.Reason = "" // an override must have one
		}
	}
	fold(next, d)
	if c.Replace {
		replaceEarlier(next, d)
	}
	if !makeRoom(next, room{maxDecisions, maxBytes}, d, c.Earlier) {
		return refuse("the decisions of this release fill its record (%d, or %d KiB); roll it back, or release another template: "+
			"either ends this release, and the decisions about the next one have room", maxDecisions, maxBytes>>10)
	}
	next.Decisions = append(next.Decisions, d)
	return nil
}

// maxBriefReason is how much of the reason of an override is recorded where room is scarce.
const maxBriefReason = 256

// room is what a share may take.
type room struct{ decisions, bytes int }

// makeRoom removes decisions of a status until one more has room, and reports whether it has.
// Decisions that are kept elsewhere count only in a share that refuses more: nothing can be removed
// there, and a safety verb must not be refused because of them.
func makeRoom(next *rollouts.RolloutStatus, most room, more rollouts.Decision, elsewhere []rollouts.Decision) bool {
	if shareFor(&more) == ofChecks {
		most.bytes = min(most.bytes, maxCheckBytes)
	}
	if shareFor(&more) == ofUsers {
		taken := shareOf(elsewhere, more)
		most = room{most.decisions - taken.decisions, most.bytes - taken.bytes}
	}
	for {
		has := shareOf(next.Decisions, more)
		if has.decisions+1 <= most.decisions && has.bytes+more.Size() <= most.bytes {
			return true
		}
		i := expendable(next, more)
		if i < 0 {
			return false
		}
		next.Decisions = slices.Delete(next.Decisions, i, i+1)
	}
}

// replaceEarlier removes safety verbs from the record until one more does not make it longer, or
// few are left. It removes what makeRoom would remove first.
func replaceEarlier(next *rollouts.RolloutStatus, d rollouts.Decision) {
	if shareFor(&d) != ofSafety {
		return
	}
	for before := shareOf(next.Decisions, d); ; {
		has := shareOf(next.Decisions, d)
		if has.decisions < maxReplaced || has.bytes+d.Size() <= before.bytes {
			return
		}
		i := expendable(next, d) // there always is a safety verb
		next.Decisions = slices.Delete(next.Decisions, i, i+1)
	}
}

// fold makes one of a user's pauses and resumes in a row, about one step, that
// go on and on: the first stays, and the latest. The numbers tell how many there
// were.
func fold(next *rollouts.RolloutStatus, d rollouts.Decision) {
	first := len(next.Decisions)
	for first > 0 && takesTurns(next.Decisions[first-1], d) {
		first--
	}
	if takesTurns(d, d) && len(next.Decisions)-first >= maxTurns {
		next.Decisions = slices.Delete(next.Decisions, first+1, len(next.Decisions)-maxTurns+2)
	}
}

// takesTurns reports whether both are a pause or a resume of one user, in one place.
func takesTurns(a, b rollouts.Decision) bool {
	return turns(a.Verb) && turns(b.Verb) && a.Outcome != "" && a.User == b.User && a.UID == b.UID && a.Step == b.Step && a.Revision == b.Revision && a.UpdateTemplate == b.UpdateTemplate
}

func turns(v rollouts.Verb) bool { return v == rollouts.VerbPause || v == rollouts.VerbResume }

// shareOf is what the decisions take of the share of one more.
func shareOf(all []rollouts.Decision, more rollouts.Decision) (has room) {
	for i := range all {
		if shareFor(&all[i]) == shareFor(&more) {
			has.decisions++
			has.bytes += all[i].Size()
		}
	}
	return has
}

// expendable is the place of the decision that may go for another one, or -1.
func expendable(next *rollouts.RolloutStatus, more rollouts.Decision) int {
	all, of := next.Decisions, shareFor(&more)
	for _, row := range dispensable {
		i := slices.IndexFunc(all, func(d rollouts.Decision) bool {
			return shareFor(&d) == of && (of != ofUsers || row.always) && row.may(next, d)
		})
		if i >= 0 {
			return i
		}
	}
	return -1
}

// dispensable is what may go, in this order, the oldest first.
var dispensable = []struct {
	may func(s *rollouts.RolloutStatus, d rollouts.Decision) bool
	// always is true if the decisions of this row may be removed from every share, and false
	// if not from ofUsers.
	always bool
}{
	{always: true, may: func(s *rollouts.RolloutStatus, d rollouts.Decision) bool { return !unfiled(s, d) }},
	{may: func(s *rollouts.RolloutStatus, d rollouts.Decision) bool {
		return turns(d.Verb) && between(s.Decisions, d)
	}},
	{may: func(s *rollouts.RolloutStatus, d rollouts.Decision) bool { return between(s.Decisions, d) }},
	{may: func(s *rollouts.RolloutStatus, d rollouts.Decision) bool {
		return turns(d.Verb) && outdated(s.Decisions, d)
	}},
	{may: func(s *rollouts.RolloutStatus, d rollouts.Decision) bool { return outdated(s.Decisions, d) }},
	{may: func(*rollouts.RolloutStatus, rollouts.Decision) bool { return true }},
}

// between reports whether a user has used the verb before and after.
func between(all []rollouts.Decision, d rollouts.Decision) bool {
	same := func(o rollouts.Decision) bool {
		return o.Verb == d.Verb && o.User == d.User && o.Revision == d.Revision && o.UpdateTemplate == d.UpdateTemplate
	}
	first := slices.IndexFunc(all, same)
	return d.Outcome != "" && all[first].ID != d.ID && outdatedBy(all, d, same)
}

// outdated reports whether somebody has used the verb after.
func outdated(all []rollouts.Decision, d rollouts.Decision) bool {
	return d.Outcome != "" && outdatedBy(all, d, func(o rollouts.Decision) bool { return o.Verb == d.Verb })
}

func outdatedBy(all []rollouts.Decision, d rollouts.Decision, same func(rollouts.Decision) bool) bool {
	return slices.ContainsFunc(all, func(o rollouts.Decision) bool { return o.ID > d.ID && same(o) })
}

// unfiled reports whether a decision is in no history yet. The first release after
// an update of this program may have no record.
func unfiled(s *rollouts.RolloutStatus, d rollouts.Decision) bool {
	for _, r := range s.Releases {
		if !r.Filed && d.ID >= r.FirstDecision {
			return true
		}
	}
	return len(s.Releases) == 0 && d.IsAbout(s.Active())
}
