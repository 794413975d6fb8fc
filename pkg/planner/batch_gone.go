// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// EventBatchRecreated announces that the BatchRelease of a step that waits was deleted.
const EventBatchRecreated = "BatchReleaseMadeAgain"

// batchGone reports whether somebody deleted the BatchRelease of a step whose pods are
// there: nobody keeps their sizes. Another plan, or another template, has it made as
// that wants it. A blue-green release refuses other templates only while it is there.
func batchGone(f *facts) bool {
	if f.Batch != nil || f.isAborted() || f.isEnding() || !HoldsWorkload(f.Rollout) || planChanged(f) {
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

// recreateBatchRelease makes it again from what the Rollout knows, before anything moves.
func recreateBatchRelease(d *draft) {
	d.act(RunBatch{Plan: planForStep(d.facts, d.progress().CurrentStepIndex)})
	d.warn(EventBatchRecreated, fmt.Sprintf("somebody deleted the BatchRelease of step(%d); it was made again, and goes no further than that step", d.progress().CurrentStepIndex))
}
