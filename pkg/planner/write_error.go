// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// WriteError is a write that the API server rejected because of missing permissions, an exhausted quota or an
// admission webhook. Weir retries such writes.
type WriteError struct{ Reason, Message string }

// EventDenied is the reason of events about write errors.
const EventDenied = "WriteDenied"

// rewriteInterval is the minimal time between two updates of a write error whose message changes with each
// attempt, such as one with a request number.
const rewriteInterval = time.Minute

// RecordWriteError adds a write error to the conditions. It also returns whether the error is new, so that
// an event about it is due.
func RecordWriteError(all []rollouts.Condition, e WriteError, now time.Time) (updated []rollouts.Condition, isNew bool) {
	at := metav1.NewTime(now.Truncate(time.Second))
	c := rollouts.Condition{
		Type: rollouts.ConditionWritable, Status: metav1.ConditionFalse, Reason: e.Reason, Message: e.Message,
		LastUpdateTime: at, LastTransitionTime: at,
	}
	i := slices.IndexFunc(all, isWriteError)
	if i < 0 {
		return append(slices.Clone(all), c), true
	}
	previous := all[i]
	isNew = previous.Reason != e.Reason
	if !isNew && (previous.Message == e.Message || at.Sub(previous.LastUpdateTime.Time) < rewriteInterval) {
		return all, false
	}
	c.LastTransitionTime = previous.LastTransitionTime
	updated = slices.Clone(all)
	updated[i] = c
	return updated, isNew
}

// isWriteError reports whether a condition is about a write error.
func isWriteError(c rollouts.Condition) bool { return c.Type == rollouts.ConditionWritable }

// ClearWriteError removes the write error from the conditions if no write is pending. If a write is pending,
// it keeps the error and returns its message.
func ClearWriteError(all []rollouts.Condition, writesPending bool) (remaining []rollouts.Condition, message string) {
	i := slices.IndexFunc(all, isWriteError)
	switch {
	case i < 0:
		return all, ""
	case writesPending:
		return all, all[i].Message
	default:
		return slices.Delete(slices.Clone(all), i, i+1), ""
	}
}

// recordWriteError appends the message of a write error to the status message while a write is pending, and
// otherwise removes the error.
func recordWriteError(d *draft) {
	writesPending := len(d.actions) > 0 || d.Batch != nil && d.Batch.WritesPending
	var message string
	if d.status.Conditions, message = ClearWriteError(d.status.Conditions, writesPending); message != "" {
		d.cause = message
		d.status.Message += "; " + message
	}
}
