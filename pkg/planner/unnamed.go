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

// AskAgain has the native controller look at the workload, by a write of an annotation.
// At is when it was asked, so that it is asked no more than once in a while.
type AskAgain struct{ At string }

func (AskAgain) action()        {}
func (AskAgain) String() string { return "have the native controller look at the workload" }

const askEvery = time.Minute

// notNamed reports whether the native controller has not seen the template yet, so that
// nobody can tell which revision it is. It is held, or nothing has changed.
func (x *pass) notNamed() bool { return x.Unsupported == "" && x.w.UpdateRevision == "" }

// awaitName has a name made where one was lost.
func (x *pass) awaitName() {
	if x.status.Phase == rollouts.PhaseProgressing {
		x.askAgain()
	}
}

// askAgain says what a pass waits for, too.
func (x *pass) askAgain() {
	if !x.w.Settled {
		return
	}
	x.cause = "the ControllerRevision of the workload's template was deleted; its controller, which makes it again, was asked to look at the workload"
	at := x.Now.Truncate(askEvery)
	x.reached(at.Add(askEvery))
	if asked := at.UTC().Format(time.RFC3339); x.w.Asked != asked {
		x.act(AskAgain{At: asked})
	}
}
