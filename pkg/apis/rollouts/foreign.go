// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"regexp"
	"slices"
	"strings"
)

// Limits of the conditions that others write about a Rollout.
const (
	MaxForeign = 32
	// MaxCondition is in bytes, of all the words of one.
	MaxCondition = 1 << 10
)

// Foreign reports whether the condition of that index is not one that Weir
// writes: it has another type, or repeats one, or says for a reason of others
// that the Rollout is stalled.
func Foreign(all []Condition, i int) bool {
	c := all[i]
	switch {
	case !slices.Contains(ConditionTypes, c.Type):
		return true
	case slices.ContainsFunc(all[:i], func(o Condition) bool { return o.Type == c.Type }):
		return true
	default:
		return c.Type == ConditionStalled && !StallReason(c.Reason).Known()
	}
}

var plainReason = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)

// MayStall reports whether others may give the reason for being stalled: one word, that
// reads like none of Weir's.
func MayStall(reason string) bool {
	return plainReason.MatchString(reason) && !slices.ContainsFunc(StallReasons, func(ours StallReason) bool {
		return strings.EqualFold(string(ours), reason)
	})
}

// Size is that of the words of a condition, in bytes.
func (c *Condition) Size() int {
	return len(c.Type) + len(c.Status) + len(c.Reason) + len(c.Message)
}

// Fit makes conditions of others that were stored before there were limits as
// many and as long as they may be. What is within them stays as it is.
func (s *RolloutStatus) Fit() {
	count := 0
	var kept []Condition
	for i, c := range s.Conditions {
		if Foreign(s.Conditions, i) {
			count++
			c.fit()
		}
		if count <= MaxForeign || !Foreign(s.Conditions, i) {
			kept = append(kept, c)
		}
	}
	if len(kept) > 0 {
		s.Conditions = kept
	}
}

func (c *Condition) fit() {
	for _, word := range []*string{&c.Message, &c.Reason, (*string)(&c.Type), (*string)(&c.Status)} {
		if over := c.Size() - MaxCondition; over > 0 {
			*word = Clean(*word, max(1, (len(*word)-over)/4))
		}
	}
}
