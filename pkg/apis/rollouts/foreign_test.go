// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// TestConditionSize counts what JSON escapes: a user may fill the store with such characters.
func TestConditionSize(t *testing.T) {
	t.Parallel()
	c := rollouts.Condition{Type: "Gate", Message: strings.Repeat("<", 1000)}
	if got, want := c.Size(), len("Gate")+6000; got != want {
		t.Errorf("the size is %d bytes, want %d", got, want)
	}
}

// What others wrote before there were limits is made to fit, once; what Weir
// wrote stays.
func TestFit(t *testing.T) {
	t.Parallel()
	var s rollouts.RolloutStatus
	for i := range 50 {
		s.Conditions = append(s.Conditions, rollouts.Condition{
			Type: rollouts.ConditionType(fmt.Sprintf("Gate%d", i)), Reason: strings.Repeat("r", i*100), Message: strings.Repeat("ü", 300_000),
		})
	}
	ours := rollouts.Condition{Type: rollouts.ConditionProgressing, Reason: "InRolling", Message: strings.Repeat("m", 3000)}
	stalled := rollouts.Condition{Type: rollouts.ConditionStalled, Reason: string(rollouts.StalledAborted), Message: strings.Repeat("m", 3000)}
	s.Conditions = append(s.Conditions, ours, stalled, ours)
	s.Fit()
	if n := len(s.Conditions); n != 34 {
		t.Fatalf("%d conditions are left, want 32 and two of ours", n)
	}
	for i, c := range s.Conditions {
		if rollouts.Foreign(s.Conditions, i) != (i < 32) || i < 32 && c.Size() > 1024 {
			t.Errorf("condition %d is %s with %d bytes", i, c.Type, c.Size())
		}
	}
	if diff := cmp.Diff([]rollouts.Condition{ours, stalled}, s.Conditions[32:]); diff != "" {
		t.Errorf("ours (-want +got):\n%s", diff)
	}
	before := s.DeepCopy()
	s.Fit()
	if diff := cmp.Diff(before, &s); diff != "" {
		t.Errorf("fitted again (-before +after):\n%s", diff)
	}
}
