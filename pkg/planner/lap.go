// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Lap is a part of a step that is over.
type Lap struct {
	For  Wait
	Took time.Duration
}

// Laps are the parts of steps that ended between two records of a Rollout: its
// pods, its traffic, and its pause. They come from what is stored, so that each
// is told once, however often a controller starts.
func Laps(r *rollouts.Rollout, before, after []rollouts.ReleaseRecord) []Lap {
	_, release := r.Spec.Strategy.Active()
	known := map[visitKey]rollouts.StepTimes{}
	eachVisit(before, func(key visitKey, times rollouts.StepTimes) { known[key] = times })
	var laps []Lap
	eachVisit(after, func(key visitKey, times rollouts.StepTimes) {
		pause := WaitApproval
		if timed(release.Step(key.step)) {
			pause = WaitTime
		}
		laps = append(laps, lapsOf(known[key], times, pause)...)
	})
	return laps
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

// lapsOf compares the moments of a visit to a step.
func lapsOf(was, is rollouts.StepTimes, pause Wait) []Lap {
	var laps []Lap
	add := func(wait Wait, from, had, to *metav1.Time) {
		if from != nil && had == nil && to != nil {
			laps = append(laps, Lap{wait, to.Sub(from.Time)})
		}
	}
	add(WaitPods, is.EnteredTime, was.UpgradedTime, is.UpgradedTime)
	if is.PausedTime == nil {
		add(WaitTraffic, is.UpgradedTime, was.LeftTime, is.LeftTime)
		return laps
	}
	add(WaitTraffic, is.UpgradedTime, was.PausedTime, is.PausedTime)
	add(pause, is.PausedTime, was.LeftTime, is.LeftTime)
	return laps
}
