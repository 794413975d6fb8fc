// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// facts are what one pass knows: what was observed, read with what the store says, and
// the status as far as the pass has come with it. A function of facts answers a question
// and changes nothing; what changes something takes a draft and returns nothing.
type facts struct {
	Input
	// w is nil where the workload of the release does not exist.
	w *Workload
	// remade is the workload that was created under the same name after w was deleted; nil if none was.
	remade  *Workload
	release *rollouts.Release
	style   rollouts.Style
	status  rollouts.RolloutStatus
}

// newFacts reads what was observed. A workload at size 0, or whose stable set has gone,
// shows less than the store knows of it.
func newFacts(o Input) *facts {
	f := &facts{Input: o, w: o.Workload, status: *o.Rollout.Status.DeepCopy()}
	_, f.release = o.Rollout.Spec.Strategy.Active()
	f.style = rollouts.StyleFor(&o.Rollout.Spec.Strategy, o.Rollout.Spec.WorkloadRef)
	f.status.ObservedGeneration = o.Rollout.Generation
	if c := f.status.TrafficChange; c != nil && c.GraceSeconds != 0 && IsAhead(&c.Time, f.Now) {
		c.Time = RoundUp(f.Now) // nobody knows how much of the grace period has passed
	}
	switch {
	case f.w == nil:
	case f.w.Deleted != "":
		f.w = nil
	case workloadReplaced(f):
		f.w, f.remade = nil, f.w
	}
	addMissingDigest(f)
	for _, known := range []func(*facts) *Workload{withoutStable, withoutPods, withStable} {
		if f.w != nil {
			f.w = known(f)
		}
	}
	return f
}

// workloadReplaced reports whether the workload in service was deleted, and another one of
// its name was made. A release goes with its workload.
func workloadReplaced(f *facts) bool {
	return f.w != nil && f.status.WorkloadUID != "" && f.w.UID != "" && f.w.UID != f.status.WorkloadUID
}

// withoutStable is the workload of a release under way whose stable set has gone.
func withoutStable(f *facts) *Workload {
	w := *f.w
	if f.status.Active() == nil || lostStableRevision(f.Rollout, f.w) == "" {
		return f.w
	}
	switch {
	case stableReplaced(*f.status.Active(), f.w):
		w.StableRevisionGone = true // its pods serve on
	case f.status.Phase == rollouts.PhaseProgressing:
		w.StableRevisionGone = true
		w.HasStableTemplate = w.HasStableTemplate || !w.AbortSetsTemplate && w.UpdateTemplate != "" && w.UpdateTemplate == f.stored().StableTemplate // its owner has set it again
		if !w.AbortSetsTemplate {
			w.StableReadyReplicas = 0 // its pods went with it
		}
	}
	return &w
}

// withoutPods is the workload whose stable set went with its pods before the release
// began, since its history has no room. At rest the status knew it. Where there are pods,
// they show it. What goes back by its template has nothing to hold without pods.
func withoutPods(f *facts) *Workload {
	w, p := *f.w, f.stored()
	known := !w.AbortSetsTemplate && f.isHealthy() && p.State == rollouts.StepCompleted && p.PodTemplateHash != ""
	if !known || !w.Held || w.hasPods() || f.hasReleasedTemplate() || slices.Contains(w.Revisions, p.PodTemplateHash) {
		return f.w
	}
	w.StableRevision, w.StableRevisionGone, w.HasStableTemplate, w.StableReadyReplicas = p.PodTemplateHash, true, false, 0
	return &w
}

// withStable is the workload at size 0, which does not show which of its sets served
// before. While a release is under way the status knows it. What goes back by its template
// may have the stable one without its owner's asking for it.
func withStable(f *facts) *Workload {
	w, stable := *f.w, f.stored().StableRevision
	asked := w.LiveRevision
	if w.AbortSetsTemplate {
		asked = w.PodTemplateHash
	}
	if f.status.Phase != rollouts.PhaseProgressing || stable == "" || asked != stable {
		return f.w
	}
	if digest := f.stored().StableTemplate; digest != "" && w.UpdateTemplate != "" && w.UpdateTemplate != digest {
		return f.w // another template with the name of the stable revision
	}
	if w.StableRevision != stable {
		w.StableRevision, w.StableTemplate = stable, "" // that was the other one's
	}
	w.HasStableTemplate = true
	return &w
}

// progress is the progress as far as the pass has come, or an empty one.
func (f *facts) progress() rollouts.Progress {
	if p := f.status.Active(); p != nil {
		return *p
	}
	return rollouts.Progress{}
}

// stored is the progress as stored, or an empty one.
func (f *facts) stored() rollouts.Progress {
	if p := f.Rollout.Status.Active(); p != nil {
		return *p
	}
	return rollouts.Progress{}
}

