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

// rewording is how often at most a write error is written anew that says something
// else each time, such as the number of a request.
const rewording = time.Minute

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
	if !news && (was.Message == d.Message || at.Sub(was.LastUpdateTime.Time) < rewording) {
		return all, false
	}
	c.LastTransitionTime = was.LastTransitionTime
	noted = slices.Clone(all)
	noted[i] = c
	return noted, news
}

func isWriteError(c rollouts.Condition) bool { return c.Type == rollouts.ConditionWritable }

// writeErrorIn is the write error noted among conditions, if there is one.
func writeErrorIn(all []rollouts.Condition) *WriteError {
	i := slices.IndexFunc(all, isWriteError)
	if i < 0 {
		return nil
	}
	return &WriteError{Reason: all[i].Reason, Message: all[i].Message}
}

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

// recordWriteError says which write is denied, here or to the batches.
func recordWriteError(d *draft) {
	of := &d.status.Conditions
	if d.Batch == nil || d.Batch.WriteError == nil {
		var says string
		if *of, says = ClearWriteError(*of, len(d.actions) > 0); says != "" {
			d.cause = says
		}
		return
	}
	denied, news := *d.Batch.WriteError, false
	d.cause = denied.Message
	if *of, news = RecordWriteError(*of, denied, d.Now); news {
		d.warn(EventDenied, denied.Message)
	}
}
