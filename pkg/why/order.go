// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"slices"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// preferredVerbs are the verbs that help most in a state, the best first.
var preferredVerbs = map[string][]rollouts.Verb{
	Failing: {rollouts.VerbAbort, rollouts.VerbRollback},
	Stalled: {rollouts.VerbAbort, rollouts.VerbRollback},
	Paused:  {rollouts.VerbResume},
	Aborted: {rollouts.VerbRollback, rollouts.VerbRetry},
}

// SortActions puts the actions into the order that helps in a state: first the possible ones, and among them
// first those that the state prefers. Clients show the first ones as buttons, and the impossible ones behind a menu.
func SortActions(state string, actions []rollouts.Action) {
	rank := func(a rollouts.Action) int {
		preferred := preferredVerbs[state]
		i := slices.Index(preferred, rollouts.Verb(a.Verb))
		switch {
		case !a.Possible:
			return len(preferred) + 1
		case i < 0:
			return len(preferred)
		default:
			return i
		}
	}
	slices.SortStableFunc(actions, func(a, b rollouts.Action) int { return cmp.Compare(rank(a), rank(b)) })
}
