// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// The revision of the live template is the name of the ControllerRevision that stores the template. A
// user may delete this ControllerRevision during a release. The native controller creates it again in its
// next reconcile, but the controller of StatefulSets reconciles only when the StatefulSet or one of its
// pods has changed.

// RequeueWorkload writes an annotation with the time At to the workload, so that the native controller
// reconciles the workload. At is rounded down to requeueInterval, which limits the number of writes.
type RequeueWorkload struct{ At string }

func (RequeueWorkload) effect()        {}
func (RequeueWorkload) String() string { return "have the native controller look at the workload" }

// requeueInterval is the minimal time between two requests to reconcile the workload.
const requeueInterval = time.Minute

// revisionUnknown reports whether the native controller has not named the revision of the live template
// yet. The template is new and held, or its ControllerRevision was deleted.
func revisionUnknown(f facts) bool { return f.Unsupported == "" && f.w.UpdateRevision == "" }

// awaitRevision waits for the revision name of a workload. During a release, it asks the native controller
// to reconcile the workload.
func awaitRevision(d *draft) {
	if d.status.Phase == rollouts.PhaseProgressing {
		requeueWorkload(d)
	}
}

// requeueWorkload asks the native controller to reconcile the workload, and sets the cause of the wait.
func requeueWorkload(d *draft) {
	if !d.w.Settled {
		return
	}
	d.cause = "the ControllerRevision of the workload's template was deleted; Weir has asked its controller to create it again"
	at := d.Now.Truncate(requeueInterval)
	d.wakeIn(d.until(at.Add(requeueInterval)))
	if annotation := at.UTC().Format(time.RFC3339); d.w.LastRequeueAnnotation != annotation {
		d.act(RequeueWorkload{At: annotation})
	}
}
