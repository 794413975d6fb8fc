// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// The histories of releases. One is made when a release starts, so that it can
// hold what the release is about to replace, and gets its status when the
// release is over. What is to be filed is told by the stored status alone.

// HistoryEntry is a history to be stored.
type HistoryEntry struct {
	Release rollouts.ReleaseRecord
	// Status is nil as long as it is enough that the history exists.
	Status *rollouts.RolloutHistoryStatus
	// DecisionsBefore is above each decision of the release that the status of the Rollout has no more;
	// 0 if there is none. They are to be read.
	DecisionsBefore int64
}

// ReleasesWithoutHistory are the releases whose stored histories matter to the next pass.
func ReleasesWithoutHistory(s rollouts.RolloutStatus) []rollouts.ReleaseRecord {
	var out []rollouts.ReleaseRecord
	for _, r := range s.Releases {
		if !r.Filed && (!r.Kept || historyIsDue(s, r)) {
			out = append(out, r)
		}
	}
	return out
}

// HistoriesToStore are the histories to be stored, given the statuses of those that
// exist, by number of release.
func HistoriesToStore(s rollouts.RolloutStatus, stored map[int64]rollouts.RolloutHistoryStatus) []HistoryEntry {
	var out []HistoryEntry
	for _, r := range ReleasesWithoutHistory(s) {
		have, exists := stored[r.Number]
		f := HistoryEntry{Release: r}
		if historyIsDue(s, r) {
			want := HistoryStatus(s, r)
			if exists && equalHistories(s, have, want) {
				continue
			}
			f.Status, f.DecisionsBefore = &want, missingDecisionsBefore(s, r)
		} else if exists {
			continue
		}
		out = append(out, f)
	}
	return out
}

// historyIsDue reports whether there is something to say about a release: it is over, or
// aborted and waiting for somebody, which may take long.
func historyIsDue(s rollouts.RolloutStatus, r rollouts.ReleaseRecord) bool {
	if r.EndTime != nil {
		return true
	}
	p := s.Active()
	return r.Outcome == rollouts.ReleaseAborted && s.Phase == rollouts.PhaseProgressing &&
		s.Activity() == rollouts.ActivityAborted && p != nil && !p.RollingBack
}

// HistoryStatus is what the history of a release has to say.
func HistoryStatus(s rollouts.RolloutStatus, r rollouts.ReleaseRecord) rollouts.RolloutHistoryStatus {
	start := r.StartTime
	h := rollouts.RolloutHistoryStatus{
		StableRevision: r.StableRevision, UpdateRevision: r.UpdateRevision, StableTemplate: r.StableTemplate, UpdateTemplate: r.UpdateTemplate,
		StartTime: &start, EndTime: r.EndTime.DeepCopy(), Outcome: r.Outcome,
	}
	if r.EndTime != nil {
		h.Phase = rollouts.PhaseHistoryCompleted
	}
	for _, v := range r.Steps {
		h.CanarySteps = append(h.CanarySteps, rollouts.HistoryStep{CanaryStepIndex: v.Step, StepTimes: *v.StepTimes.DeepCopy()})
	}
	for _, d := range s.Decisions {
		if d.ID >= r.FirstDecision && d.ID < nextDecision(s, r) {
			h.Decisions = append(h.Decisions, d)
		}
	}
	return h
}

// nextDecision is the first that belongs to a later release.
func nextDecision(s rollouts.RolloutStatus, r rollouts.ReleaseRecord) int64 {
	for _, later := range s.Releases {
		if later.Number > r.Number {
			return later.FirstDecision
		}
	}
	return 1 << 62
}

// missingDecisionsBefore is above each decision of a release that is earlier than those of the status.
func missingDecisionsBefore(s rollouts.RolloutStatus, r rollouts.ReleaseRecord) int64 {
	if first := firstDecision(s); first > max(1, r.FirstDecision) {
		return min(first, nextDecision(s, r))
	}
	return 0
}

// firstDecision is the first that the status has; 0 if it has none.
func firstDecision(s rollouts.RolloutStatus) int64 {
	if len(s.Decisions) == 0 {
		return 0
	}
	return s.Decisions[0].ID
}

// equalHistories compares what is told of a release that has gone no further. Of the decisions
// it compares those that the status has: the others do not change.
func equalHistories(s rollouts.RolloutStatus, a, b rollouts.RolloutHistoryStatus) bool {
	first := firstDecision(s)
	a.Decisions = slices.DeleteFunc(slices.Clone(a.Decisions), func(d rollouts.Decision) bool { return d.ID < first })
	return a.Phase == b.Phase && a.Outcome == b.Outcome && a.EndTime.Equal(b.EndTime) &&
		slices.EqualFunc(a.Decisions, b.Decisions, func(a, b rollouts.Decision) bool { return a.ID == b.ID && a.Outcome == b.Outcome }) &&
		slices.EqualFunc(a.CanarySteps, b.CanarySteps, func(a, b rollouts.HistoryStep) bool {
			return a.CanaryStepIndex == b.CanaryStepIndex && a.EnteredTime.Equal(b.EnteredTime) && a.LeftTime.Equal(b.LeftTime)
		})
}

// HistoryName is the same whenever it is asked for, so that a history is made
// once, whoever dies in between.
func HistoryName(r *rollouts.Rollout, number int64) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", r.UID, number))
	return truncateName(r.Name, 240) + "-" + hex.EncodeToString(sum[:])[:10]
}

// HistoryLabels find the histories of a Rollout. The value of a label is
// shorter than a name may be.
func HistoryLabels(r *rollouts.Rollout, release rollouts.ReleaseRecord) map[string]string {
	labels := map[string]string{
		rollouts.LabelRolloutName:   HistoryLabel(r.Name),
		rollouts.LabelReleaseNumber: strconv.FormatInt(release.Number, 10),
	}
	if release.RolloutID != "" {
		labels[rollouts.LabelRolloutID] = release.RolloutID
	}
	return labels
}

// HistoryLabel is the value of the label that names a Rollout.
func HistoryLabel(rollout string) string { return truncateName(rollout, 63) }

// truncateName shortens a name; what it ends with tells long ones apart.
func truncateName(name string, most int) string {
	if len(name) <= most {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return name[:most-9] + "x" + hex.EncodeToString(sum[:])[:8]
}

// HistoryRetention bounds the histories of a Rollout: so many, and none older than Age
// unless that is zero.
type HistoryRetention struct {
	Limit int
	Age   time.Duration
}

// StoredHistory is a history and when it was made.
type StoredHistory struct {
	Name    string
	Number  int64
	Created metav1.Time
}

// Outdated are the histories that may go. The newest stays, since it is that of
// the release under way.
func (k HistoryRetention) Outdated(all []StoredHistory, now time.Time) []string {
	all = slices.SortedFunc(slices.Values(all), func(a, b StoredHistory) int {
		return cmp.Or(b.Created.Compare(a.Created.Time), cmp.Compare(b.Number, a.Number))
	})
	var out []string
	for i, h := range all {
		if i > 0 && (i >= k.Limit || k.Age > 0 && now.Sub(h.Created.Time) > k.Age) {
			out = append(out, h.Name)
		}
	}
	return out
}
