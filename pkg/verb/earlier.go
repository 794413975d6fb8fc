// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package verb

import (
	"slices"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// The status has the latest decisions. The storage keeps earlier decisions in separate records.
const (
	// recentDecisions is how many decisions stay in the status when others are moved.
	recentDecisions = 20
	// maxDecisionsInStatus is how many decisions the status may have before some are moved.
	maxDecisionsInStatus = 2 * recentDecisions
	// maxEarlierBytes is the size limit of the earlier decisions of a share. It leaves room for the recent ones.
	// The number of earlier decisions is limited to maxDecisions; the recent ones come on top.
	maxEarlierBytes = maxBytes / 3 * 2
)

// HasTooManyDecisions reports whether decisions of the status have to be moved.
func HasTooManyDecisions(s *rollouts.RolloutStatus) bool {
	return len(s.Decisions) > maxDecisionsInStatus
}

// NeedsEarlier reports whether a command needs the earlier decisions: to find a repeated request or, if the status
// has many or large decisions, to know whether the share has room.
func (c Command) NeedsEarlier(s *rollouts.RolloutStatus) bool {
	share := usageOfShare(s.Decisions, rollouts.Decision{Verb: c.Verb})
	return c.Options.RequestID != "" || HasTooManyDecisions(s) || share.bytes > maxBytes-maxEarlierBytes
}

// CountMovable returns how many of the oldest decisions of a status may be moved. It moves only decisions
// that cannot change any more: the first decision without an outcome stays, and so do all later ones.
func CountMovable(s *rollouts.RolloutStatus) int {
	n := max(0, len(s.Decisions)-recentDecisions)
	if open := slices.IndexFunc(s.Decisions, func(d rollouts.Decision) bool { return d.Outcome == "" }); open >= 0 {
		n = min(n, open)
	}
	return n
}

// MoveDecisions moves the movable decisions of a status to the earlier decisions, as far as these have room. To make
// room it removes earlier decisions that are in a RolloutHistory and, for a safety verb, other safety verbs. A
// decision may be among the earlier ones already: it was moved, but then the status could not be stored.
func MoveDecisions(s *rollouts.RolloutStatus, earlier []rollouts.Decision) (kept, left []rollouts.Decision) {
	record := *s
	record.Decisions = slices.Clone(earlier)
	n := CountMovable(s)
	for i, d := range s.Decisions[:n] {
		if d.ID <= lastID(record.Decisions) {
			continue
		}
		if !makeRoom(&record, capacity{maxDecisions, maxEarlierBytes}, d, nil) {
			return record.Decisions, s.Decisions[i:]
		}
		record.Decisions = append(record.Decisions, d)
	}
	return record.Decisions, s.Decisions[n:]
}

func lastID(all []rollouts.Decision) (last int64) {
	for i := range all {
		last = max(last, all[i].ID)
	}
	return last
}
