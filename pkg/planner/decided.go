// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// AbortedBy names the user whose decision ended the release, which may have been a rollback.
func AbortedBy(r *rollouts.Rollout) string {
	return DecidedBy(r, func(d rollouts.Decision) bool {
		return d.Verb == rollouts.VerbAbort || d.Verb == rollouts.VerbRollback
	})
}

// PausedBy names the user who paused the release.
func PausedBy(r *rollouts.Rollout) string {
	return DecidedBy(r, func(d rollouts.Decision) bool { return d.Verb == rollouts.VerbPause && d.IsAbout(r.Status.Active()) })
}

// DecidedBy names the author of the latest decision that matches; of the checks it says why.
func DecidedBy(r *rollouts.Rollout, match func(rollouts.Decision) bool) string {
	for _, d := range slices.Backward(r.Status.Decisions) {
		switch {
		case !match(d):
		case d.Via == rollouts.ViaAnalysis:
			return " by its checks: " + d.Reason
		default:
			return " by " + d.User
		}
	}
	return ""
}

// PausedMessage is the same for both ways of pausing.
const PausedMessage = "Rollout has been paused, you can resume it by kube-cli"

// RoundUp is a time as the wire keeps it, to the second, and never earlier.
func RoundUp(t time.Time) metav1.Time {
	whole := t.Truncate(time.Second)
	if whole.Before(t) {
		whole = whole.Add(time.Second)
	}
	return metav1.NewTime(whole)
}
