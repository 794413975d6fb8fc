// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// A release fails if it makes no progress for a known cause that does not go away by waiting, such as an image that
// cannot be pulled. The condition Failing shows the cause and the fix at once, long before the progress deadline passes.
// It decides nothing: the release continues as soon as the cause is gone.

// EventFailing is the reason of the event about a release that begins to fail.
const EventFailing = "ReleaseFailing"

// failure is a known cause for which a release makes no progress.
type failure struct {
	reason rollouts.FailingReason
	// message has the cause and, behind a semicolon, what the user can do.
	message string
	// announced reports whether another event has announced the cause.
	announced bool
}

// failingFixes are the fixes of causes, each as the beginning of a sentence that continues with what else the
// user can do.
var failingFixes = map[rollouts.FailingReason]string{
	rollouts.FailingImagePull:     "check the name of the image, its tag and the pull secrets",
	rollouts.FailingCrashing:      "see the logs of the pods",
	rollouts.FailingNotStarted:    "create what the container needs (the events of the pod name it)",
	rollouts.FailingPodsRefused:   "raise the quota, or change what refuses the pods",
	rollouts.FailingObjectMissing: "create it",
	rollouts.FailingWriteRefused:  "allow the write (the message names the webhook, the quota or the permission)",
}

// reportFailing sets the condition Failing while the release fails, and removes it otherwise.
func reportFailing(d *draft) {
	found := findFailure(d.facts)
	if found.reason == "" {
		d.status.RemoveCondition(rollouts.ConditionFailing)
		return
	}
	if stored := d.status.Failing(); !found.announced && (stored == nil || stored.Reason != string(found.reason)) {
		d.warn(EventFailing, found.message)
	}
	d.setCondition(rollouts.ConditionFailing, metav1.ConditionTrue, string(found.reason), found.message)
}

// findFailure returns the cause for which the release makes no progress. The result is empty if no cause is known,
// or if the release waits for a person.
func findFailure(f facts) failure {
	if refused := f.status.Condition(rollouts.ConditionWritable); refused != nil && refused.Status == metav1.ConditionFalse {
		return failure{reason: rollouts.FailingWriteRefused, message: withFix(f, rollouts.FailingWriteRefused, refused.Message), announced: true}
	}
	if f.status.Active() == nil || !deadlineRuns(f) {
		return failure{}
	}
	if missing := missingReference(f); missing != "" && f.isDoing(rollouts.ActivityInitializing, rollouts.ActivityInRolling) {
		return failure{reason: rollouts.FailingObjectMissing, message: withFix(f, rollouts.FailingObjectMissing, missing+" does not exist")}
	}
	if blocked := f.status.Condition(rollouts.ConditionRoutable); blocked != nil && blocked.Status == metav1.ConditionFalse && blocked.Reason != reasonUndone {
		return failure{reason: rollouts.FailingRouteBlocked, message: blocked.Message, announced: true}
	}
	if f.Batch == nil || f.BatchInput == nil || f.Batch.Message != f.BatchInput.PodProblem.Message {
		return failure{} // the batch waits for something other than these pods
	}
	problem := f.BatchInput.PodProblem
	return failure{reason: problem.Failing, message: withFix(f, problem.Failing, problem.Message)}
}

// withFix appends to a cause what the user can do about it.
func withFix(f facts, reason rollouts.FailingReason, cause string) string {
	return strings.TrimSuffix(cause, ".") + "; " + helpWith(f, failingFixes[reason])
}
