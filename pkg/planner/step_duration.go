// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// StepDuration is the duration of a part of a step that is over.
type StepDuration struct {
	Part     Wait
	Duration time.Duration
}

// StepDurations returns the durations of the parts of steps (pods, traffic and pause) that ended between
// two versions of the records of a Rollout. Because both versions are stored, each duration is reported
// once, even if the controller restarts.
func StepDurations(r *rollouts.Rollout, before, after []rollouts.ReleaseRecord) []StepDuration {
	_, release := r.Spec.Strategy.Active()
	previous := map[visitKey]rollouts.StepTimes{}
	forEachVisit(before, func(key visitKey, times rollouts.StepTimes) { previous[key] = times })
	var durations []StepDuration
	forEachVisit(after, func(key visitKey, times rollouts.StepTimes) {
		pause := WaitApproval
		if hasTimedPause(release.Step(key.step)) {
			pause = WaitTime
		}
		durations = append(durations, stepDurationsOf(previous[key], times, pause)...)
	})
	return durations
}

// visitKey identifies a visit to a step.
type visitKey struct {
	release int64
	step    int32
	entered int64
}

// forEachVisit calls visit for each visit to a step.
func forEachVisit(releases []rollouts.ReleaseRecord, visit func(visitKey, rollouts.StepTimes)) {
	for _, r := range releases {
		for _, v := range r.Steps {
			if v.EnteredTime != nil {
				visit(visitKey{r.Number, v.Step, v.EnteredTime.Unix()}, v.StepTimes)
			}
		}
	}
}

// stepDurationsOf returns the durations of the parts of one visit that ended between before and after.
func stepDurationsOf(before, after rollouts.StepTimes, pause Wait) []StepDuration {
	var durations []StepDuration
	add := func(wait Wait, start, endBefore, end *metav1.Time) {
		if start != nil && endBefore == nil && end != nil {
			durations = append(durations, StepDuration{wait, end.Sub(start.Time)})
		}
	}
	add(WaitPods, after.EnteredTime, before.UpgradedTime, after.UpgradedTime)
	if after.PausedTime == nil {
		add(WaitTraffic, after.UpgradedTime, before.LeftTime, after.LeftTime)
		return durations
	}
	add(WaitTraffic, after.UpgradedTime, before.PausedTime, after.PausedTime)
	add(pause, after.PausedTime, before.LeftTime, after.LeftTime)
	return durations
}
