// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"slices"
	"strings"
	"testing"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// TestSortActions checks which actions a user sees first in each state. A verb in brackets is not possible.
func TestSortActions(t *testing.T) {
	t.Parallel()
	const all = "promote abort rollback [retry] pause [resume] jump"
	for state, want := range map[string]string{
		Waiting: "promote abort rollback pause jump [retry] [resume]",
		Failing: "abort rollback promote pause jump [retry] [resume]",
		Stalled: "abort rollback promote pause jump [retry] [resume]",
		Aborted: "rollback promote abort pause jump [retry] [resume]",
	} {
		var actions []rollouts.Action
		for verb := range strings.FieldsSeq(all) {
			name := strings.Trim(verb, "[]")
			actions = append(actions, rollouts.Action{Verb: name, Possible: name == verb})
		}
		SortActions(state, actions)
		var got []string
		for _, a := range actions {
			if a.Possible {
				got = append(got, a.Verb)
			} else {
				got = append(got, "["+a.Verb+"]")
			}
		}
		if !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("in state %s: %v, want %s", state, got, want)
		}
	}
}
