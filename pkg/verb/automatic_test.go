// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package verb_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/verb"
)

// passFirstStep stores that the checks of the first step have passed, and that the release is at
// the second one.
func passFirstStep(t *testing.T, r *rollouts.Rollout, why string) {
	t.Helper()
	was, next := r.Status.DeepCopy(), r.Status.DeepCopy()
	was.Active().CurrentStepIndex, was.Active().State = 1, rollouts.StepPaused
	was.Analysis = &rollouts.AnalysisStatus{Step: 1, Checks: []rollouts.CheckStatus{{Name: "smoke", Result: rollouts.CheckPassed, Why: why}}}
	next.Analysis = was.Analysis
	next.Active().CurrentStepIndex, next.Active().State = 2, rollouts.BeforeStepUpgrade
	if err := verb.Automatic(was, next, func() verb.Command { return verb.Command{User: "weir-controller"} }); err != nil {
		t.Fatal(err)
	}
	r.Status = *next
}

// A promotion by checks is on record, also where the promotions of users fill their share,
// and it takes no room of theirs. After many rounds the first and the latest are there.
func TestChecksHaveRoom(t *testing.T) {
	t.Parallel()
	for name, reason := range map[string]string{"by number": "", "by bytes": strings.Repeat("<", 1024)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := waitingRollout()
			r.Status.Releases = []rollouts.ReleaseRecord{{Number: 1, FirstDecision: 1}}
			jump := verb.Command{Verb: rollouts.VerbJump, Step: 2, User: "mallory", Options: rollouts.DecisionOptions{Reason: reason}}
			users, first := 0, int64(0)
			for ; applyAndDescribe(t, r, jump) != "refused"; users++ {
				settleDecisions(r)
			}
			for round := range 300 {
				why := fmt.Sprint(round, strings.Repeat("<", 900))
				passFirstStep(t, r, why)
				d := r.Status.Decisions[len(r.Status.Decisions)-1]
				if d.Verb != rollouts.VerbPromote || d.Via != rollouts.ViaAnalysis || d.Step != 1 || !strings.Contains(d.Reason, why[:10]) {
					t.Fatalf("round %d: the latest on record is %s via %s of step %d: %q", round, d.Verb, d.Via, d.Step, d.Reason)
				}
				if round == 0 {
					first = d.ID
				}
			}
			var byChecks []rollouts.Decision
			for _, d := range r.Status.Decisions {
				if d.Via == rollouts.ViaAnalysis {
					byChecks = append(byChecks, d)
				}
			}
			if size := bytesOf(byChecks); byChecks[0].ID != first || size > 64<<10 || len(r.Status.Decisions)-len(byChecks) != users {
				t.Errorf("%d promotions by checks from %d on, of %d bytes, beside %d decisions of users; want them from %d on, and %d of users",
					len(byChecks), byChecks[0].ID, size, len(r.Status.Decisions)-len(byChecks), first, users)
			}
		})
	}
}
