// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// facts has what one pass knows: the observed objects, completed with what only the stored status knows, and the
// next status as far as the pass has computed it. Facts are passed by value: a function that takes them returns a
// result and cannot change them. A function that changes the decision takes a draft.
type facts struct {
	Input
	// w is the workload of the release; nil if it does not exist.
	w *Workload
	// remade is the workload that was created under the same name after w was deleted; nil if none was.
	remade *Workload
	// plan has the steps and options in spec.strategy.
	plan  *rollouts.Release
	style rollouts.Style
	// status is the next status as far as the pass has computed it.
	status rollouts.RolloutStatus
}

// newFacts returns the facts of a pass. A workload of size 0, or a workload whose stable ReplicaSet was deleted,
// shows less than the stored status knows, so newFacts completes its facts from the status.
func newFacts(in Input) facts {
	f := facts{Input: in, w: in.Workload, status: *in.Rollout.Status.DeepCopy()}
	_, f.plan = in.Rollout.Spec.Strategy.Active()
	f.style = rollouts.StyleFor(&in.Rollout.Spec.Strategy, in.Rollout.Spec.WorkloadRef)
	f.status.ObservedGeneration = in.Rollout.Generation
	if c := f.status.TrafficChange; c != nil && c.GraceSeconds != 0 && IsAhead(&c.Time, f.Now) {
		c.Time = RoundUp(f.Now) // it is not known how much of the grace period has passed, so the period restarts
	}
	switch {
	case f.w == nil:
	case f.w.Deleted != "":
		f.w = nil
	case workloadReplaced(f):
		f.w, f.remade = nil, f.w
	}
	addMissingDigest(f)
	for _, complete := range []func(facts) *Workload{workloadWithoutStable, workloadWithoutPods, workloadWithStoredStable} {
		if f.w != nil {
			f.w = complete(f)
		}
	}
	return f
}

// workloadReplaced reports whether the recorded workload was deleted and another workload was created under the
// same name. A release ends with its workload.
func workloadReplaced(f facts) bool {
	return f.w != nil && f.status.WorkloadUID != "" && f.w.UID != "" && f.w.UID != f.status.WorkloadUID
}

// workloadWithoutStable returns the workload with the facts about a stable ReplicaSet or ControllerRevision that
// was deleted or replaced during the release.
func workloadWithoutStable(f facts) *Workload {
	w := *f.w
	if f.status.Active() == nil || lostStableRevision(f.Rollout, f.w) == "" {
		return f.w
	}
	switch {
	case stableReplaced(*f.status.Active(), f.w):
		w.StableRevisionGone = true // the stable pods continue to serve
	case f.status.Phase == rollouts.PhaseProgressing:
		w.StableRevisionGone = true
		// The owner of the workload may have set the stable template again.
		w.HasStableTemplate = w.HasStableTemplate || !w.AbortSetsTemplate && w.UpdateTemplate != "" && w.UpdateTemplate == f.stored().StableTemplate
		if !w.AbortSetsTemplate {
			w.StableReadyReplicas = 0 // the pods of a deleted ReplicaSet are deleted with it
		}
	}
	return &w
}

// workloadWithoutPods returns the workload with the stable revision from the stored status if the workload has no
// pods and its stable ReplicaSet was deleted before the release began. Scenario: the workload has size 0, and
// the native controller deletes the old ReplicaSet because of revisionHistoryLimit. If there are pods, they show
// the stable revision. A workload whose aborts set the template needs no stable revision while it has no pods.
func workloadWithoutPods(f facts) *Workload {
	w, p := *f.w, f.stored()
	isRecorded := !w.AbortSetsTemplate && f.isHealthy() && p.State == rollouts.StepCompleted && p.PodTemplateHash != ""
	if !isRecorded || !w.Held || w.hasPods() || f.hasReleasedTemplate() || slices.Contains(w.Revisions, p.PodTemplateHash) {
		return f.w
	}
	w.StableRevision, w.StableRevisionGone, w.HasStableTemplate, w.StableReadyReplicas = p.PodTemplateHash, true, false, 0
	return &w
}

// workloadWithStoredStable returns the workload with the stable revision from the stored status of a release in
// progress. A workload of size 0 does not show which of its revisions served before. If aborts set the
// template, the live template may be the stable one although the owner did not set it.
func workloadWithStoredStable(f facts) *Workload {
	w, stable := *f.w, f.stored().StableRevision
	live := w.LiveRevision
	if w.AbortSetsTemplate {
		live = w.PodTemplateHash
	}
	if f.status.Phase != rollouts.PhaseProgressing || stable == "" || live != stable {
		return f.w
	}
	if digest := f.stored().StableTemplate; digest != "" && w.UpdateTemplate != "" && w.UpdateTemplate != digest {
		return f.w // another template with the name of the stable revision
	}
	if w.StableRevision != stable {
		w.StableRevision, w.StableTemplate = stable, "" // the digest was that of another revision
	}
	w.HasStableTemplate = true
	return &w
}

// progress returns the progress in the next status, as far as the pass has computed it. It is empty if there is
// none.
func (f facts) progress() rollouts.Progress {
	if p := f.status.Active(); p != nil {
		return *p
	}
	return rollouts.Progress{}
}

