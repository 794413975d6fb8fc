// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// The record of releases. It grows in the status of the Rollout, with writes
// that are made anyway, and is filed in a RolloutHistory (history.go).

// maxVisits bounds the visits to steps on record; a release that jumps back and
// forth loses the oldest.
const maxVisits = 100

// maxUnfiled bounds the releases on record while no history of theirs can be
// stored, and maxDetailed those of them that keep their visits to steps.
const (
	maxUnfiled  = 32
	maxDetailed = 4
)

// openRecord begins the record of a release that starts.
func (x *pass) openRecord() {
	x.closeRecord(rollouts.ReleaseSuperseded)
	var number, decision int64
	for _, r := range x.status.Releases {
		number = max(number, r.Number)
	}
	for _, d := range x.status.Decisions {
		decision = max(decision, d.ID)
	}
	p := x.progress()
	x.status.Releases = append(x.status.Releases, rollouts.ReleaseRecord{
		Number: number + 1, RolloutID: p.ObservedRolloutID, FirstDecision: decision + 1, StartTime: x.now(),
		StableRevision: p.StableRevision, UpdateRevision: p.UpdateRevision,
	})
	n := len(x.status.Releases)
	for i := range n - maxDetailed {
		x.status.Releases[i].Steps = nil
	}
	x.status.Releases = x.status.Releases[max(0, n-maxUnfiled):]
}

// closeRecord ends the record of the release under way, if there is one. An
// aborted release stays one, whatever comes after.
func (x *pass) closeRecord(outcome rollouts.ReleaseOutcome) {
	r := x.record()
	if r == nil {
		return
	}
	if r.Outcome == "" {
		r.Outcome = outcome
	}
	now := x.now()
	r.EndTime = &now
	leave(r, now)
}

// record is that of the release under way, or nil.
func (x *pass) record() *rollouts.ReleaseRecord {
	if n := len(x.status.Releases); n > 0 && x.status.Releases[n-1].EndTime == nil {
		return &x.status.Releases[n-1]
	}
	return nil
}

// leave ends the last visit to a step.
func leave(r *rollouts.ReleaseRecord, now metav1.Time) {
	if v := visit(r); v != nil {
		v.LeftTime = &now
	}
}

// visit is the visit to a step under way, or nil.
func visit(r *rollouts.ReleaseRecord) *rollouts.StepRecord {
	if n := len(r.Steps); n > 0 && r.Steps[n-1].LeftTime == nil {
		return &r.Steps[n-1]
	}
	return nil
}

// keepRecord notes what this pass has made of the release, and forgets what is
// filed.
func (x *pass) keepRecord() {
	x.forgetFiled()
	r := x.record()
	if r == nil {
		return
	}
	if r.StableRevision == "" {
		r.StableRevision = x.progress().StableRevision
	}
	if _, exists := x.Histories[r.Number]; x.noteStep(r) && exists {
		r.Kept = true // not worth a write of its own
	}
	switch {
	case x.aborted():
		r.Outcome = rollouts.ReleaseAborted
	case x.status.Phase == rollouts.PhaseProgressing && !x.ending():
		r.Outcome = "" // it was tried again
	}
}

// forgetFiled drops what is filed. The last release stays, without its steps:
// it numbers the next.
func (x *pass) forgetFiled() {
	last := len(x.status.Releases) - 1
	var kept []rollouts.ReleaseRecord
	for i, r := range x.status.Releases {
		if !r.Filed && x.isFiled(r) {
			r.Filed, r.Kept, r.Steps = true, true, nil
		}
		if i == last || !r.Filed {
			kept = append(kept, r)
		}
	}
	x.status.Releases = kept
}

// isFiled reports whether a release is over and its history says all of it.
func (x *pass) isFiled(r rollouts.ReleaseRecord) bool {
	have, exists := x.Histories[r.Number]
	return exists && r.EndTime != nil && sameHistory(have, HistoryStatus(x.Rollout.Status, r))
}

// noteStep notes where the release is, and tells whether that is new.
func (x *pass) noteStep(r *rollouts.ReleaseRecord) bool {
	now, v := x.now(), visit(r)
	if v != nil && x.announced("StepUpgraded") {
		note(&v.UpgradedTime, now)
	}
	if x.status.Phase != rollouts.PhaseProgressing || !x.doing(rollouts.ActivityInRolling, rollouts.ActivityPaused) {
		leave(r, now)
		return v != nil
	}
	p := x.progress()
	fresh := !visits(v, p)
	if fresh {
		v = enter(r, p.CurrentStepIndex, now)
	}
	if !upgrading(p) {
		fresh = note(&v.UpgradedTime, now) || fresh
	}
	if p.State == rollouts.StepPaused {
		fresh = note(&v.PausedTime, now) || fresh
	}
	return fresh
}

// upgrading reports whether the pods of the step are not there yet.
func upgrading(p *rollouts.Progress) bool {
	return p.State == rollouts.BeforeStepUpgrade || p.State == rollouts.StepUpgrade
}

// visits reports whether the visit is to where the release is: to this step, and not
// one that was upgraded before and is upgraded again.
func visits(v *rollouts.StepRecord, p *rollouts.Progress) bool {
	return v != nil && v.Step == p.CurrentStepIndex && (v.UpgradedTime == nil || !upgrading(p))
}

// enter begins a visit to a step.
func enter(r *rollouts.ReleaseRecord, step int32, now metav1.Time) *rollouts.StepRecord {
	leave(r, now)
	if len(r.Steps) >= maxVisits {
		r.Steps = r.Steps[1:]
	}
	r.Steps = append(r.Steps, rollouts.StepRecord{Step: step, StepTimes: rollouts.StepTimes{EnteredTime: &now}})
	return visit(r)
}

// note keeps the first time that something was so, and tells whether this is it.
func note(at **metav1.Time, now metav1.Time) bool {
	if *at != nil {
		return false
	}
	*at = &now
	return true
}

func (x *pass) announced(reason string) bool {
	return slices.ContainsFunc(x.events, func(e Event) bool { return e.Reason == reason })
}
