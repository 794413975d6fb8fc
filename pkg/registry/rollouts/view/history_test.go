// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"strings"
	"testing"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// The size of a response is limited, whatever the number of decisions: it contains the newest releases, and
// at least one of them.
func TestReleases(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ filed, decisions, reason, want int }{
		"none":                      {0, 0, 0, 0},
		"few":                       {3, 20, 100, 3},
		"many releases":             {150, 1, 10, 100},
		"many decisions":            {100, 400, 800, 2},
		"more than an answer holds": {3, 1500, 800, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var all []filedRelease
			for i := range tc.filed {
				h := &rollouts.RolloutHistory{}
				for range tc.decisions {
					h.Status.Decisions = append(h.Status.Decisions, rollouts.Decision{User: "alice", Reason: strings.Repeat("a", tc.reason)})
				}
				all = append(all, filedRelease{record: rollouts.ReleaseRecord{Number: int64(1000 - i)}, history: h})
			}
			got := limitReleases(&rollouts.Rollout{}, all)
			if len(got) != tc.want || len(got) > 0 && got[0].Number != 1000 {
				t.Errorf("%d releases, want %d with the newest first", len(got), tc.want)
			}
		})
	}
}