// route is what is known of the network at the current step; nil where the plan routes
// nothing.
func (f *facts) route() *Route {
	if f.Route == nil {
		return nil
	}
	route := f.Route.ForStep(f.progress().CurrentStepIndex)
	return &route
}

// step is the current step; nil where the plan has none of its number.
func (f *facts) step() *rollouts.Step { return f.release.Step(f.progress().CurrentStepIndex) }

// now is the time as conditions keep it.
func (f *facts) now() metav1.Time { return metav1.NewTime(f.Now.Truncate(time.Second)) }

// until is how long it is until then; zero where that has passed.
func (f *facts) until(at time.Time) time.Duration { return max(at.Sub(f.Now), 0) }

func (f *facts) activity() rollouts.Activity { return f.status.Activity() }

func (f *facts) isDoing(as ...rollouts.Activity) bool { return slices.Contains(as, f.activity()) }

func (f *facts) isHealthy() bool { return f.status.Phase == rollouts.PhaseHealthy }

// isAborted reports whether the release is aborted, whether stable has all its pods again or not.
func (f *facts) isAborted() bool {
	return f.isDoing(rollouts.ActivityAborting, rollouts.ActivityAborted)
}

// isEnding reports whether the release is completed or cancelled, and the workload is being
// given back.
func (f *facts) isEnding() bool {
	return f.isDoing(rollouts.ActivityFinalising, rollouts.ActivityCancelling)
}

// replacesPods reports whether update pods take the place of stable ones.
func (f *facts) replacesPods() bool { return f.style == rollouts.StylePartition }

// hasReleasedTemplate reports whether the workload still has the template of the stored release. A release
// that an earlier version of Weir stored has no digest. That version may have computed
// revision names differently, so the hash label of its ReplicaSet is compared, too.
func (f *facts) hasReleasedTemplate() bool {
	p := f.stored()
	return f.w.HasTemplateOf(updateRevision(p)) || p.UpdateTemplate == "" && f.w.HasTemplateOf(Revision{Name: p.PodTemplateHash})
}

// stageUnchanged reports whether the stored status was in the current stage already, so that
// whatever the stage orders has been ordered before.
func (f *facts) stageUnchanged() bool {
	was, p := f.stored(), f.progress()
	return was.State == p.State && was.CurrentStepIndex == p.CurrentStepIndex && f.Rollout.Status.Activity() == rollouts.ActivityInRolling
}

func (f *facts) planHash() string { return PlanHashOf(f.Rollout, f.release) }

// PlanHashOf is the server's where it has written one, so that server and
// controller of different releases agree.
func PlanHashOf(r *rollouts.Rollout, release *rollouts.Release) string {
	if h := r.Annotations[rollouts.AnnotationHash]; h != "" {
		return h
	}
	return PlanHash(release)
}

// revision returns the revision of the release, which is written into the plan of its batches.
func (f *facts) revision() Revision {
	p := f.progress()
	if p.UpdateTemplate == "" && f.w != nil && p.PodTemplateHash != "" && !f.w.HasTemplateOf(updateRevision(p)) {
		return Revision{Name: p.PodTemplateHash} // an earlier version of Weir computed the name in another way
	}
	return updateRevision(p)
}

// isStalledFor reports whether the release is stalled for one of the reasons.
func (f *facts) isStalledFor(reasons ...rollouts.StallReason) bool {
	c := f.status.Condition(rollouts.ConditionStalled)
	return c != nil && c.Status == metav1.ConditionTrue && slices.Contains(reasons, rollouts.StallReason(c.Reason))
}

// gracePeriod is how long a change of the network takes to be seen everywhere.
func (f *facts) gracePeriod() time.Duration {
	var seconds int32
	if f.release != nil {
		for _, t := range f.release.TrafficRoutings {
			seconds = max(seconds, t.GracePeriodSeconds)
		}
	}
	return time.Duration(min(seconds, rollouts.MaxGracePeriod)) * time.Second
}

// reissueDue reports whether what was ordered has not shown for a whole grace period,
// so that it is ordered, and waited for, again.
func (f *facts) reissueDue() bool {
	since := f.progress().LastUpdateTime
	return since == nil || f.Now.After(since.Add(f.gracePeriod()))
}

// IsAhead reports whether a stored time is still to come: the clock that it was taken
// from has been set back since, or another one is late. Nobody knows how much of
// a wait from then on has passed, so it begins again and lasts no longer than it
// was meant to, however wrong the clock was.
func IsAhead(since *metav1.Time, now time.Time) bool { return since.After(RoundUp(now).Time) }
