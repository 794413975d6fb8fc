// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package verb

import (
	"slices"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

const (
	// maxDecisions limits the number of decisions of a share.
	maxDecisions = 200
	// maxBytes limits the size of a share in storage.
	maxBytes = 192 << 10
	// maxCheckBytes is the size limit of the share ofChecks; the other shares have maxBytes.
	maxCheckBytes = 64 << 10
	// maxToggles limits the consecutive pauses and resumes of one user in the record.
	maxToggles = 10
	// maxSafetyWithoutRoom limits the safety verbs of a release in the record while the store has no room. Beyond
	// the limit, the next one must not make the record longer.
	maxSafetyWithoutRoom = 10
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

// shareOfDecision returns the share that a decision is counted in.
func shareOfDecision(d *rollouts.Decision) share {
	switch {
	case verbRules[d.Verb].isSafety:
		return ofSafety
	case d.Via == rollouts.ViaAnalysis:
		return ofChecks
	default:
		return ofUsers
	}
}

// recordDecision appends the decision. To make room it first removes decisions that are already in a
// RolloutHistory. It removes other decisions only from the shares ofSafety and ofChecks.
func recordDecision(next *rollouts.RolloutStatus, c Command, outcome rollouts.Outcome) error {
	p := next.Active()
	d := rollouts.Decision{
		ID: lastID(next.Decisions) + 1, Verb: c.Verb, User: c.User, UID: c.UID, UserAgent: c.UserAgent, Time: c.Now,
		Step: p.CurrentStepIndex, Revision: p.UpdateRevision, UpdateTemplate: p.UpdateTemplate,
		Reason: c.Options.Reason, RequestID: c.Options.RequestID, Via: c.Via, Outcome: outcome, Full: c.Full,
	}
	if c.Verb == rollouts.VerbJump {
		d.Step, d.ToStep = c.fromStep, c.Step
	}
	if c.Override {
		d.Overrode, d.OverriddenChecks = []string{"analysis"}, c.overriddenChecks
	}
	if c.Shortage != "" {
		d.UserAgent = ""
		if d.Reason = rollouts.Clean(d.Reason, maxBriefReason); !c.Override {
			d.Reason = "" // an override must have one
		}
	}
	foldToggles(next, d)
	if c.ReplaceEarlier {
		replaceEarlier(next, d)
	}
	if !makeRoom(next, capacity{maxDecisions, maxBytes}, d, c.Earlier) {
		return refuse("the decisions of this release fill its record (%d, or %d KiB); roll it back, or release another template: "+
			"either ends this release, and the decisions about the next one have room", maxDecisions, maxBytes>>10)
	}
	next.Decisions = append(next.Decisions, d)
	return nil
}

// maxBriefReason limits the recorded reason of an override while the store is short of room.
const maxBriefReason = 256

// capacity is an amount of decisions, as a limit or as usage.
type capacity struct{ decisions, bytes int }

// makeRoom removes decisions of a status until one more has room, and reports whether it has.
// Decisions that are kept elsewhere count only in a share that refuses more: nothing can be removed
// there, and a safety verb must not be refused because of them.
func makeRoom(next *rollouts.RolloutStatus, most capacity, more rollouts.Decision, elsewhere []rollouts.Decision) bool {
	if shareOfDecision(&more) == ofChecks {
		most.bytes = min(most.bytes, maxCheckBytes)
	}
	if shareOfDecision(&more) == ofUsers {
		taken := usageOfShare(elsewhere, more)
		most = capacity{most.decisions - taken.decisions, most.bytes - taken.bytes}
	}
	for {
		has := usageOfShare(next.Decisions, more)
		if has.decisions+1 <= most.decisions && has.bytes+more.Size() <= most.bytes {
			return true
		}
		i := indexOfRemovable(next, more)
		if i < 0 {
			return false
		}
		next.Decisions = slices.Delete(next.Decisions, i, i+1)
	}
}

// replaceEarlier removes safety verbs from the record until one more does not make it longer, or
// few are left. It removes what makeRoom would remove first.
func replaceEarlier(next *rollouts.RolloutStatus, d rollouts.Decision) {
	if shareOfDecision(&d) != ofSafety {
		return
	}
	for before := usageOfShare(next.Decisions, d); ; {
		has := usageOfShare(next.Decisions, d)
		if has.decisions < maxSafetyWithoutRoom || has.bytes+d.Size() <= before.bytes {
			return
		}
		i := indexOfRemovable(next, d) // there always is a safety verb
		next.Decisions = slices.Delete(next.Decisions, i, i+1)
	}
}

// foldToggles removes pauses and resumes from a long row of one user about one step. It keeps the first and the
// latest ones. The decision numbers still show how many there were.
func foldToggles(next *rollouts.RolloutStatus, d rollouts.Decision) {
	first := len(next.Decisions)
	for first > 0 && isSameToggle(next.Decisions[first-1], d) {
		first--
	}
	if isSameToggle(d, d) && len(next.Decisions)-first >= maxToggles {
		next.Decisions = slices.Delete(next.Decisions, first+1, len(next.Decisions)-maxToggles+2)
	}
}

// isSameToggle reports whether both decisions are a pause or resume of one user at one step of one release.
func isSameToggle(a, b rollouts.Decision) bool {
	return isToggle(a.Verb) && isToggle(b.Verb) && a.Outcome != "" && a.User == b.User && a.UID == b.UID && a.Step == b.Step && a.Revision == b.Revision && a.UpdateTemplate == b.UpdateTemplate
}

func isToggle(v rollouts.Verb) bool { return v == rollouts.VerbPause || v == rollouts.VerbResume }

// usageOfShare returns how much the decisions use of the share that another decision is counted in.
func usageOfShare(all []rollouts.Decision, more rollouts.Decision) (has capacity) {
	for i := range all {
		if shareOfDecision(&all[i]) == shareOfDecision(&more) {
			has.decisions++
			has.bytes += all[i].Size()
		}
	}
	return has
}

// indexOfRemovable returns the index of the decision to remove first to make room for another one, or -1. It removes
// decisions that are in a history first. From the shares ofSafety and ofChecks, it then removes the decisions that
// one user has repeated, those that anybody has repeated, and any other. Of these it removes the oldest first.
func indexOfRemovable(next *rollouts.RolloutStatus, more rollouts.Decision) int {
	all, of := next.Decisions, shareOfDecision(&more)
	removable := []func(rollouts.Decision) bool{
		func(d rollouts.Decision) bool { return !lacksHistory(next, d) },
		func(d rollouts.Decision) bool { return isRepeatedByUser(all, d) },
		func(d rollouts.Decision) bool { return isRepeatedLater(all, d) },
		func(rollouts.Decision) bool { return true },
	}
	if of == ofUsers {
		removable = removable[:1]
	}
	for _, may := range removable {
		if i := slices.IndexFunc(all, func(d rollouts.Decision) bool { return shareOfDecision(&d) == of && may(d) }); i >= 0 {
			return i
		}
	}
	return -1
}

// isRepeatedByUser reports whether the same user has used the verb before and after the decision.
func isRepeatedByUser(all []rollouts.Decision, d rollouts.Decision) bool {
	same := func(o rollouts.Decision) bool {
		return o.Verb == d.Verb && o.User == d.User && o.Revision == d.Revision && o.UpdateTemplate == d.UpdateTemplate
	}
	first := slices.IndexFunc(all, same)
	return d.Outcome != "" && all[first].ID != d.ID && hasLaterDecision(all, d, same)
}

// isRepeatedLater reports whether anybody has used the verb after the decision.
func isRepeatedLater(all []rollouts.Decision, d rollouts.Decision) bool {
	return d.Outcome != "" && hasLaterDecision(all, d, func(o rollouts.Decision) bool { return o.Verb == d.Verb })
}

func hasLaterDecision(all []rollouts.Decision, d rollouts.Decision, same func(rollouts.Decision) bool) bool {
	return slices.ContainsFunc(all, func(o rollouts.Decision) bool { return o.ID > d.ID && same(o) })
}

// lacksHistory reports whether no history contains the decision yet. The first release after an upgrade of Weir may
// have no release record.
func lacksHistory(s *rollouts.RolloutStatus, d rollouts.Decision) bool {
	for _, r := range s.Releases {
		if !r.Filed && d.ID >= r.FirstDecision {
			return true
		}
	}
	return len(s.Releases) == 0 && d.IsAbout(s.Active())
}