// stored returns the progress in the stored status. It is empty if there is none.
func (f facts) stored() rollouts.Progress {
	if p := f.Rollout.Status.Active(); p != nil {
		return *p
	}
	return rollouts.Progress{}
}

// route returns the observed traffic at the current step; nil if the plan routes no traffic.
func (f facts) route() *Route {
	if f.Route == nil {
		return nil
	}
	route := f.Route.ForStep(f.progress().CurrentStepIndex)
	return &route
}

// step returns the current step; nil if the plan has no step with this number.
func (f facts) step() *rollouts.Step { return f.plan.Step(f.progress().CurrentStepIndex) }

// now returns the current time in whole seconds, as conditions store it.
func (f facts) now() metav1.Time { return metav1.NewTime(f.Now.Truncate(time.Second)) }

// until returns the time that remains until another time; zero if that time has passed.
func (f facts) until(at time.Time) time.Duration { return max(at.Sub(f.Now), 0) }

func (f facts) activity() rollouts.Activity { return f.status.Activity() }

// isDoing reports whether the release has one of the activities.
func (f facts) isDoing(activities ...rollouts.Activity) bool {
	return slices.Contains(activities, f.activity())
}

func (f facts) isHealthy() bool { return f.status.Phase == rollouts.PhaseHealthy }

// isAbortingOrAborted reports whether the release is aborted. Traffic and pods may still be on their way back.
func (f facts) isAbortingOrAborted() bool {
	return f.isDoing(rollouts.ActivityAborting, rollouts.ActivityAborted)
}

// isEnding reports whether the release is completed or cancelled, and its teardown is in progress.
func (f facts) isEnding() bool {
	return f.isDoing(rollouts.ActivityFinalising, rollouts.ActivityCancelling)
}

// replacesPods reports whether the release replaces stable pods by new pods, instead of adding new pods.
func (f facts) replacesPods() bool { return f.style == rollouts.StylePartition }

// hasReleasedTemplate reports whether the workload still has the template of the stored release. A release
// that an earlier version of Weir stored has no digest. That version may have computed revision names
// differently, so the hash label of the ReplicaSet is compared, too.
func (f facts) hasReleasedTemplate() bool {
	p := f.stored()
	return f.w.HasTemplateOf(updateRevision(p)) || p.UpdateTemplate == "" && f.w.HasTemplateOf(Revision{Name: p.PodTemplateHash})
}

// stageUnchanged reports whether the stored status is already in the current stage, so that an earlier pass has
// already requested the actions of the stage.
func (f facts) stageUnchanged() bool {
	stored, p := f.stored(), f.progress()
	return stored.State == p.State && stored.CurrentStepIndex == p.CurrentStepIndex && f.Rollout.Status.Activity() == rollouts.ActivityInRolling
}

func (f facts) planHash() string { return PlanHashOf(f.Rollout, f.plan) }

// PlanHashOf returns the hash of the plan. It prefers the annotation that the server writes, so that a server and a
// controller of different versions agree.
func PlanHashOf(r *rollouts.Rollout, release *rollouts.Release) string {
	if h := r.Annotations[rollouts.AnnotationHash]; h != "" {
		return h
	}
	return PlanHash(release)
}

// revision returns the revision of the release, which is written into the plan of its BatchRelease.
func (f facts) revision() Revision {
	p := f.progress()
	if p.UpdateTemplate == "" && f.w != nil && p.PodTemplateHash != "" && !f.w.HasTemplateOf(updateRevision(p)) {
		return Revision{Name: p.PodTemplateHash} // an earlier version of Weir computed the name in another way
	}
	return updateRevision(p)
}

// isStalledFor reports whether the condition Stalled is true for one of the reasons.
func (f facts) isStalledFor(reasons ...rollouts.StallReason) bool {
	c := f.status.Condition(rollouts.ConditionStalled)
	return c != nil && c.Status == metav1.ConditionTrue && slices.Contains(reasons, rollouts.StallReason(c.Reason))
}

// gracePeriod returns how long a change of Services and routes takes until all routers have applied it.
func (f facts) gracePeriod() time.Duration {
	var seconds int32
	if f.plan != nil {
		for _, t := range f.plan.TrafficRoutings {
			seconds = max(seconds, t.GracePeriodSeconds)
		}
	}
	return time.Duration(min(seconds, rollouts.MaxGracePeriod)) * time.Second
}

// reissueDue reports whether a requested action had no visible effect for a whole grace period, so that the
// action must be requested again and its grace period restarts.
func (f facts) reissueDue() bool {
	since := f.progress().LastUpdateTime
	return since == nil || f.Now.After(since.Add(f.gracePeriod()))
}

// IsAhead reports whether a stored time is in the future. The clock was set back since the time was stored, or the
// clock of another leader was ahead. It is not known how much of a wait from this time on has passed. The
// caller restarts the wait, so that the wait is never longer than planned, however wrong the clock was.
func IsAhead(since *metav1.Time, now time.Time) bool { return since.After(RoundUp(now).Time) }
