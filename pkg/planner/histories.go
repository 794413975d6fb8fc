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

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Each release has a RolloutHistory. It is created when the release starts, so that it has the stable
// template that the release replaces. It gets its status when the release is over. Which histories have to
// be stored follows from the stored status of the Rollout only.

// HistoryEntry is a RolloutHistory to be stored.
type HistoryEntry struct {
	Release rollouts.ReleaseRecord
	// Status is nil if only the object has to be created.
	Status *rollouts.RolloutHistoryStatus
	// Observed is the status that the pass has read; nil if the pass has not read the history. A pass does
	// not read a history that was not due before the pass.
	Observed *rollouts.RolloutHistoryStatus
	// DecisionsBefore is greater than the IDs of all decisions of the release that are no longer in the status of
	// the Rollout; 0 if there are none. A list request returns these decisions.
	DecisionsBefore int64
}

// MayReplace reports whether Status may replace the stored status. Scenario: a leader was frozen after an abort,
// and another leader completed the release and its history. The former leader must not replace that history,
// because some of its decisions may no longer be in the Rollout.
func (e HistoryEntry) MayReplace(stored rollouts.RolloutHistoryStatus) bool {
	if e.Observed == nil {
		return stored.EndTime == nil
	}
	return equality.Semantic.DeepEqual(*e.Observed, stored)
}

// ReleasesWithoutHistory returns the releases whose history is not stored yet, or is incomplete.
func ReleasesWithoutHistory(s rollouts.RolloutStatus) []rollouts.ReleaseRecord {
	var out []rollouts.ReleaseRecord
	for _, r := range s.Releases {
		if !r.Filed && (!r.Kept || historyIsDue(s, r)) {
			out = append(out, r)
		}
	}
	return out
}

// HistoriesToStore returns the histories to be stored. The argument stored has the statuses of the
// existing histories, by the number of the release.
func HistoriesToStore(s rollouts.RolloutStatus, stored map[int64]rollouts.RolloutHistoryStatus) []HistoryEntry {
	var out []HistoryEntry
	for _, r := range ReleasesWithoutHistory(s) {
		previous, exists := stored[r.Number]
		entry := HistoryEntry{Release: r}
		if exists {
			entry.Observed = &previous
		}
		if historyIsDue(s, r) {
			status := HistoryStatus(s, r)
			if exists && equalHistories(s, previous, status) {
				continue
			}
			entry.Status, entry.DecisionsBefore = &status, missingDecisionsBefore(s, r)
		} else if exists {
			continue
		}
		out = append(out, entry)
	}
	return out
}

// historyIsDue reports whether the history of a release should have a status: the release is over, or it is
// aborted and waits for a user, which may take long.
func historyIsDue(s rollouts.RolloutStatus, r rollouts.ReleaseRecord) bool {
	if r.EndTime != nil {
		return true
	}
	p := s.Active()
	return r.Outcome == rollouts.ReleaseAborted && s.Phase == rollouts.PhaseProgressing &&
		s.Activity() == rollouts.ActivityAborted && p != nil && !p.RollingBack
}

// HistoryStatus returns the status of the history of a release.
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

// nextDecision returns the lowest ID that a decision of the next release can have; a very high ID if there is no
// next release.
func nextDecision(s rollouts.RolloutStatus, r rollouts.ReleaseRecord) int64 {
	for _, later := range s.Releases {
		if later.Number > r.Number {
			return later.FirstDecision
		}
	}
	return 1 << 62
}

// missingDecisionsBefore returns an ID greater than those of all decisions of a release that are no longer in
// the status; 0 if there are none.
func missingDecisionsBefore(s rollouts.RolloutStatus, r rollouts.ReleaseRecord) int64 {
	if first := firstDecision(s); first > max(1, r.FirstDecision) {
		return min(first, nextDecision(s, r))
	}
	return 0
}

// firstDecision returns the ID of the first decision in the status; 0 if there is none.
func firstDecision(s rollouts.RolloutStatus) int64 {
	if len(s.Decisions) == 0 {
		return 0
	}
	return s.Decisions[0].ID
}

// equalHistories compares two statuses of the history of a release. It ignores decisions that are no longer
// in the status of the Rollout, because they do not change.
func equalHistories(s rollouts.RolloutStatus, a, b rollouts.RolloutHistoryStatus) bool {
	first := firstDecision(s)
	a.Decisions = slices.DeleteFunc(slices.Clone(a.Decisions), func(d rollouts.Decision) bool { return d.ID < first })
	return a.Phase == b.Phase && a.Outcome == b.Outcome && a.EndTime.Equal(b.EndTime) &&
		slices.EqualFunc(a.Decisions, b.Decisions, func(a, b rollouts.Decision) bool { return a.ID == b.ID && a.Outcome == b.Outcome }) &&
		slices.EqualFunc(a.CanarySteps, b.CanarySteps, func(a, b rollouts.HistoryStep) bool {
			return a.CanaryStepIndex == b.CanaryStepIndex && a.EnteredTime.Equal(b.EnteredTime) && a.LeftTime.Equal(b.LeftTime)
		})
}

// HistoryName returns the name of the history of a release. It is always the same, so that a history is
// created only once, even if the controller restarts in between.
func HistoryName(r *rollouts.Rollout, number int64) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", r.UID, number))
	return truncateName(r.Name, 240) + "-" + hex.EncodeToString(sum[:])[:10]
}

// HistoryLabels returns the labels of the history of a release. They contain the truncated name of the
// Rollout, because a label value is shorter than a name may be.
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

// HistoryLabel returns the value of the label that names a Rollout.
func HistoryLabel(rollout string) string { return truncateName(rollout, 63) }

// truncateName truncates a name to the limit. A truncated name ends with a hash, which makes it unique.
func truncateName(name string, limit int) string {
	if len(name) <= limit {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return name[:limit-9] + "x" + hex.EncodeToString(sum[:])[:8]
}

// HistoryRetention limits the histories of a Rollout.
type HistoryRetention struct {
	// Limit is the maximal number of histories.
	Limit int
	// Age is the maximal age of a history; zero if there is no maximum.
	Age time.Duration
}

// StoredHistory is the identity and the creation time of a RolloutHistory.
type StoredHistory struct {
	Name    string
	Number  int64
	Created metav1.Time
}

// Outdated returns the names of the histories to delete. The newest history always stays, because it
// belongs to the current release.
func (r HistoryRetention) Outdated(all []StoredHistory, now time.Time) []string {
	all = slices.SortedFunc(slices.Values(all), func(a, b StoredHistory) int {
		return cmp.Or(b.Created.Compare(a.Created.Time), cmp.Compare(b.Number, a.Number))
	})
	var out []string
	for i, h := range all {
		if i > 0 && (i >= r.Limit || r.Age > 0 && now.Sub(h.Created.Time) > r.Age) {
			out = append(out, h.Name)
		}
	}
	return out
}
