// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// EventBatchRecreated is the reason of the event that somebody deleted the BatchRelease of a step, and Weir
// created it again.
const EventBatchRecreated = "BatchReleaseMadeAgain"

// batchGone reports whether somebody deleted the BatchRelease of a step whose pods are already running. Without
// the BatchRelease, the pods do not follow a change of the workload's size. If the plan or the template has
// changed, another case of Decide creates the BatchRelease with the new plan. Only a blue-green release
// recreates the BatchRelease first: it refuses another template only while a BatchRelease exists.
func batchGone(f facts) bool {
	if f.Batch != nil || f.isAbortingOrAborted() || f.isEnding() || !HoldsWorkload(f.Rollout) || planChanged(f) {
		return false
	}
	if superseded(f) && f.style != rollouts.StyleBlueGreen {
		return false
	}
	switch f.progress().State {
	case rollouts.StepTrafficRouting, rollouts.StepMetricsAnalysis, rollouts.StepPaused, rollouts.StepReady:
		return f.progress().FinalisingStep == ""
	default:
		return false
	}
}

// recreateBatchRelease creates the BatchRelease again with the plan of the current step, before the release
// continues.
func recreateBatchRelease(d *draft) {
	d.act(RunBatch{Plan: planForStep(d.facts, d.progress().CurrentStepIndex)})
	d.warn(EventBatchRecreated, fmt.Sprintf("a user deleted the BatchRelease of step(%d); Weir created it again, up to that step", d.progress().CurrentStepIndex))
}
