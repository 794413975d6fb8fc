// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Which revision the live template is, is told by the ControllerRevision that keeps it.
// Somebody may delete that in the middle of a release. The native controller makes it
// again when it looks at the workload, and a StatefulSet's does so only when that or
// one of its pods has changed.

// RequeueWorkload has the native controller look at the workload, by a write of an annotation.
// At is when it was asked, so that it is asked no more than once in a while.
type RequeueWorkload struct{ At string }

func (RequeueWorkload) effect()        {}
func (RequeueWorkload) String() string { return "have the native controller look at the workload" }

const requeueInterval = time.Minute

// revisionUnknown reports whether the native controller has not seen the template yet, so that
// nobody can tell which revision it is. It is held, or nothing has changed.
func revisionUnknown(f *facts) bool { return f.Unsupported == "" && f.w.UpdateRevision == "" }

// awaitRevision has a name made where one was lost.
func awaitRevision(d *draft) {
	if d.status.Phase == rollouts.PhaseProgressing {
		requeueWorkload(d)
	}
}

// requeueWorkload says what a pass waits for, too.
func requeueWorkload(d *draft) {
	if !d.w.Settled {
		return
	}
	d.cause = "the ControllerRevision of the workload's template was deleted; its controller, which makes it again, was asked to look at the workload"
	at := d.Now.Truncate(requeueInterval)
	d.wakeIn(d.until(at.Add(requeueInterval)))
	if asked := at.UTC().Format(time.RFC3339); d.w.LastRequeueAnnotation != asked {
		d.act(RequeueWorkload{At: asked})
	}
}
