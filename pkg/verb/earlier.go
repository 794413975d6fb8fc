// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package verb

import (
	"slices"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// The status has the latest decisions, and the storage keeps earlier ones beside it.
const (
	// recent is how many decisions stay in the status, and maxRecent with how many more
	// some of them are moved.
	recent    = 20
	maxRecent = 2 * recent
	// maxEarlierBytes leaves room for the recent ones of a share. They are few, so that it has
	// maxDecisions and these.
	maxEarlierBytes = maxBytes / 3 * 2
)

// Outgrown reports whether a status has more decisions than it is to carry.
func Outgrown(s *rollouts.RolloutStatus) bool { return len(s.Decisions) > maxRecent }

// NeedsEarlier reports whether a command needs the earlier decisions: to know a repeated
// request, or whether there is room, where some could not be moved or take much. A retry needs
// them to know whether checks have aborted the release.
func (c Command) NeedsEarlier(s *rollouts.RolloutStatus) bool {
	share := shareOf(s.Decisions, rollouts.Decision{Verb: c.Verb})
	return c.Options.RequestID != "" || c.Verb == rollouts.VerbRetry || Outgrown(s) || share.bytes > maxBytes-maxEarlierBytes
}

// Movable is how many decisions of a status may be moved: the oldest of those whose outcome
// is known, which never changes.
func Movable(s *rollouts.RolloutStatus) int {
	n := max(0, len(s.Decisions)-recent)
	if open := slices.IndexFunc(s.Decisions, func(d rollouts.Decision) bool { return d.Outcome == "" }); open >= 0 {
		n = min(n, open)
	}
	return n
}

// Move moves what is movable to the earlier decisions, as far as these have room: what is
// filed in a history goes, and of the rest nothing but what a safety verb takes the room of.
// A decision that is there was moved before, and its status not stored.
func Move(s *rollouts.RolloutStatus, earlier []rollouts.Decision) (kept, left []rollouts.Decision) {
	record := *s
	record.Decisions = slices.Clone(earlier)
	n := Movable(s)
	for i, d := range s.Decisions[:n] {
		if d.ID <= lastID(record.Decisions) {
			continue
		}
		if !makeRoom(&record, room{maxDecisions, maxEarlierBytes}, d, nil) {
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
