// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package verb_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/verb"
)

// TestDecisionsAreKept: those of this release are never evicted, those of
// earlier ones make room.
func TestDecisionsAreKept(t *testing.T) {
	t.Parallel()
	full := func(revision string) *rollouts.Rollout {
		r := waitingRollout()
		for i := range 200 {
			r.Status.Decisions = append(r.Status.Decisions, rollouts.Decision{ID: int64(i + 1), Revision: revision, User: strconv.Itoa(i)})
		}
		return r
	}
	if got := applyAndDescribe(t, full("two"), verb.Command{Verb: rollouts.VerbPromote}); got != "refused" {
		t.Errorf("decision 201 of a release is %s", got)
	}
	r := full("one")
	if got := applyAndDescribe(t, r, verb.Command{Verb: rollouts.VerbPromote}); got != "ok" {
		t.Errorf("the first decision of a release is %s", got)
	}
	ds := r.Status.Decisions
	if len(ds) != 200 || ds[0].ID != 2 || ds[199].ID != 201 || ds[199].Revision != "two" {
		t.Errorf("kept %d decisions, from %d to %d", len(ds), ds[0].ID, ds[len(ds)-1].ID)
	}
}

// fillers are what somebody does to use up the record of a release.
var fillers = map[string]struct {
	// use is the command of a round, which may be refused at last.
	use     func(round int) verb.Command
	refused bool
}{
	"pause and resume": {use: func(i int) verb.Command { return toggleCommand(i, "mallory", "") }},
	"pause and resume, each with a reason and an ID": {use: func(i int) verb.Command {
		c := toggleCommand(i, "mallory", strings.Repeat("<", 1024))
		c.Options.RequestID = strconv.Itoa(i)
		return c
	}},
	"two pause and resume": {use: func(i int) verb.Command { return toggleCommand(i, fmt.Sprint("mallory-", i%2), "") }},
	"a group of accounts": {use: func(i int) verb.Command {
		return toggleCommand(i, fmt.Sprint("mallory-", i), strings.Repeat("\U0001f600", 1024))
	}},
	"abort and retry": {use: func(i int) verb.Command {
		return verb.Command{Verb: []rollouts.Verb{rollouts.VerbAbort, rollouts.VerbRetry}[i%2], User: "mallory"}
	}},
	"rollback and retry by a group": {use: func(i int) verb.Command {
		return verb.Command{Verb: []rollouts.Verb{rollouts.VerbRollback, rollouts.VerbRetry}[i%2], User: fmt.Sprint("mallory-", i)}
	}},
	"jump": {refused: true, use: func(int) verb.Command { return verb.Command{Verb: rollouts.VerbJump, Step: 2, User: "mallory"} }},
	"jump, with reasons": {refused: true, use: func(int) verb.Command {
		return verb.Command{Verb: rollouts.VerbJump, Step: 2, User: "mallory", Options: rollouts.DecisionOptions{Reason: strings.Repeat("<", 1024)}}
	}},
}

func toggleCommand(i int, user, reason string) verb.Command {
	return verb.Command{
		Verb: []rollouts.Verb{rollouts.VerbPause, rollouts.VerbResume}[i%2], User: user, UserAgent: strings.Repeat("<", 256),
		Options: rollouts.DecisionOptions{Reason: reason},
	}
}

// TestSafetyHasRoom: whatever fills the record, what keeps a version from serving
// is possible and on record, and so is the first word of everybody else.
func TestSafetyHasRoom(t *testing.T) {
	t.Parallel()
	for name, filler := range fillers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := waitingRollout()
			r.Status.Releases = []rollouts.ReleaseRecord{{Number: 1, FirstDecision: 1}}
			applyAndDescribe(t, r, verb.Command{Verb: rollouts.VerbJump, Step: 2, User: "alice"})
			for _, v := range []rollouts.Verb{rollouts.VerbPause, rollouts.VerbResume, rollouts.VerbAbort, rollouts.VerbRetry} {
				applyAndDescribe(t, r, verb.Command{Verb: v, User: "alice"})
			}
			var refused bool
			for i := range 1200 {
				got := applyAndDescribe(t, r, filler.use(i))
				refused = refused || got == "refused"
				settleDecisions(r)
			}
			if refused != filler.refused {
				t.Errorf("refused: %v, want %v", refused, filler.refused)
			}
			for _, v := range []rollouts.Verb{
				rollouts.VerbPause, rollouts.VerbResume, rollouts.VerbAbort, rollouts.VerbRetry, rollouts.VerbRollback,
			} {
				before := len(r.Status.Decisions)
				if got := applyAndDescribe(t, r, verb.Command{Verb: v, User: "bob", Options: rollouts.DecisionOptions{Reason: strings.Repeat("<", 1024)}}); got != "ok" {
					t.Errorf("%s is %s with %d on record", v, got, before)
				}
				ds := r.Status.Decisions
				if d := ds[len(ds)-1]; d.Verb != v || d.User != "bob" {
					t.Errorf("the latest on record is %s by %s, want %s by bob", d.Verb, d.User, v)
				}
			}
			if size := bytesOf(r.Status.Decisions); len(r.Status.Decisions) > 400 || size > 384<<10 {
				t.Errorf("%d decisions of %d bytes", len(r.Status.Decisions), size)
			}
			kept := slices.DeleteFunc(slices.Clone(r.Status.Decisions), func(d rollouts.Decision) bool { return d.User != "alice" })
			if name != "a group of accounts" && name != "rollback and retry by a group" && len(kept) != 5 {
				t.Errorf("of alice there is %+v", kept)
			}
			if !slices.IsSortedFunc(r.Status.Decisions, func(a, b rollouts.Decision) int { return int(a.ID - b.ID) }) {
				t.Error("the record is out of order")
			}
		})
	}
}

