// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Denial is a write that the server does not want: it takes a right, room in a
// quota, or the consent of an admission webhook. It is tried again all the same.
type Denial struct{ Reason, Message string }

// EventDenied announces a denial.
const EventDenied = "WriteDenied"

// rewording is how often at most a denial is written anew that says something
// else each time, such as the number of a request.
const rewording = time.Minute

// Denied notes a denial among conditions, and tells whether it is to be
// announced: not what is known already.
func Denied(all []rollouts.Condition, d Denial, now time.Time) (noted []rollouts.Condition, news bool) {
	at := metav1.NewTime(now.Truncate(time.Second))
	c := rollouts.Condition{
		Type: rollouts.ConditionWritable, Status: metav1.ConditionFalse, Reason: d.Reason, Message: d.Message,
		LastUpdateTime: at, LastTransitionTime: at,
	}
	i := slices.IndexFunc(all, denial)
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

func denial(c rollouts.Condition) bool { return c.Type == rollouts.ConditionWritable }

// denialIn is the denial noted among conditions, if there is one.
func denialIn(all []rollouts.Condition) *Denial {
	i := slices.IndexFunc(all, denial)
	if i < 0 {
		return nil
	}
	return &Denial{Reason: all[i].Reason, Message: all[i].Message}
}

// heeded drops a denial when nothing is to be written any more, and else says it.
func heeded(all []rollouts.Condition, acts bool) (left []rollouts.Condition, says string) {
	i := slices.IndexFunc(all, denial)
	switch {
	case i < 0:
		return all, ""
	case acts:
		return all, all[i].Message
	default:
		return slices.Delete(slices.Clone(all), i, i+1), ""
	}
}

// heed says which write is denied, here or to the batches.
func (x *pass) heed() {
	of := &x.status.Conditions
	if x.Batch == nil || x.Batch.Denied == nil {
		var says string
		if *of, says = heeded(*of, len(x.actions) > 0); says != "" {
			x.cause = says
		}
		return
	}
	d, news := *x.Batch.Denied, false
	x.cause = d.Message
	if *of, news = Denied(*of, d, x.Now); news {
		x.warn(EventDenied, d.Message)
	}
}
