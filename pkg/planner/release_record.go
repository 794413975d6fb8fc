// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// The status of the Rollout has a record of each release until the RolloutHistory of the release is complete
// (histories.go). The record changes only in writes of the status that are necessary anyway.

// maxVisits is the maximal number of recorded visits to steps. If a release jumps back and forth more often,
// the oldest visits are removed.
const maxVisits = 100

// maxUnfiled is the maximal number of records while no history can be stored. maxDetailed is the maximal
// number of records that have visits to steps.
const (
	maxUnfiled  = 32
	maxDetailed = 4
)

// openRecord adds the record of a release that starts.
func openRecord(d *draft) {
	closeRecord(d, rollouts.ReleaseSuperseded)
	var lastNumber, lastDecision int64
	for _, r := range d.status.Releases {
		lastNumber = max(lastNumber, r.Number)
	}
	for _, decision := range d.status.Decisions {
		lastDecision = max(lastDecision, decision.ID)
	}
	p := d.progress()
	d.status.Releases = append(d.status.Releases, rollouts.ReleaseRecord{
		Number: lastNumber + 1, RolloutID: p.ObservedRolloutID, FirstDecision: lastDecision + 1, StartTime: d.now(),
		StableRevision: p.StableRevision, UpdateRevision: p.UpdateRevision, StableTemplate: p.StableTemplate, UpdateTemplate: p.UpdateTemplate,
	})
	n := len(d.status.Releases)
	for i := range n - maxDetailed {
		d.status.Releases[i].Steps = nil
	}
	d.status.Releases = d.status.Releases[max(0, n-maxUnfiled):]
}

// closeRecord ends the record of the current release, if there is one. A release that was aborted keeps the
// outcome Aborted.
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

// currentRecord returns the record of the current release; nil if there is none.
func currentRecord(s *rollouts.RolloutStatus) *rollouts.ReleaseRecord {
	if n := len(s.Releases); n > 0 && s.Releases[n-1].EndTime == nil {
		return &s.Releases[n-1]
	}
	return nil
}

// endVisit ends the current visit to a step, if there is one.
func endVisit(r *rollouts.ReleaseRecord, now metav1.Time) {
	if v := currentVisit(r); v != nil {
		v.LeftTime = &now
	}
}

// currentVisit returns the current visit to a step; nil if there is none.
func currentVisit(r *rollouts.ReleaseRecord) *rollouts.StepRecord {
	if n := len(r.Steps); n > 0 && r.Steps[n-1].LeftTime == nil {
		return &r.Steps[n-1]
	}
	return nil
}

// updateRecord records the progress of the release, and removes records whose histories are complete.
func updateRecord(d *draft) {
	dropStoredRecords(d)
	r := currentRecord(&d.status)
	if r == nil {
		return
	}
	if r.StableRevision == "" {
		r.StableRevision, r.StableTemplate = d.progress().StableRevision, d.progress().StableTemplate
	}
	if v := currentVisit(r); v != nil && d.upgraded { // the release may have left this step in this reconcile
		setOnce(&v.UpgradedTime, d.now())
	}
	before := r.DeepCopy()
	recordStep(d, r)
	if _, exists := d.Histories[r.Number]; exists && !equality.Semantic.DeepEqual(before, r) {
		r.Kept = true // written only together with another change of the record
	}
	switch {
	case d.isAbortingOrAborted():
		r.Outcome = rollouts.ReleaseAborted
	case d.status.Phase == rollouts.PhaseProgressing && !d.isEnding():
		r.Outcome = "" // an aborted release was retried
	}
}

// dropStoredRecords removes records whose histories are complete. The last record stays without its visits,
// because the number of the next release follows from it.
func dropStoredRecords(d *draft) {
	last := len(d.status.Releases) - 1
	var kept []rollouts.ReleaseRecord
	for i, r := range d.status.Releases {
		if !r.Filed && historyIsStored(d.facts, r) {
			r.Filed, r.Kept, r.Steps = true, true, nil
		}
		if i == last || !r.Filed {
			kept = append(kept, r)
		}
	}
	d.status.Releases = kept
}

// historyIsStored reports whether a release is over and its stored history is complete.
func historyIsStored(f facts, r rollouts.ReleaseRecord) bool {
	history, exists := f.Histories[r.Number]
	return exists && r.EndTime != nil && equalHistories(f.Rollout.Status, history, HistoryStatus(f.Rollout.Status, r))
}

// recordStep records the current step and stage of the release.
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

// podsPending reports whether the pods of the step are not ready yet.
func podsPending(p *rollouts.Progress) bool {
	return p.State == rollouts.BeforeStepUpgrade || p.State == rollouts.StepUpgrade
}

// isSameVisit reports whether v is the visit to the current step. A step whose pods are updated once more
// counts as a new visit.
func isSameVisit(v *rollouts.StepRecord, p *rollouts.Progress) bool {
	return v != nil && v.Step == p.CurrentStepIndex && (v.UpgradedTime == nil || !podsPending(p))
}

// startVisit ends the current visit and starts a visit to a step.
func startVisit(r *rollouts.ReleaseRecord, step int32, now metav1.Time) *rollouts.StepRecord {
	endVisit(r, now)
	if len(r.Steps) >= maxVisits {
		r.Steps = r.Steps[1:]
	}
	r.Steps = append(r.Steps, rollouts.StepRecord{Step: step, StepTimes: rollouts.StepTimes{EnteredTime: &now}})
	return currentVisit(r)
}

// setOnce sets a time unless it is set already.
func setOnce(at **metav1.Time, now metav1.Time) {
	if *at == nil {
		*at = &now
	}
}
