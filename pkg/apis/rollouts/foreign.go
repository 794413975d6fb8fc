// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"regexp"
	"slices"
	"strings"
)

// Limits of the conditions of a Rollout that Weir does not write.
const (
	// MaxForeign is how many there may be.
	MaxForeign = 32
	// MaxCondition is the size of one, in bytes.
	MaxCondition = 1 << 10
)

// Foreign reports whether Weir does not write the condition with the index: it has
// another type, repeats a type, or is Stalled with a reason that is not Weir's.
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

// MayStall reports whether others may use the reason in the condition Stalled: it is one
// word that differs from Weir's reasons in more than case.
func MayStall(reason string) bool {
	return plainReason.MatchString(reason) && !slices.ContainsFunc(stallReasons, func(ours StallReason) bool {
		return strings.EqualFold(string(ours), reason)
	})
}

// Size returns how many bytes the texts of a condition take in storage.
func (c *Condition) Size() int {
	return encodedSize(string(c.Type)) + encodedSize(string(c.Status)) + encodedSize(c.Reason) + encodedSize(c.Message)
}

// Fit removes and shortens foreign conditions that were stored before there were limits. It does not change conditions
// within the limits.
func (s *RolloutStatus) Fit() {
	count := 0
	var kept []Condition
	for i, c := range s.Conditions {
		if Foreign(s.Conditions, i) {
			if count++; count > MaxForeign {
				continue
			}
			c.shorten()
		}
		kept = append(kept, c)
	}
	if len(kept) > 0 {
		s.Conditions = kept
	}
}

func (c *Condition) shorten() {
	for _, word := range []*string{&c.Message, &c.Reason, (*string)(&c.Type), (*string)(&c.Status)} {
		if over := c.Size() - MaxCondition; over > 0 {
			*word = Clean(*word, max(1, len(*word)*(encodedSize(*word)-over)/max(1, encodedSize(*word))/4))
		}
	}
}
