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

// setKstatusConditions sets the condition Reconciling as kstatus defines it. By kstatus, Flux and other tools
// show a release as in progress while Reconciling is true, also while the release waits for a person. They show
// the release as failed while Stalled is true, and as current if neither is true. They use whichever of the
// two conditions they find true first, so at most one may be true.
func setKstatusConditions(d *draft) {
	status, reason := metav1.ConditionTrue, string(d.status.Phase)
	if stalled := d.status.Condition(rollouts.ConditionStalled); stalled != nil && stalled.Status == metav1.ConditionTrue {
		status, reason = metav1.ConditionFalse, string(rollouts.ConditionStalled)
	}
	if d.isHealthy() || d.status.Phase == rollouts.PhaseDisabled {
		status = metav1.ConditionFalse
	}
	d.setCondition(rollouts.ConditionReconciling, status, reason, d.status.Message)
}

// Wait names what a Rollout waits for, in one word.
type Wait string

// WaitApproval and WaitDecision wait for a person.
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

// Waiting describes what a Rollout waits for.
type Waiting struct {
	For Wait
	// Text describes the wait in a few words.
	Text string
	// Since is when the wait began; zero if the status does not show it.
	Since metav1.Time
}

// WaitingFor returns what a Rollout waits for, according to its stored status.
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
		wait, text := waitsByState[StateOf(r)](r, p)
		if p.Message != "" {
			text += ": " + p.Message
		}
		return Waiting{wait, text, since}
	case rollouts.PhaseHealthy, rollouts.PhaseDisabled:
		return Waiting{WaitNothing, "nothing", since}
	case rollouts.PhaseDisabling:
		return Waiting{WaitWorkload, workloadRestore, metav1.Time{}}
	}
	if c := r.Status.Stalled(); c != nil {
		return Waiting{WaitDecision, "a supported workload", c.LastTransitionTime}
	}
	return Waiting{WaitWorkload, describeWorkloadWait(r), r.CreationTimestamp}
}

// describeWorkloadWait names the workload of a Rollout that has not taken it over yet.
func describeWorkloadWait(r *rollouts.Rollout) string {
	ref := r.Spec.WorkloadRef
	switch {
	case ref == nil:
		return "a workload"
	case strings.HasPrefix(r.Status.Message, workloadNotFound):
		return fmt.Sprintf("%s %s, which does not exist", ref.Kind, ref.Name)
	default:
		return fmt.Sprintf("%s %s", ref.Kind, ref.Name)
	}
}

// waitsByState has a function for each state that returns what a release in this state waits for.
var waitsByState = map[State]func(*rollouts.Rollout, *rollouts.Progress) (Wait, string){
	StateIdle:           fixedWait(WaitController, "the controller"),
	StateInitializing:   fixedWait(WaitTraffic, "the Services and routers of the plan"),
	StateInStep:         describeStepWait,
	StatePaused:         fixedWait(WaitDecision, "resume"),
	StateRefused:        fixedWait(WaitDecision, "a decision: abort, roll back, or apply the template of the release again"),
	StateSuperseding:    fixedWait(WaitWorkload, "the newer template to replace this release"),
	StateAborted:        describeAbortWait,
	StateFinalising:     fixedWait(WaitWorkload, workloadRestore),
	StateRestoring:      fixedWait(WaitWorkload, workloadRestore),
	StateCancelling:     fixedWait(WaitWorkload, workloadRestore),
	StateLeaving:        fixedWait(WaitWorkload, workloadRestore),
	StateLeavingAborted: fixedWait(WaitWorkload, workloadRestore),
	StateWorkloadGone:   fixedWait(WaitWorkload, workloadRestore),
}

const workloadRestore = "the return of the workload to its native controller"

func fixedWait(wait Wait, text string) func(*rollouts.Rollout, *rollouts.Progress) (Wait, string) {
	return func(*rollouts.Rollout, *rollouts.Progress) (Wait, string) { return wait, text }
}

// describeAbortWait returns what an aborted release waits for.
func describeAbortWait(r *rollouts.Rollout, p *rollouts.Progress) (Wait, string) {
	stalled := r.Status.Stalled()
	switch {
	case stalled != nil && slices.Contains([]rollouts.StallReason{rollouts.StalledStableGone, rollouts.StalledStableEdited}, rollouts.StallReason(stalled.Reason)):
		return WaitDecision, "a person: the stable version is lost" // the condition Stalled says how to continue
	case r.Status.Activity() == rollouts.ActivityAborting:
		return WaitPods, "the pods of the stable version"
	case p.RollingBack:
		return WaitWorkload, "the stable template"
	default:
		return WaitDecision, "a decision: retry, roll back, or release another version"
	}
}

// describeStepWait returns what the current step waits for.
func describeStepWait(r *rollouts.Rollout, p *rollouts.Progress) (Wait, string) {
	_, release := r.Spec.Strategy.Active()
	if release == nil {
		release = &rollouts.Release{} // the stored Rollout may be invalid
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
		return WaitChecks, describeChecksWait(r, r.Status.Analysis.Of(p.CurrentStepIndex), "checks of "+place, place)
	case rollouts.StepPaused:
		until := PauseEnd(r)
		switch c := checkHoldingTimedPause(r); {
		case c != nil && (c.Result == rollouts.CheckRunning || c.Result == ""):
			return WaitChecks, "checks of " + place
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
		return WaitController, "the controller" // the next pass of the controller enters the next step
	}
}

// describeTrafficWait returns what the traffic of the current step waits for.
func describeTrafficWait(r *rollouts.Rollout, place string) (Wait, string) {
	if holding := StoredChecksHoldingTraffic(r); len(holding) > 0 {
		return WaitChecks, describeChecksWait(r, holding, "checks before the traffic of "+place, place)
	}
	return WaitTraffic, "traffic of " + place
}

// describeChecksWait returns the text about a step that waits for checks. The text names the first gate that is
// still closed; if there is none, the text is the argument otherwise.
func describeChecksWait(r *rollouts.Rollout, results []rollouts.CheckStatus, otherwise, place string) string {
	_, plan := r.Spec.Strategy.Active()
	for _, result := range results {
		if result.Result == rollouts.CheckRunning && result.Time != nil && isGateOfPlan(plan, result.Name) {
			return "gate " + result.Name + " of " + place + ", closed since " + result.Time.UTC().Format(time.RFC3339)
		}
	}
	return otherwise
}

// isGateOfPlan reports whether the plan has a check of this name that is a gate.
func isGateOfPlan(plan *rollouts.Release, name string) bool {
	return plan != nil && plan.Analysis != nil && slices.ContainsFunc(plan.Analysis.Checks, func(c rollouts.Check) bool {
		return rollouts.CheckName(&c) == name && isGateCheck(&c)
	})
}

// PauseEnd returns when the timed pause of the current step ends. It returns zero if the pause does not end by
// time.
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

// hasTimedPause reports whether the pause of a step ends after a duration, without an approval.
func hasTimedPause(step *rollouts.Step) bool { return step != nil && step.Pause.Duration != nil }

// describeDeletionWait returns what a Rollout that is being deleted waits for.
func describeDeletionWait(r *rollouts.Rollout) Waiting {
	if Finalized(r) {
		return Waiting{WaitDecision, "removal of finalizers: " + rollouts.FinalizersOf(r), *r.DeletionTimestamp}
	}
	return Waiting{WaitWorkload, workloadRestore, *r.DeletionTimestamp}
}
