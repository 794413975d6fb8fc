// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// What lets admission see a workload: its label, for the webhook, and its entry
// in the index, for the policies. Both are there before a Rollout becomes Healthy
// and go before it becomes Disabled or loses its finalizer.

// enroll makes the workload visible to the webhook, and tells whether it is.
func (x *pass) enroll() bool {
	if !x.w.Labelled {
		x.act(Label{})
	}
	return x.w.Labelled
}

// index makes it visible to the policies, which do not ask how far a Rollout is:
// so it waits for all else that a Rollout waits for before it becomes Healthy.
func (x *pass) index() bool {
	if !x.Indexed {
		x.act(Index{})
	}
	return x.Indexed
}

// withdraw takes the workload out of admission's sight, and tells whether there is
// anything to take. The entry went first, in ensureAdmission.
func (x *pass) withdraw() bool {
	labelled := x.w != nil && x.w.Labelled
	if labelled {
		x.act(Unlabel{})
	}
	return labelled || x.Listed
}

// ensureAdmission has the policies start holds exactly while the webhook does, and
// takes up what they have noted meanwhile. A Rollout that leaves is taken out of
// the index before anything is given back, or that would be held anew.
func (x *pass) ensureAdmission() {
	next := x.Rollout.DeepCopy()
	next.Status.Phase = x.status.Phase
	if !Holds(next) || x.Unprotected == "" {
		x.status.RemoveCondition(rollouts.ConditionProtected)
	}
	switch {
	case Holds(next):
		x.ensureVisible()
	case x.Listed && !slices.Contains(x.actions, Action(Index{})):
		x.actions = slices.Insert(x.actions, 0, Action(Unindex{}))
	}
}

// ensureVisible puts back what somebody took away from a workload in service.
func (x *pass) ensureVisible() {
	if x.Unprotected != "" {
		x.status.SetCondition(rollouts.Condition{
			Type: rollouts.ConditionProtected, Status: metav1.ConditionFalse, Reason: "AdmissionIncomplete", Message: x.Unprotected,
		}, x.now())
	}
	if x.w == nil || x.Unsupported != "" {
		return
	}
	if !x.w.Labelled && !slices.Contains(x.actions, Action(Label{})) {
		x.act(Label{})
	}
	if !x.Indexed {
		x.act(Index{})
	}
	if x.w.PendingEdit && x.status.Phase == rollouts.PhaseProgressing {
		x.act(ApplyPendingEdit{})
	}
}

// putRight has our keys on a workload say what the store says. Where there are
// batches, they write them anew themselves.
func (x *pass) putRight() {
	if x.w == nil || len(x.w.Astray) == 0 || x.Batch != nil || len(x.actions) > 0 {
		return
	}
	if x.status.Phase != rollouts.PhaseHealthy && x.status.Phase != rollouts.PhaseProgressing {
		return
	}
	x.act(PutRight{})
	x.events = append(x.events, astrayEvent(x.w.Astray))
}

// EventRecordPutRight announces that keys of ours on a workload said something else
// than the store.
const EventRecordPutRight = "RecordPutRight"

// EventExtraPutRight announces that somebody else has written the extra Deployment.
const EventExtraPutRight = "ExtraPutRight"

func astrayEvent(keys []string) Event {
	return Event{Warning: true, Reason: EventRecordPutRight, Message: fmt.Sprintf(
		"somebody else wrote %s on the workload; only Weir writes that, it decides nothing, and it was put right", strings.Join(keys, ", "))}
}

// bypassed reports whether the native controller releases a template that nothing
// holds: both doors were closed, or somebody took a hold off while they were.
func (x *pass) bypassed() bool {
	if x.w.Loose {
		return Controls(x.Rollout)
	}
	return x.w.Rolling && x.changedUnheld()
}

// changedUnheld reports whether the template is not the one that was recorded at rest, of
// this workload and while it was in service.
func (x *pass) changedUnheld() bool {
	p := x.was()
	if x.w.UID != x.Rollout.Status.WorkloadUID || !x.healthy() || x.w.Held || p.UpdateRevision == "" || p.State != rollouts.StepCompleted || x.live() {
		return false
	}
	n := len(x.status.Releases)
	back := n > 0 && x.status.Releases[n-1].Outcome != rollouts.ReleaseSucceeded
	return !back || !x.w.Is(p.StableRevision)
}

// catch holds it at once. The next pass sees the hold, and the release begins at
// its first step, with traffic on stable and pods as that step wants them.
func (x *pass) catch() {
	if x.w.Loose && x.live() && x.Batch == nil && x.begun() {
		x.act(Hold{Again: true}) // its batches were taken away, and are made again
		return
	}
	message := fmt.Sprintf("revision %s was set without being held, since no part of admission saw it; it was held as soon as that was noticed, and pods of it may have served before step 1", x.w.UpdateRevision)
	if c := x.status.Condition(rollouts.ConditionBypassed); c == nil || c.Message != message {
		x.warn(string(rollouts.ConditionBypassed), message)
	}
	x.status.SetCondition(rollouts.Condition{
		Type: rollouts.ConditionBypassed, Status: metav1.ConditionTrue, Reason: "HeldLate", Message: message,
	}, x.now())
	x.act(Hold{})
}

// begun reports whether pods of the release were given, of which its template was held.
func (x *pass) begun() bool {
	p := x.was()
	return p.CurrentStepIndex > 1 || p.State != rollouts.BeforeStepUpgrade
}

// missed records a release that was over before it was noticed. Where there are no
// pods, nothing was to be held.
func (x *pass) missed(stable string) {
	if x.w.Replicas == 0 {
		return
	}
	message := fmt.Sprintf("revision %s was set without being held, and every pod runs it; no part of admission saw it", x.w.UpdateRevision)
	x.warn(string(rollouts.ConditionBypassed), message)
	x.status.SetCondition(rollouts.Condition{
		Type: rollouts.ConditionBypassed, Status: metav1.ConditionTrue, Reason: "ReleasedUnheld", Message: message,
	}, x.now())
	x.openRecord()
	x.record().StableRevision = stable
	x.closeRecord(rollouts.ReleaseBypassed)
}
