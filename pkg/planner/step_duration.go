// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// StepDuration is a part of a step that is over.
type StepDuration struct {
	For  Wait
	Took time.Duration
}

// StepDurations are the parts of steps that ended between two records of a Rollout: its
// pods, its traffic, and its pause. They come from what is stored, so that each
// is told once, however often a controller starts.
func StepDurations(r *rollouts.Rollout, before, after []rollouts.ReleaseRecord) []StepDuration {
	_, release := r.Spec.Strategy.Active()
	known := map[visitKey]rollouts.StepTimes{}
	eachVisit(before, func(key visitKey, times rollouts.StepTimes) { known[key] = times })
	var durations []StepDuration
	eachVisit(after, func(key visitKey, times rollouts.StepTimes) {
		pause := WaitApproval
		if hasTimedPause(release.Step(key.step)) {
			pause = WaitTime
		}
		durations = append(durations, stepDurationsOf(known[key], times, pause)...)
	})
	return durations
}

// visitKey identifies a visit to a step.
type visitKey struct {
	release int64
	step    int32
	entered int64
}

func eachVisit(releases []rollouts.ReleaseRecord, do func(visitKey, rollouts.StepTimes)) {
	for _, r := range releases {
		for _, v := range r.Steps {
			if v.EnteredTime != nil {
				do(visitKey{r.Number, v.Step, v.EnteredTime.Unix()}, v.StepTimes)
			}
		}
	}
}

// stepDurationsOf compares the moments of a visit to a step.
func stepDurationsOf(was, is rollouts.StepTimes, pause Wait) []StepDuration {
	var durations []StepDuration
	add := func(wait Wait, from, had, to *metav1.Time) {
		if from != nil && had == nil && to != nil {
			durations = append(durations, StepDuration{wait, to.Sub(from.Time)})
		}
	}
	add(WaitPods, is.EnteredTime, was.UpgradedTime, is.UpgradedTime)
	if is.PausedTime == nil {
		add(WaitTraffic, is.UpgradedTime, was.LeftTime, is.LeftTime)
		return durations
	}
	add(WaitTraffic, is.UpgradedTime, was.PausedTime, is.PausedTime)
	add(pause, is.PausedTime, was.LeftTime, is.LeftTime)
	return durations
}
