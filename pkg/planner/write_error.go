// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// WriteError is a write that the server does not want: it takes a right, room in a
// quota, or the consent of an admission webhook. It is tried again all the same.
type WriteError struct{ Reason, Message string }

// EventDenied announces a write error.
const EventDenied = "WriteDenied"

// rewriteInterval is how often at most a write error is written anew that says something
// else each time, such as the number of a request.
const rewriteInterval = time.Minute

// RecordWriteError notes a write error among conditions, and tells whether it is to be
// announced: not what is known already.
func RecordWriteError(all []rollouts.Condition, d WriteError, now time.Time) (noted []rollouts.Condition, news bool) {
	at := metav1.NewTime(now.Truncate(time.Second))
	c := rollouts.Condition{
		Type: rollouts.ConditionWritable, Status: metav1.ConditionFalse, Reason: d.Reason, Message: d.Message,
		LastUpdateTime: at, LastTransitionTime: at,
	}
	i := slices.IndexFunc(all, isWriteError)
	if i < 0 {
		return append(slices.Clone(all), c), true
	}
	was := all[i]
	news = was.Reason != d.Reason
	if !news && (was.Message == d.Message || at.Sub(was.LastUpdateTime.Time) < rewriteInterval) {
		return all, false
	}
	c.LastTransitionTime = was.LastTransitionTime
	noted = slices.Clone(all)
	noted[i] = c
	return noted, news
}

func isWriteError(c rollouts.Condition) bool { return c.Type == rollouts.ConditionWritable }

// ClearWriteError drops a write error when nothing is to be written any more, and else says it.
func ClearWriteError(all []rollouts.Condition, acts bool) (left []rollouts.Condition, says string) {
	i := slices.IndexFunc(all, isWriteError)
	switch {
	case i < 0:
		return all, ""
	case acts:
		return all, all[i].Message
	default:
		return slices.Delete(slices.Clone(all), i, i+1), ""
	}
}

// recordWriteError says which write is denied, while something is still to be written.
func recordWriteError(d *draft) {
	acts := len(d.actions) > 0 || d.Batch != nil && d.Batch.WritesPending
	var says string
	if d.status.Conditions, says = ClearWriteError(d.status.Conditions, acts); says != "" {
		d.cause = says
		d.status.Message += "; " + says
	}
}
