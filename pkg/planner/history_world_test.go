// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// onlyRecord reports whether two statuses differ only in the record of releases.
func onlyRecord(old, next rollouts.RolloutStatus) bool {
	if equality.Semantic.DeepEqual(old.Releases, next.Releases) {
		return false
	}
	next.Releases = old.Releases
	return equality.Semantic.DeepEqual(old, next)
}

// showHistories prints the stored histories, oldest release first, and the number of additional
// writes for histories since the last call.
func (t *transcript) showHistories() {
	all := listOf[*rollouts.RolloutHistory](t.w.store.objects)
	slices.SortFunc(all, func(a, b *rollouts.RolloutHistory) int { return cmp.Compare(releaseOf(a), releaseOf(b)) })
	t.printUnder("histories", "%d, writes %d", len(all), t.w.historyWrites)
	t.w.historyWrites = 0
	for _, h := range all {
		s := h.Status
		t.printUnder("history", "%s", strings.TrimSpace(fmt.Sprintf("%d of %s %s %s", releaseOf(h), s.UpdateRevision, s.Phase, s.Outcome)))
		for _, v := range s.CanarySteps {
			t.printUnder("", "step %d entered %s, upgraded %s, paused %s, left %s", v.CanaryStepIndex,
				t.formatTime(v.EnteredTime), t.formatTime(v.UpgradedTime), t.formatTime(v.PausedTime), t.formatTime(v.LeftTime))
		}
		for _, d := range s.Decisions {
			t.printUnder("", "%s by %s at step %d%s: %s", d.Verb, d.User, d.Step, scopeOf(d), d.Outcome)
		}
	}
}

func releaseOf(h *rollouts.RolloutHistory) int {
	n, err := strconv.Atoi(h.Labels[rollouts.LabelReleaseNumber])
	if err != nil {
		panic(err)
	}
	return n
}

func (t *transcript) formatTime(at *metav1.Time) string {
	if at == nil {
		return "-"
	}
	d := at.Sub(t.start).Round(time.Second)
	return fmt.Sprintf("%02d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

// checkRecorded checks the invariant "recorded": at rest, each finished release has a history, and
// each decision is in exactly one history or belongs to the current release.
func (e *releaseEnd) checkRecorded() {
	in, r := map[int64]int{}, e.rollout()
	for _, h := range listOf[*rollouts.RolloutHistory](e.store.objects) {
		if r != nil && h.Name != planner.HistoryName(r, int64(releaseOf(h))) {
			continue // it belongs to an earlier Rollout of the same name
		}
		for _, d := range h.Status.Decisions {
			in[d.ID]++
		}
		if r == nil && h.Status.Phase != rollouts.PhaseHistoryCompleted {
			e.check.violate("recorded", "%s: the rollout is gone, and release %d is not on file", e.name, releaseOf(h))
		}
	}
	if r == nil {
		return
	}
	var open int64 = 1 << 62
	for _, release := range r.Status.Releases {
		if release.EndTime == nil {
			open = release.FirstDecision
		} else if !release.Filed {
			e.check.violate("recorded", "%s: release %d is over and not on file", e.name, release.Number)
		}
	}
	for _, d := range r.Status.Decisions {
		if n := in[d.ID]; d.ID < open && n != 1 || d.ID >= open && n > 1 {
			e.check.violate("recorded", "%s: decision %d (%s) is in %d histories", e.name, d.ID, d.Verb, n)
		}
	}
}
