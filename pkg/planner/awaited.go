// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import "time"

// sayAfter is how long a batch waits before its step says what for, where no pod is in trouble.
// To say it at once would cost a write for each step.
const sayAfter = 30 * time.Second

// untilSaid is how long it is until the step says what its batch waits for.
func untilSaid(f *facts) time.Duration {
	since := f.progress().LastUpdateTime
	if since == nil || Ahead(since, f.Now) || !f.stayed() {
		return sayAfter
	}
	return f.until(since.Add(sayAfter))
}

// awaited says what a batch waits for, in words that do not change with each pod; empty if
// nothing is known.
func awaited(f *facts) string {
	w, desired := f.w, given(f)
	switch {
	case !w.Settled:
		return "the native controller has not acted on the latest change of the workload yet"
	case w.AvailableLater != "":
		return w.AvailableLater
	case w.UpdatedReplicas < desired:
		return "not all new pods are created yet"
	case w.UpdatedReadyReplicas < desired:
		return "not all new pods are ready yet"
	case w.Shrinks, f.replaces() && w.StableReplicas > w.Replicas-desired:
		return "old pods are still to go"
	default:
		return ""
	}
}
