// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"
)

// Action is one effect, why it is wanted, and when it is carried out.
type Action struct {
	Effect Effect
	// Reason names the case, stage, projection or rule that wants the effect.
	Reason string
	When   When
}

// When says how an action depends on the write of the next status.
type When int

const (
	// AfterStatus actions are carried out in their order once the next status is stored. They end
	// with the first that fails.
	AfterStatus When = iota
	// BeforeStatus actions store what the next status is based on. If one fails, Independent and
	// FromStored actions are not carried out.
	BeforeStatus
	// Independent actions are carried out once the next status is stored, even if an AfterStatus
	// action fails.
	Independent
	// FromStored actions follow from what is stored already. They are carried out last, even if
	// other actions fail, and do not cause an unchanged status to be written.
	FromStored
)

func (w When) String() string {
	return [...]string{"after status", "before status", "independent", "from stored"}[w]
}

func (a Action) String() string {
	text := fmt.Sprintf("%s, for %q", a.Effect, a.Reason)
	if a.When != AfterStatus {
		text += ", " + a.When.String()
	}
	return text
}

// NewActions returns an action for each effect.
func NewActions(when When, reason string, effects ...Effect) []Action {
	actions := make([]Action, 0, len(effects))
	for _, effect := range effects {
		actions = append(actions, Action{Effect: effect, Reason: reason, When: when})
	}
	return actions
}

// ActionsAt returns the actions that are carried out at a time, in their order.
func ActionsAt(when When, actions []Action) []Action {
	return slices.DeleteFunc(slices.Clone(actions), func(a Action) bool { return a.When != when })
}

// HasEffect reports whether the effect of an action matches.
func HasEffect(actions []Action, matches func(Effect) bool) bool {
	return slices.ContainsFunc(actions, func(a Action) bool { return matches(a.Effect) })
}
