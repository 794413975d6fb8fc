// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// What a status says to those who do not know the states of a release.

// setKstatusConditions says, as kstatus wants it, whether the Rollout is on its way. Flux
// and others take a release for in progress while it is, also while it waits
// for somebody, for failed when it is stalled, and for current otherwise. They
// take the first of both conditions that is true, so never both are, also where a gate
// beside us says that it is stalled.
func setKstatusConditions(d *draft) {
	s, reason := metav1.ConditionTrue, string(d.status.Phase)
	if stalled := d.status.Condition(rollouts.ConditionStalled); stalled != nil && stalled.Status == metav1.ConditionTrue {
		s, reason = metav1.ConditionFalse, string(rollouts.ConditionStalled)
	}
	if d.isHealthy() || d.status.Phase == rollouts.PhaseDisabled {
		s = metav1.ConditionFalse
	}
	d.setCondition(rollouts.ConditionReconciling, s, reason, d.status.Message)
}

// Wait is the kind of thing that a Rollout waits for.
type Wait string

// The kinds. Approval and Decision wait for a person.
const (
	WaitNothing    Wait = "nothing"
	WaitPods       Wait = "pods"
	WaitTraffic    Wait = "traffic"
	WaitApproval   Wait = "approval"
	WaitTime       Wait = "time"
	WaitDecision   Wait = "decision"
	WaitChecks     Wait = "checks"
	WaitWorkload   Wait = "workload"
	WaitController Wait = "controller"
)

// Waiting is what a Rollout waits for.
type Waiting struct {
	For Wait
	// Text says it in a few words.
	Text string
	// Since is zero where nobody has noted it.
	Since metav1.Time
}

// WaitingFor says what a Rollout waits for.
func WaitingFor(r *rollouts.Rollout) Waiting {
	if r.DeletionTimestamp != nil {
		return describeDeletionWait(r)
	}
	p := r.Status.Active()
	if p == nil {
		p = &rollouts.Progress{}
	}
	var since metav1.Time
	if p.LastUpdateTime != nil {
		since = *p.LastUpdateTime
	}
	switch r.Status.Phase {
	case rollouts.PhaseProgressing:
		wait, what := waitsByState[StateOf(r)](r, p)
		if p.Message != "" {
			what += ": " + p.Message
		}
		return Waiting{wait, what, since}
	case rollouts.PhaseHealthy, rollouts.PhaseDisabled:
		return Waiting{WaitNothing, "nothing", since}
	case rollouts.PhaseDisabling:
		return Waiting{WaitWorkload, workloadRestore, metav1.Time{}}
	}
	if c := r.Status.Stalled(); c != nil {
		return Waiting{WaitDecision, "a supported workload", c.LastTransitionTime}
	}
	return Waiting{WaitWorkload, "workload", r.CreationTimestamp}
}

// waitsByState say what a release waits for, by its state.
var waitsByState = map[State]func(*rollouts.Rollout, *rollouts.Progress) (Wait, string){
	StateIdle:           fixedWait(WaitController, "controller"),
	StateInitializing:   fixedWait(WaitTraffic, "network of the workload"),
	StateInStep:         describeStepWait,
	StatePaused:         fixedWait(WaitDecision, "resume"),
	StateRefused:        fixedWait(WaitDecision, "abort, rollback or the template of the release"),
	StateSuperseding:    fixedWait(WaitWorkload, "another template to take over"),
	StateAborted:        describeAbortWait,
	StateFinalising:     fixedWait(WaitWorkload, workloadRestore),
	StateRestoring:      fixedWait(WaitWorkload, workloadRestore),
	StateCancelling:     fixedWait(WaitWorkload, workloadRestore),
	StateLeaving:        fixedWait(WaitWorkload, workloadRestore),
	StateLeavingAborted: fixedWait(WaitWorkload, workloadRestore),
	StateWorkloadGone:   fixedWait(WaitWorkload, workloadRestore),
}

const workloadRestore = "workload to be given back"

func fixedWait(wait Wait, what string) func(*rollouts.Rollout, *rollouts.Progress) (Wait, string) {
	return func(*rollouts.Rollout, *rollouts.Progress) (Wait, string) { return wait, what }
}

// describeAbortWait is what a release waits for that was aborted.
func describeAbortWait(r *rollouts.Rollout, p *rollouts.Progress) (Wait, string) {
	switch {
	case r.Status.Activity() == rollouts.ActivityAborting:
		return WaitPods, "pods of the stable revision"
	case p.RollingBack:
		return WaitWorkload, "stable template"
	default:
		return WaitDecision, "retry, rollback or another template"
	}
}

