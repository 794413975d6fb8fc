// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// The record of releases. It grows in the status of the Rollout, with writes
// that are made anyway, and is filed in a RolloutHistory (histories.go).

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
func openRecord(d *draft) {
	closeRecord(d, rollouts.ReleaseSuperseded)
	var number, decision int64
	for _, r := range d.status.Releases {
		number = max(number, r.Number)
	}
	for _, of := range d.status.Decisions {
		decision = max(decision, of.ID)
	}
	p := d.progress()
	d.status.Releases = append(d.status.Releases, rollouts.ReleaseRecord{
		Number: number + 1, RolloutID: p.ObservedRolloutID, FirstDecision: decision + 1, StartTime: d.now(),
		StableRevision: p.StableRevision, UpdateRevision: p.UpdateRevision, StableTemplate: p.StableTemplate, UpdateTemplate: p.UpdateTemplate,
	})
	n := len(d.status.Releases)
	for i := range n - maxDetailed {
		d.status.Releases[i].Steps = nil
	}
	d.status.Releases = d.status.Releases[max(0, n-maxUnfiled):]
}

// closeRecord ends the record of the release under way, if there is one. An
// aborted release stays one, whatever comes after.
func closeRecord(d *draft, outcome rollouts.ReleaseOutcome) {
	r := currentRecord(&d.status)
	if r == nil {
		return
	}
	if r.Outcome == "" {
		r.Outcome = outcome
	}
	now := d.now()
	r.EndTime = &now
	endVisit(r, now)
}

// currentRecord is that of the release under way, or nil.
func currentRecord(s *rollouts.RolloutStatus) *rollouts.ReleaseRecord {
	if n := len(s.Releases); n > 0 && s.Releases[n-1].EndTime == nil {
		return &s.Releases[n-1]
	}
	return nil
}

// endVisit ends the last visit to a step.
func endVisit(r *rollouts.ReleaseRecord, now metav1.Time) {
	if v := currentVisit(r); v != nil {
		v.LeftTime = &now
	}
}

// currentVisit is the visit to a step under way, or nil.
func currentVisit(r *rollouts.ReleaseRecord) *rollouts.StepRecord {
	if n := len(r.Steps); n > 0 && r.Steps[n-1].LeftTime == nil {
		return &r.Steps[n-1]
	}
	return nil
}

// updateRecord notes what this pass has made of the release, and forgets what is
// filed.
func updateRecord(d *draft) {
	dropStoredRecords(d)
	r := currentRecord(&d.status)
	if r == nil {
		return
	}
	if r.StableRevision == "" {
		r.StableRevision, r.StableTemplate = d.progress().StableRevision, d.progress().StableTemplate
	}
	recordUpgraded(d, r)
	before := r.DeepCopy()
	recordStep(d, r)
	if _, exists := d.Histories[r.Number]; exists && !equality.Semantic.DeepEqual(before, r) {
		r.Kept = true // not worth a write of its own
	}
	switch {
	case d.isAborted():
		r.Outcome = rollouts.ReleaseAborted
	case d.status.Phase == rollouts.PhaseProgressing && !d.isEnding():
		r.Outcome = "" // it was tried again
	}
}

// dropStoredRecords drops what is filed. The last release stays, without its steps:
// it numbers the next.
func dropStoredRecords(d *draft) {
	last := len(d.status.Releases) - 1
	var left []rollouts.ReleaseRecord
	for i, r := range d.status.Releases {
		if !r.Filed && historyIsStored(d.facts, r) {
			r.Filed, r.Kept, r.Steps = true, true, nil
		}
		if i == last || !r.Filed {
			left = append(left, r)
		}
	}
	d.status.Releases = left
}

// historyIsStored reports whether a release is over and its history says all of it.
func historyIsStored(f *facts, r rollouts.ReleaseRecord) bool {
	have, exists := f.Histories[r.Number]
	return exists && r.EndTime != nil && equalHistories(f.Rollout.Status, have, HistoryStatus(f.Rollout.Status, r))
}

// recordUpgraded notes that the pods of a step are there, which the pass may have left by now.
func recordUpgraded(d *draft, r *rollouts.ReleaseRecord) {
	if v := currentVisit(r); v != nil && d.upgraded {
		setOnce(&v.UpgradedTime, d.now())
	}
}

// recordStep notes where the release is.
func recordStep(d *draft, r *rollouts.ReleaseRecord) {
	now, v := d.now(), currentVisit(r)
	if d.status.Phase != rollouts.PhaseProgressing || !d.isDoing(rollouts.ActivityInRolling, rollouts.ActivityPaused) {
		endVisit(r, now)
		return
	}
	p := d.progress()
	if !isSameVisit(v, p) {
		v = startVisit(r, p.CurrentStepIndex, now)
	}
	if !podsPending(p) {
		setOnce(&v.UpgradedTime, now)
	}
	if p.State == rollouts.StepPaused {
		setOnce(&v.PausedTime, now)
	}
}

// podsPending reports whether the pods of the step are not there yet.
func podsPending(p *rollouts.Progress) bool {
	return p.State == rollouts.BeforeStepUpgrade || p.State == rollouts.StepUpgrade
}

// isSameVisit reports whether the visit is to where the release is: to this step, and not
// one that was upgraded before and is upgraded again.
func isSameVisit(v *rollouts.StepRecord, p *rollouts.Progress) bool {
	return v != nil && v.Step == p.CurrentStepIndex && (v.UpgradedTime == nil || !podsPending(p))
}

// startVisit begins a visit to a step.
func startVisit(r *rollouts.ReleaseRecord, step int32, now metav1.Time) *rollouts.StepRecord {
	endVisit(r, now)
	if len(r.Steps) >= maxVisits {
		r.Steps = r.Steps[1:]
	}
	r.Steps = append(r.Steps, rollouts.StepRecord{Step: step, StepTimes: rollouts.StepTimes{EnteredTime: &now}})
	return currentVisit(r)
}

// setOnce keeps the first time that something was so.
func setOnce(at **metav1.Time, now metav1.Time) {
	if *at == nil {
		*at = &now
	}
}