func bytesOf(all []rollouts.Decision) (size int) {
	for i := range all {
		size += all[i].Size()
	}
	return size
}

// TestTogglesFold: of one user's pauses and resumes in a row the first and the
// latest stay; another user, step or verb ends the row.
func TestTogglesFold(t *testing.T) {
	t.Parallel()
	r := waitingRollout()
	for i := range 100 {
		applyAndDescribe(t, r, toggleCommand(i, "alice", ""))
	}
	applyAndDescribe(t, r, verb.Command{Verb: rollouts.VerbPause, User: "bob"})
	for i := range 3 {
		applyAndDescribe(t, r, toggleCommand(i+1, "alice", ""))
	}
	var got []string
	for _, d := range r.Status.Decisions {
		got = append(got, fmt.Sprintf("%d %s %s", d.ID, d.Verb, d.User))
	}
	want := []string{"1 pause alice"}
	for i := 92; i <= 100; i++ {
		want = append(want, fmt.Sprintf("%d %s alice", i, []string{"resume", "pause"}[i%2]))
	}
	want = append(want, "101 pause bob", "102 resume alice", "103 pause alice", "104 resume alice")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
}

// A decision makes room for a new one only when it is in a history.
func TestDecisionsAreKeptUntilFiled(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		releases []rollouts.ReleaseRecord
		refused  bool
		oldest   int64
	}{
		"all of the release in progress": {releases: []rollouts.ReleaseRecord{{Number: 1, FirstDecision: 1}}, refused: true, oldest: 1},
		"of an earlier one, not filed": {
			releases: []rollouts.ReleaseRecord{{Number: 1, FirstDecision: 1}, {Number: 2, FirstDecision: 150}}, refused: true, oldest: 1,
		},
		"of an earlier one, filed": {
			releases: []rollouts.ReleaseRecord{{Number: 1, FirstDecision: 1, Filed: true}, {Number: 2, FirstDecision: 150}}, oldest: 2,
		},
		"of one that was forgotten": {releases: []rollouts.ReleaseRecord{{Number: 2, FirstDecision: 150}}, oldest: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := waitingRollout()
			for id := range int64(200) {
				r.Status.Decisions = append(r.Status.Decisions, rollouts.Decision{ID: id + 1, Verb: rollouts.VerbJump, Outcome: rollouts.OutcomeApplied})
			}
			r.Status.Releases = tc.releases
			_, err := verb.Apply(r, verb.Command{Verb: rollouts.VerbPromote, User: "alice"})
			var refusal *verb.Refusal
			if errors.As(err, &refusal) != tc.refused || r.Status.Decisions[0].ID != tc.oldest {
				t.Errorf("got %v with the oldest %d", err, r.Status.Decisions[0].ID)
			}
		})
	}
}

// Where the store is short of room, a decision is recorded without free text. Where it has none,
// a safety verb does not make a long record longer, and is on record all the same.
func TestSafetyTakesNoRoom(t *testing.T) {
	t.Parallel()
	for name, filler := range fillers {
		if filler.refused {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := waitingRollout()
			r.Status.Releases = []rollouts.ReleaseRecord{{Number: 1, FirstDecision: 1}}
			for i := range 20 {
				applyAndDescribe(t, r, filler.use(i))
				settleDecisions(r)
			}
			most := max(bytesOf(r.Status.Decisions), 10*600)
			for i := range 500 {
				c := filler.use(i)
				c.User, c.Shortage, c.ReplaceEarlier = fmt.Sprint("bob-", i), "the store is full", true
				c.Options.Reason, c.UserAgent = strings.Repeat("<", 1024), "bob/1"
				if got := applyAndDescribe(t, r, c); got != "ok" {
					t.Fatalf("%s is %s", c.Verb, got)
				}
				d := r.Status.Decisions[len(r.Status.Decisions)-1]
				if d.Verb != c.Verb || d.User != c.User || d.Reason != "" || d.UserAgent != "" {
					t.Fatalf("the latest on record is %+v", d)
				}
				if size := bytesOf(r.Status.Decisions); size > most {
					t.Fatalf("after %d safety verbs the record has %d bytes, want at most %d", i+1, size, most)
				}
				settleDecisions(r)
			}
		})
	}
}

// A promotion is never removed for lack of room, and is recorded without free text.
func TestPromotionsStayWithoutRoom(t *testing.T) {
	t.Parallel()
	r := waitingRollout()
	for i := range 50 {
		c := verb.Command{Verb: rollouts.VerbJump, Step: 2, User: "alice", UserAgent: "alice/1", Shortage: "the store is full", ReplaceEarlier: true}
		c.Options.Reason = "why"
		if got := applyAndDescribe(t, r, c); got != "ok" {
			t.Fatalf("jump %d is %s", i, got)
		}
	}
	if ds := r.Status.Decisions; len(ds) != 50 || ds[0].Reason != "" || ds[0].UserAgent != "" {
		t.Errorf("%d decisions are on record, the first is %+v", len(ds), ds[0])
	}
}