// describeStepWait is what a step waits for.
func describeStepWait(r *rollouts.Rollout, p *rollouts.Progress) (Wait, string) {
	_, release := r.Spec.Strategy.Active()
	if release == nil {
		release = &rollouts.Release{} // nothing says that it is valid
	}
	place := fmt.Sprintf("step %d/%d", p.CurrentStepIndex, len(release.Steps))
	switch p.State {
	case rollouts.BeforeStepUpgrade:
		return WaitTraffic, "traffic of " + place
	case rollouts.StepTrafficRouting:
		return describeTrafficWait(r, place)
	case rollouts.StepUpgrade:
		return WaitPods, "pods of " + place
	case rollouts.StepMetricsAnalysis:
		return WaitChecks, describeChecksWait(r, r.Status.Analysis.Of(p.CurrentStepIndex), "metrics of "+place, place)
	case rollouts.StepPaused:
		until := PauseEnd(r)
		switch c := checkHoldingTimedPause(r); {
		case c != nil && (c.Result == rollouts.CheckRunning || c.Result == ""):
			return WaitChecks, "metrics of " + place
		case c != nil:
			return WaitApproval, fmt.Sprintf("approval of %s: check %s is %s", place, c.Name, strings.ToLower(string(c.Result)))
		case until.IsZero():
			return WaitApproval, "approval of " + place
		}
		return WaitTime, "end of " + place + " at " + until.UTC().Format(time.RFC3339)
	default:
		if p.Message != "" {
			return WaitDecision, "gates of " + place
		}
		return WaitController, "controller" // it goes on at once
	}
}

// describeTrafficWait is what the traffic of a step waits for.
func describeTrafficWait(r *rollouts.Rollout, place string) (Wait, string) {
	if held := StoredChecksHoldingTraffic(r); len(held) > 0 {
		return WaitChecks, describeChecksWait(r, held, "checks before the traffic of "+place, place)
	}
	return WaitTraffic, "traffic of " + place
}

// describeChecksWait is what a step waits for that has such results: a gate, or else what is said.
func describeChecksWait(r *rollouts.Rollout, results []rollouts.CheckStatus, otherwise, place string) string {
	_, plan := r.Spec.Strategy.Active()
	for _, result := range results {
		if result.Result == rollouts.CheckRunning && result.Time != nil && isGateOfPlan(plan, result.Name) {
			return "gate " + result.Name + " of " + place + ", closed since " + result.Time.UTC().Format(time.RFC3339)
		}
	}
	return otherwise
}

// isGateOfPlan reports whether a check of a plan is a gate.
func isGateOfPlan(plan *rollouts.Release, name string) bool {
	return plan != nil && plan.Analysis != nil && slices.ContainsFunc(plan.Analysis.Checks, func(c rollouts.Check) bool {
		return rollouts.CheckName(&c) == name && isGateCheck(&c)
	})
}

// PauseEnd is when the pause of the step that waits ends by itself; zero where it does not.
func PauseEnd(r *rollouts.Rollout) metav1.Time {
	p := r.Status.Active()
	_, release := r.Spec.Strategy.Active()
	if p == nil || p.State != rollouts.StepPaused || p.LastUpdateTime == nil || !hasTimedPause(release.Step(p.CurrentStepIndex)) || checkHoldingTimedPause(r) != nil {
		return metav1.Time{}
	}
	return metav1.NewTime(p.LastUpdateTime.Add(time.Duration(*release.Step(p.CurrentStepIndex).Pause.Duration) * time.Second))
}

// checkHoldingTimedPause returns the check that keeps a timed pause open after its time, because the check is
// still measured or a person must decide about its result. It returns nil if the time ends the pause.
func checkHoldingTimedPause(r *rollouts.Rollout) *OpenCheck {
	_, release := r.Spec.Strategy.Active()
	p := r.Status.Active()
	if release == nil || p == nil || p.State != rollouts.StepPaused || !hasTimedPause(release.Step(p.CurrentStepIndex)) {
		return nil
	}
	if open := OpenChecks(r, p.CurrentStepIndex+1); len(open) > 0 {
		return &open[0]
	}
	return nil
}

// hasTimedPause reports whether a step goes on by itself.
func hasTimedPause(step *rollouts.Step) bool { return step != nil && step.Pause.Duration != nil }

// describeDeletionWait is what a Rollout that is deleted waits for.
func describeDeletionWait(r *rollouts.Rollout) Waiting {
	if Finalized(r) {
		return Waiting{WaitDecision, "removal of finalizers: " + rollouts.FinalizersOf(r), *r.DeletionTimestamp}
	}
	return Waiting{WaitWorkload, workloadRestore, *r.DeletionTimestamp}
}
