// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"testing"
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// TestRecordWriteError checks that a new write error is reported. If only its message changes, the
// condition is written at most once a minute.
func TestRecordWriteError(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	var all []rollouts.Condition
	for i, tc := range []struct {
		after           time.Duration
		reason, message string
		news            bool
		says            string
	}{
		{0, "Forbidden", "one", true, "one"},
		{time.Second, "Forbidden", "one", false, "one"},
		{time.Second, "Forbidden", "two", false, "one"},
		{time.Minute, "Forbidden", "three", false, "three"},
		{time.Second, "Invalid", "four", true, "four"},
	} {
		now = now.Add(tc.after)
		var news bool
		all, news = planner.RecordWriteError(all, planner.WriteError{Reason: tc.reason, Message: tc.message}, now)
		if len(all) != 1 || news != tc.news || all[0].Message != tc.says || all[0].Reason != tc.reason {
			t.Errorf("%d: news %t, %v; want %t, %q", i, news, all, tc.news, tc.says)
		}
	}
}
