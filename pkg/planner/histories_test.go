// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

func TestOutdatedHistories(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	made := func(name string, number int64, ago time.Duration) planner.StoredHistory {
		return planner.StoredHistory{Name: name, Number: number, Created: metav1.NewTime(now.Add(-ago))}
	}
	// A Rollout of the same name existed before, and its releases were numbered from 1, too.
	all := []planner.StoredHistory{
		made("first", 1, 3*time.Hour), made("earlier", 7, 9*time.Hour), made("second", 2, 2*time.Hour), made("third", 3, 2*time.Hour),
	}
	for name, tc := range map[string]struct {
		keep planner.HistoryRetention
		all  []planner.StoredHistory
		want []string
	}{
		"below the limit":       {keep: planner.HistoryRetention{Limit: 4}, all: all},
		"the oldest is deleted": {keep: planner.HistoryRetention{Limit: 3}, all: all, want: []string{"earlier"}},
		"the newest is kept":    {keep: planner.HistoryRetention{Limit: 1}, all: all, want: []string{"second", "first", "earlier"}},
		"too old":               {keep: planner.HistoryRetention{Limit: 9, Age: 150 * time.Minute}, all: all, want: []string{"first", "earlier"}},
		"old, but the only one": {keep: planner.HistoryRetention{Limit: 1, Age: time.Minute}, all: all[:1]},
		"none":                  {keep: planner.HistoryRetention{Limit: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, tc.keep.Outdated(tc.all, now)); diff != "" {
				t.Errorf("outdated (-want +got):\n%s", diff)
			}
		})
	}
}

// TestHistoryNames checks that names and labels of histories are valid for every name of a Rollout,
// and unique for each release.
func TestHistoryNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, name := range []string{"web", strings.Repeat("a", 253), strings.Repeat("a", 252) + "b"} {
		r := &rollouts.Rollout{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid"}}
		for number := range int64(3) {
			made := planner.HistoryName(r, number)
			if seen[made] || made != planner.HistoryName(r, number) || len(validation.IsDNS1123Subdomain(made)) > 0 {
				t.Errorf("release %d of %s has the name %s", number, name, made)
			}
			seen[made] = true
		}
		if wrong := validation.IsValidLabelValue(planner.HistoryLabel(name)); len(wrong) > 0 {
			t.Errorf("label of %s: %v", name, wrong)
		}
	}
}

// TestAdviceOfFullRecord checks that a user whose verb is refused because the record is full can follow
// the advice of the error.
func TestAdviceOfFullRecord(t *testing.T) {
	t.Parallel()
	for name, advice := range map[string][]string{
		"roll it back":             {"rollback web", "settle", "update web image=v3", "settle"},
		"release another template": {"update web image=v3", "settle"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStory(t)
			s.run([]string{"deployment web replicas=10 image=v1", "rollout web", "  step 20%", "  step 100%", "settle", "update web image=v2", "settle"})
			for range 200 {
				s.run([]string{"jump web to=1", "settle"})
			}
			if said := s.run([]string{"jump web to=1"}); !strings.Contains(said, name) {
				t.Fatalf("the answer does not say %q: %s", name, said)
			}
			if said := s.run([]string{"promote web"}); !strings.Contains(said, "refused, the decisions of this release") {
				t.Fatalf("a promotion of a full record: %s", said)
			}
			s.run(advice)
			if said := s.run([]string{"promote web"}); !strings.Contains(said, "accepted") {
				t.Errorf("after the advice: %s", said)
			}
		})
	}
}
