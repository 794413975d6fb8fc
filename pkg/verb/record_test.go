// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package verb_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/verb"
)

// TestRecordedScope: the record distinguishes the approval of one step from the approval of all, and has both steps of
// a jump.
func TestRecordedScope(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		command verb.Command
		want    rollouts.Decision
	}{
		"one step":        {verb.Command{Verb: rollouts.VerbPromote}, rollouts.Decision{Step: 2}},
		"all steps":       {verb.Command{Verb: rollouts.VerbPromote, Full: true}, rollouts.Decision{Step: 2, Full: true}},
		"a jump back":     {verb.Command{Verb: rollouts.VerbJump, Step: 1}, rollouts.Decision{Step: 2, ToStep: 1}},
		"a jump ahead":    {verb.Command{Verb: rollouts.VerbJump, Step: 3}, rollouts.Decision{Step: 2, ToStep: 3}},
		"the step itself": {verb.Command{Verb: rollouts.VerbJump, Step: 2}, rollouts.Decision{Step: 2, ToStep: 2}},
		"an abort":        {verb.Command{Verb: rollouts.VerbAbort}, rollouts.Decision{Step: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := waitingRollout()
			if got := applyAndDescribe(t, r, tc.command); got != "ok" {
				t.Fatalf("the command is %s", got)
			}
			d := r.Status.Decisions[0]
			if diff := cmp.Diff(tc.want, rollouts.Decision{Step: d.Step, ToStep: d.ToStep, Full: d.Full}); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
		})
	}
}
