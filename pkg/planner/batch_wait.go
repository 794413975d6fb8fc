// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import "time"

// explainWaitAfter is the time after which the message of a step explains what its batch waits for, if no
// pod has a problem. An immediate explanation would cost a status write for each step.
const explainWaitAfter = 30 * time.Second

// untilWaitExplained returns the time until the message of the step must explain what the batch waits for.
func untilWaitExplained(f facts) time.Duration {
	since := f.progress().LastUpdateTime
	if since == nil || IsAhead(since, f.Now) || !f.stageUnchanged() {
		return explainWaitAfter
	}
	return f.until(since.Add(explainWaitAfter))
}

// batchWaitReason returns the explanation of what a batch waits for; empty if none is known. The text has
// no counts, so that the status is not written for each pod.
func batchWaitReason(f facts) string {
	w, desired := f.w, plannedUpdatedReplicas(f)
	switch {
	case !w.Settled:
		return "the native controller has not acted on the latest change of the workload yet"
	case w.AvailableLater != "":
		return w.AvailableLater
	case w.UpdatedReplicas < desired:
		return "not all new pods are created yet"
	case w.UpdatedReadyReplicas < desired:
		return "not all new pods are ready yet"
	case w.HasSurplusPods, f.replacesPods() && w.StableReplicas > w.Replicas-desired:
		return "old pods are still running"
	default:
		return ""
	}
}
