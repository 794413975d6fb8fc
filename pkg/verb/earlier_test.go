// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package verb_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/verb"
)

// newDecisions are decisions of a verb, numbered from first to last.
func newDecisions(v rollouts.Verb, outcome rollouts.Outcome, first, last int64) (all []rollouts.Decision) {
	for id := first; id <= last; id++ {
		all = append(all, rollouts.Decision{ID: id, Verb: v, User: "alice", Revision: "two", Outcome: outcome})
	}
	return all
}

// Settled decisions move in their order, as far as there is room, and the latest stay.
func TestMoveDecisions(t *testing.T) {
	t.Parallel()
	const jump, pause, applied, open = rollouts.VerbJump, rollouts.VerbPause, rollouts.OutcomeApplied, rollouts.Outcome("")
	underWay := []rollouts.ReleaseRecord{{Number: 1, FirstDecision: 1}}
	filed := []rollouts.ReleaseRecord{{Number: 1, FirstDecision: 1, Filed: true}, {Number: 2, FirstDecision: 201}}
	big := newDecisions(jump, applied, 1, 100)
	for i := range big {
		big[i].Reason = strings.Repeat("x", 4096)
	}
	for name, tc := range map[string]struct {
		status, earlier []rollouts.Decision
		releases        []rollouts.ReleaseRecord
		// kept and left are the first and the last ID of what is beside the status then, and in it.
		kept, left [2]int64
	}{
		"the first":                   {status: newDecisions(jump, applied, 1, 41), kept: [2]int64{1, 21}, left: [2]int64{22, 41}},
		"more":                        {earlier: newDecisions(jump, applied, 1, 21), status: newDecisions(jump, applied, 22, 62), kept: [2]int64{1, 42}, left: [2]int64{43, 62}},
		"moved before":                {earlier: newDecisions(jump, applied, 1, 21), status: newDecisions(jump, applied, 1, 45), kept: [2]int64{1, 25}, left: [2]int64{26, 45}},
		"an open one stays":           {status: append(newDecisions(jump, applied, 1, 9), newDecisions(jump, open, 10, 50)...), kept: [2]int64{1, 9}, left: [2]int64{10, 50}},
		"no room":                     {earlier: newDecisions(jump, applied, 1, 200), status: newDecisions(jump, applied, 201, 241), releases: underWay, kept: [2]int64{1, 200}, left: [2]int64{201, 241}},
		"too many bytes":              {status: big, releases: underWay, kept: [2]int64{1, 30}, left: [2]int64{31, 100}},
		"what is filed makes room":    {earlier: newDecisions(jump, applied, 1, 200), status: newDecisions(jump, applied, 201, 241), releases: filed, kept: [2]int64{22, 221}, left: [2]int64{222, 241}},
		"a safety verb takes its own": {earlier: newDecisions(pause, applied, 1, 200), status: newDecisions(pause, applied, 201, 241), releases: underWay, kept: [2]int64{1, 221}, left: [2]int64{222, 241}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := rollouts.RolloutStatus{Decisions: tc.status, Releases: tc.releases}
			before := slices.Clone(tc.earlier)
			kept, left := verb.MoveDecisions(&s, tc.earlier)
			if !equality.Semantic.DeepEqual(before, tc.earlier) || len(s.Decisions) != len(tc.status) {
				t.Error("what was given is changed")
			}
			for what, c := range map[string]struct {
				got  []rollouts.Decision
				want [2]int64
			}{"kept": {kept, tc.kept}, "left": {left, tc.left}} {
				if first, last := c.got[0].ID, c.got[len(c.got)-1].ID; first != c.want[0] || last != c.want[1] {
					t.Errorf("%s are %d to %d, want %v", what, first, last, c.want)
				}
			}
			if len(kept) > 200 || bytesOf(kept) > 192<<10 {
				t.Errorf("%d are kept, of %d bytes", len(kept), bytesOf(kept))
			}
		})
	}
}

// Where some cannot be moved, or take much, all of them are counted.
func TestEarlierIsCounted(t *testing.T) {
	t.Parallel()
	r := waitingRollout()
	r.Status.Releases = []rollouts.ReleaseRecord{{Number: 1, FirstDecision: 1}}
	earlier := newDecisions(rollouts.VerbJump, rollouts.OutcomeApplied, 1, 200)
	for i := range int64(100) {
		c := verb.Command{Verb: rollouts.VerbJump, Step: 2, User: "alice"}
		if c.NeedsEarlier(&r.Status) != (len(r.Status.Decisions) > 40) {
			t.Fatalf("with %d decisions it needs the earlier ones: %v", len(r.Status.Decisions), c.NeedsEarlier(&r.Status))
		}
		if len(r.Status.Decisions) == 0 {
			r.Status.Decisions = newDecisions(rollouts.VerbJump, rollouts.OutcomeApplied, 201, 201)
		}
		if c.NeedsEarlier(&r.Status) {
			c.Earlier = earlier
		}
		if got := applyAndDescribe(t, r, c); got == "refused" {
			if i != 40 {
				t.Errorf("decision %d is refused", 202+i)
			}
			return
		}
	}
	t.Error("nothing is refused")
}

// A safety verb is possible, and takes the place of others, also where those beside the status
// fill the share.
func TestSafetyHasRoomBesideEarlier(t *testing.T) {
	t.Parallel()
	for name, reason := range map[string]string{"by number": "", "by bytes": strings.Repeat("<", 100)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := waitingRollout()
			r.Status.Releases = []rollouts.ReleaseRecord{{Number: 1, FirstDecision: 1}}
			earlier := newDecisions(rollouts.VerbPause, rollouts.OutcomeApplied, 1, 200)
			for i := range earlier {
				earlier[i].Reason = reason
			}
			r.Status.Decisions = newDecisions(rollouts.VerbPause, rollouts.OutcomeApplied, 201, 205)
			c := verb.Command{Verb: rollouts.VerbAbort, User: "bob", Options: rollouts.DecisionOptions{RequestID: "1"}, Earlier: earlier}
			if got := applyAndDescribe(t, r, c); got != "ok" {
				t.Errorf("an abort is %s", got)
			}
		})
	}
}
