// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// What a status says to those who do not know the states of a release.

// tellTools says, as kstatus wants it, whether the Rollout is on its way. Flux
// and others take a release for in progress while it is, also while it waits
// for somebody, for failed when it is stalled, and for current otherwise. They
// take the first of both conditions that is true, so never both are.
func (x *pass) tellTools() {
	c := rollouts.Condition{
		Type: rollouts.ConditionReconciling, Status: metav1.ConditionTrue,
		Reason: string(x.status.Phase), Message: x.status.Message,
	}
	if stalled := x.status.Condition(rollouts.ConditionStalled); stalled != nil && stalled.Status == metav1.ConditionTrue {
		c.Status, c.Reason = metav1.ConditionFalse, string(rollouts.ConditionStalled)
	}
	if x.status.Phase == rollouts.PhaseHealthy || x.status.Phase == rollouts.PhaseDisabled {
		c.Status = metav1.ConditionFalse
	}
	x.status.SetCondition(c, x.now())
}

// WaitingFor says in a few words what a Rollout waits for, and since when; the
// time is zero where nobody has noted it.
func WaitingFor(r *rollouts.Rollout) (what string, since metav1.Time) {
	if r.DeletionTimestamp != nil {
		return "workload to be given back", *r.DeletionTimestamp
	}
	p := r.Status.Active()
	if p == nil {
		p = &rollouts.Progress{}
	}
	if p.LastUpdateTime != nil {
		since = *p.LastUpdateTime
	}
	switch r.Status.Phase {
	case rollouts.PhaseProgressing:
		what := releaseWaits(r, p)
		if p.Message != "" {
			what += ": " + p.Message
		}
		return what, since
	case rollouts.PhaseHealthy, rollouts.PhaseDisabled:
		return "nothing", since
	case rollouts.PhaseDisabling:
		return "workload to be given back", metav1.Time{}
	}
	if c := r.Status.Condition(rollouts.ConditionStalled); c != nil && c.Status == metav1.ConditionTrue {
		return "a workload that is served", c.LastTransitionTime
	}
	return "workload", r.CreationTimestamp
}

// releaseWaits is what a release waits for.
func releaseWaits(r *rollouts.Rollout, p *rollouts.Progress) string {
	switch r.Status.Activity() {
	case rollouts.ActivityInitializing:
		return "network of the workload"
	case rollouts.ActivityPaused:
		return "resume"
	case rollouts.ActivityAborting:
		return "pods of the stable revision"
	case rollouts.ActivityAborted:
		if p.RollingBack {
			return "stable template"
		}
		return "retry, rollback or another template"
	case rollouts.ActivityFinalising, rollouts.ActivityCancelling:
		return "workload to be given back"
	default:
		return stepWaits(r, p)
	}
}

// stepWaits is what a step waits for.
func stepWaits(r *rollouts.Rollout, p *rollouts.Progress) string {
	_, release := r.Spec.Strategy.Active()
	if release == nil {
		release = &rollouts.Release{} // nothing says that it is valid
	}
	place := fmt.Sprintf("step %d/%d", p.CurrentStepIndex, len(release.Steps))
	switch p.State {
	case rollouts.BeforeStepUpgrade, rollouts.StepTrafficRouting:
		return "traffic of " + place
	case rollouts.StepUpgrade:
		return "pods of " + place
	case rollouts.StepMetricsAnalysis:
		return "metrics of " + place
	case rollouts.StepPaused:
		step := release.Step(p.CurrentStepIndex)
		if step == nil || step.Pause.Duration == nil || p.LastUpdateTime == nil {
			return "approval of " + place
		}
		until := p.LastUpdateTime.Add(time.Duration(*step.Pause.Duration) * time.Second)
		return "end of " + place + " at " + until.UTC().Format(time.RFC3339)
	default:
		return "controller" // it goes on at once
	}
}
