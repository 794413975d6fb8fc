// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// While a release waits for pods or for the network, and not for a person, a deadline runs from its last
// progress. When the deadline has passed, the condition Stalled says what makes no progress and what the user
// can do. Weir does nothing else: no gate opens, and Weir does not decide for the user.

// DefaultProgressDeadlineSeconds is the default of the native Deployment controller.
const DefaultProgressDeadlineSeconds int32 = 600

// progressDeadline returns the deadline; zero means that there is none.
func progressDeadline(f facts) time.Duration {
	seconds := DefaultProgressDeadlineSeconds
	switch {
	case f.plan != nil && f.plan.ProgressDeadlineSeconds != nil:
		seconds = *f.plan.ProgressDeadlineSeconds
	case f.w != nil && f.w.ProgressDeadline > 0:
		seconds = f.w.ProgressDeadline
	}
	if seconds == math.MaxInt32 {
		return 0 // the native controller has no deadline either with this value
	}
	return time.Duration(seconds) * time.Second
}

// checkDeadline records when the release made its last progress, and sets the condition Stalled if the
// progress deadline has passed since then.
func checkDeadline(d *draft) {
	p, deadline := d.status.Active(), progressDeadline(d.facts)
	if p == nil || !deadlineRuns(d.facts) || deadline == 0 {
		if p != nil {
			p.LastProgressTime, p.ProgressMark = nil, 0
		}
		d.unstall(rollouts.StalledDeadline)
		return
	}
	recordProgress(d, deadline, p)
	reportMissedDeadline(d, deadline, p)
}

// recordProgress records progress of the release. It records progress of pods at most once in a tenth of the
// deadline, so that the status is not written for each pod of a batch.
func recordProgress(d *draft, deadline time.Duration, p *rollouts.Progress) {
	mark, since := currentProgressMark(d.facts), p.LastProgressTime
	switch {
	case since == nil || IsAhead(since, d.Now) || hasAdvanced(d.facts):
		setProgressMark(d, mark)
	case workloadChanged(d.facts):
		p.ProgressMark = mark
	case mark > p.ProgressMark:
		if left := d.until(since.Add(max(deadline/10, time.Second))); left > 0 {
			d.wakeIn(left)
		} else {
			setProgressMark(d, mark)
		}
	}
}

// setProgressMark records that the release made progress now, up to the mark.
func setProgressMark(d *draft, mark int32) {
	p := d.progress()
	p.LastProgressTime, p.ProgressMark = new(RoundUp(d.Now)), mark
}

// reportMissedDeadline sets the condition Stalled if the deadline has passed since the last progress.
func reportMissedDeadline(d *draft, deadline time.Duration, p *rollouts.Progress) {
	if left := d.until(p.LastProgressTime.Add(deadline)); left > 0 {
		d.wakeIn(left)
		d.unstall(rollouts.StalledDeadline)
		return
	}
	message := fmt.Sprintf("no progress at %s for more than %d seconds (since %s): %s; %s", stalledObject(d.facts),
		int(deadline.Seconds()), p.LastProgressTime.UTC().Format(time.RFC3339), awaitedProgress(d.facts), helpWith(d.facts, ""))
	if !d.isStalledFor(rollouts.StalledDeadline) {
		d.warn(string(rollouts.StalledDeadline), message)
	}
	// This does not call stall, because status.message continues to say what the step does.
	d.setCondition(rollouts.ConditionStalled, metav1.ConditionTrue, string(rollouts.StalledDeadline), message)
}

// SplitHelp splits the message of a missed deadline into the observation and the advice to the user.
func SplitHelp(message string) (observation, help string) {
	if at := strings.LastIndex(message, "; "); at >= 0 {
		return message[:at], message[at+2:]
	}
	return message, ""
}

// deadlineRuns reports whether the release waits for pods or for the network, and not for a person.
func deadlineRuns(f facts) bool {
	if f.isStalledFor(rollouts.StalledAborted, rollouts.StalledStableGone, rollouts.StalledStableEdited, rollouts.StalledUnsupported, rollouts.StalledOccupied) {
		return false // the condition Stalled already says why the release makes no progress
	}
	p := f.progress()
	switch f.status.Phase {
	case rollouts.PhaseTerminating, rollouts.PhaseDisabling:
		return true
	case rollouts.PhaseProgressing:
	default:
		return false
	}
	switch f.activity() {
	case rollouts.ActivityPaused, rollouts.ActivityCompleted, rollouts.ActivityNone:
		return false
	case rollouts.ActivityAborted:
		return p.RollingBack
	case rollouts.ActivityInitializing:
		return !f.isStalledFor(rollouts.StalledRefused)
	case rollouts.ActivityInRolling:
		if f.isStalledFor(rollouts.StalledRefused) {
			return false // the release waits until a user sets another template, or ends the release
		}
		return !stageOf(p.State).waitsForPeople && len(checksHoldingTraffic(f)) == 0 || isSuperseding(f)
	default:
		return true
	}
}

// isSuperseding reports whether another template is superseding the release, at whatever stage its step was.
func isSuperseding(f facts) bool {
	p := f.progress()
	return p.FinalisingStep != "" && p.State != rollouts.BeforeStepUpgrade
}

// hasAdvanced reports whether this pass has advanced the release compared with the stored status.
func hasAdvanced(f facts) bool {
	stored, p := f.stored(), f.progress()
	return f.Rollout.Status.Phase != f.status.Phase || f.Rollout.Status.Activity() != f.activity() ||
		stored.State != p.State || stored.CurrentStepIndex != p.CurrentStepIndex ||
		stored.FinalisingStep != p.FinalisingStep || stored.UpdateRevision != p.UpdateRevision || stored.UpdateTemplate != "" && stored.UpdateTemplate != p.UpdateTemplate ||
		missingReference(f) != "" && stored.Message != p.Message
}

// workloadChanged reports whether a user has changed the workload. The progress mark is then computed again,
// but the change alone is no progress.
func workloadChanged(f facts) bool {
	if f.Batch != nil {
		return f.Batch.Rescaled
	}
	return f.stored().ObservedWorkloadGeneration != f.progress().ObservedWorkloadGeneration
}

// currentProgressMark returns a number that grows with the pods for which the release waits. Only a mark above
// the stored one is progress, so a pod that repeatedly becomes ready and crashes is no progress.
func currentProgressMark(f facts) int32 {
	w := f.w
	switch {
	case w == nil:
		return 0
	case f.isAbortingOrAborted():
		return w.StableReadyReplicas - w.UpdatedReplicas - w.SupersededReplicas
	case f.status.Phase != rollouts.PhaseProgressing, f.isEnding():
		return w.LiveReadyReplicas - w.StableReplicas
	default:
		return w.UpdatedReadyReplicas
	}
}

// stalledObject returns the name of the object that makes no progress.
func stalledObject(f facts) string {
	if missing := missingReference(f); missing != "" {
		return missing
	}
	if ref := f.Rollout.Spec.WorkloadRef; ref != nil {
		return strings.ToLower(ref.Kind) + "/" + ref.Name
	}
	return "the workload"
}

// awaitedProgress returns what the release waits for, with the numbers of ready pods in StepUpgrade.
func awaitedProgress(f facts) string {
	message := strings.TrimSuffix(f.status.Message, ".")
	p, w := f.progress(), f.w
	if w == nil || f.activity() != rollouts.ActivityInRolling || p.State != rollouts.StepUpgrade || isSuperseding(f) {
		return message
	}
	desired := plannedUpdatedReplicas(f)
	message += fmt.Sprintf("; %d of %d new pods are ready", min(w.UpdatedReadyReplicas, desired), desired)
	if t := f.plan.FailureThreshold; t != nil {
		allowed := ToleratedUnready(f.style, t, w.UpdatedReplicas)
		pods := "pods"
		if allowed == 1 {
			pods = "pod"
		}
		message += fmt.Sprintf("; failureThreshold %s allows %d unready %s", t.String(), allowed, pods)
	}
	return message
}

// stallHelp is advice to the user about a release that makes no progress.
type stallHelp struct {
	applies func(facts) bool
	// fix is the advice to mend the cause. A known cause has a more precise one (failingFixes).
	fix string
	// otherwise is what the user can do instead.
	otherwise string
}

// stallHelps have the advice to the user; the first row that applies is used. Blue-green refuses another
// template, so its advice does not recommend one.
var stallHelps = []stallHelp{
	{
		func(f facts) bool {
			return f.status.Phase == rollouts.PhaseTerminating || f.status.Phase == rollouts.PhaseDisabling
		},
		"fix the cause above", "change the pod template of the workload, which then returns to its native controller",
	},
	{func(f facts) bool { return f.remade != nil }, "fix its pods", "change the pod template of the workload"},
	{
		func(f facts) bool {
			return missingReference(f) != "" && !f.isDoing(rollouts.ActivityAborting)
		},
		"create it", "abort or roll back",
	},
	{activityIs(rollouts.ActivityAborting), "fix the pods of the stable version", "change the pod template of the workload, or retry the release"},
	{activityIs(rollouts.ActivityAborted), "look for an event WriteDenied", "apply the stable template yourself"},
	{activityIs(rollouts.ActivityCancelling), "fix the pods", "change the pod template of the workload"},
	{
		func(f facts) bool {
			return f.isDoing(rollouts.ActivityFinalising) && canStillAbort(f.style, new(f.progress()))
		},
		"fix the cause above", "abort or roll back",
	},
	{activityIs(rollouts.ActivityFinalising), "fix the pods", "change the pod template of the workload, for example back to the stable template"},
	{
		func(f facts) bool {
			return f.progress().State == rollouts.StepUpgrade && f.style == rollouts.StyleBlueGreen
		},
		"fix the pods", "abort or roll back",
	},
	{
		func(f facts) bool { return f.progress().State == rollouts.StepUpgrade },
		"fix the pods", "change the pod template of the workload, abort or roll back",
	},
	{func(facts) bool { return true }, "fix the cause above", "abort or roll back"},
}

func activityIs(a rollouts.Activity) func(facts) bool {
	return func(f facts) bool { return f.isDoing(a) }
}

// helpWith returns the advice to the user about a release that makes no progress. The fix is the more precise
// advice about a known cause, or empty.
func helpWith(f facts, fix string) string {
	for _, help := range stallHelps {
		if help.applies(f) {
			return cmp.Or(fix, help.fix) + ", or " + help.otherwise
		}
	}
	return ""
}
