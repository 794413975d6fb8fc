// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"math"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// A release never waits in silence. Wherever it waits for pods or for the
// network, and not for somebody, a deadline runs from the last thing that moved.
// When it has passed, the condition Stalled says what stands still and what
// would help. Nothing else happens: gates hold, and nobody's word is presumed.

// nativeDeadline is the native controller's default, in seconds.
const nativeDeadline = 600

// progressDeadline is the deadline; zero means that there is none.
func (x *pass) progressDeadline() time.Duration {
	seconds := int32(nativeDeadline)
	switch {
	case x.release != nil && x.release.ProgressDeadlineSeconds != nil:
		seconds = *x.release.ProgressDeadlineSeconds
	case x.w != nil && x.w.ProgressDeadline > 0:
		seconds = x.w.ProgressDeadline
	}
	if seconds == math.MaxInt32 {
		return 0 // what the native controller takes for never
	}
	return time.Duration(seconds) * time.Second
}

// keepDeadline notes when the release moved last, and says so when that is too
// long ago. What pods do is noted once in a tenth of the deadline, so that a
// batch costs no write for each of its pods.
func (x *pass) keepDeadline() {
	p := x.status.Active()
	deadline := x.progressDeadline()
	if p == nil || !x.working() || deadline == 0 {
		if p != nil {
			p.LastProgressTime, p.ProgressMark = nil, 0
		}
		x.goOn()
		return
	}
	mark := x.progressCounter()
	slack := max(deadline/10, time.Second)
	since := x.lastProgress()
	switch {
	case since == nil || x.moved():
		x.progressed(mark, RoundUp(x.Now))
	case x.rescaled():
		p.ProgressMark = mark
	case mark > p.ProgressMark && x.reached(since.Add(slack)):
		x.progressed(mark, RoundUp(x.Now))
	}
	x.judgeDeadline(deadline, p)
}

// lastProgress is when the release moved last, as far as that can be true.
func (x *pass) lastProgress() *metav1.Time {
	if since := x.progress().LastProgressTime; since != nil && !ahead(since, x.Now) {
		return since
	}
	return nil
}

// goOn takes back that the release stands still.
func (x *pass) goOn() {
	if x.stalledFor(rollouts.StalledDeadline) {
		x.status.RemoveCondition(rollouts.ConditionStalled)
	}
}

func (x *pass) progressed(mark int32, at metav1.Time) {
	p := x.progress()
	p.LastProgressTime, p.ProgressMark = &at, mark
}

func (x *pass) judgeDeadline(deadline time.Duration, p *rollouts.Progress) {
	if !x.reached(p.LastProgressTime.Add(deadline)) {
		x.goOn()
		return
	}
	message := fmt.Sprintf("no progress at %s since %s, for longer than %d seconds: %s; %s", x.object(),
		p.LastProgressTime.UTC().Format(time.RFC3339), int(deadline.Seconds()), x.standstill(), x.help())
	if !x.stalledFor(rollouts.StalledDeadline) {
		x.warn(string(rollouts.StalledDeadline), message)
	}
	x.status.SetCondition(rollouts.Condition{
		Type: rollouts.ConditionStalled, Status: metav1.ConditionTrue, Reason: string(rollouts.StalledDeadline), Message: message,
	}, x.now())
}

func (x *pass) stalledFor(reasons ...rollouts.StallReason) bool {
	c := x.status.Condition(rollouts.ConditionStalled)
	if c == nil || c.Status != metav1.ConditionTrue {
		return false
	}
	for _, r := range reasons {
		if c.Reason == string(r) {
			return true
		}
	}
	return false
}

// working reports whether the release waits for pods or for the network, and for
// nobody's word.
func (x *pass) working() bool {
	if x.stalledFor(rollouts.StalledAborted, rollouts.StalledStableGone, rollouts.StalledStableEdited, rollouts.StalledUnsupported, rollouts.StalledRefused, rollouts.StalledOccupied) {
		return false // it says already why it does not move
	}
	p := x.progress()
	switch x.status.Phase {
	case rollouts.PhaseTerminating, rollouts.PhaseDisabling:
		return true
	case rollouts.PhaseProgressing:
	default:
		return false
	}
	switch x.activity() {
	case rollouts.ActivityPaused, rollouts.ActivityCompleted, rollouts.ActivityNone:
		return false
	case rollouts.ActivityAborted:
		return p.RollingBack
	case rollouts.ActivityInRolling:
		return p.State != rollouts.StepPaused || x.superseding()
	default:
		return true
	}
}

// superseding reports whether another template is taking over, whatever the step of
// the one before was at.
func (x *pass) superseding() bool {
	p := x.progress()
	return p.FinalisingStep != "" && p.State != rollouts.BeforeStepUpgrade
}

// moved reports whether this pass takes the release further.
func (x *pass) moved() bool {
	was, p := x.was(), x.progress()
	return x.Rollout.Status.Phase != x.status.Phase || x.Rollout.Status.Activity() != x.activity() ||
		was.State != p.State || was.CurrentStepIndex != p.CurrentStepIndex ||
		was.FinalisingStep != p.FinalisingStep || was.UpdateRevision != p.UpdateRevision ||
		x.lacks() != "" && was.Message != p.Message
}

// rescaled reports whether somebody has changed the workload, so that its pods are
// counted anew; that alone is no progress.
func (x *pass) rescaled() bool {
	return x.was().ObservedWorkloadGeneration != x.progress().ObservedWorkloadGeneration
}

// progressCounter measures how far the pods have come that are waited for. Only the highest
// counts, so that a pod that starts and dies, over and over, is no progress.
func (x *pass) progressCounter() int32 {
	w := x.w
	switch {
	case w == nil:
		return 0
	case x.aborted():
		return w.StableReadyReplicas - w.UpdatedReplicas - w.SupersededReplicas
	case x.status.Phase != rollouts.PhaseProgressing, x.ending():
		return w.LiveReadyReplicas - w.StableReplicas
	default:
		return w.UpdatedReplicas + w.UpdatedReadyReplicas
	}
}

// object names what stands still.
func (x *pass) object() string {
	if missing := x.lacks(); missing != "" {
		return missing
	}
	if ref := x.Rollout.Spec.WorkloadRef; ref != nil {
		return strings.ToLower(ref.Kind) + "/" + ref.Name
	}
	return "the workload"
}

// standstill is what is waited for, with numbers where they explain it.
func (x *pass) standstill() string {
	message := strings.TrimSuffix(x.status.Message, ".")
	p, w := x.progress(), x.w
	if w == nil || x.activity() != rollouts.ActivityInRolling || p.State != rollouts.StepUpgrade || x.superseding() {
		return message
	}
	desired := x.given()
	message += fmt.Sprintf("; %d of %d new pods are ready", min(w.UpdatedReadyReplicas, desired), desired)
	if t := x.release.FailureThreshold; t != nil {
		message += fmt.Sprintf(", and failureThreshold %s tolerates %d that are not", t.String(), tolerance(x.style, t, w.UpdatedReplicas))
	}
	return message
}

// helps is what a user can do about it; the first row that applies. Another
// template helps but in the blue-green style, where it would be refused.
var helps = []struct {
	applies func(*pass) bool
	what    string
}{
	{
		func(x *pass) bool {
			return x.status.Phase == rollouts.PhaseTerminating || x.status.Phase == rollouts.PhaseDisabling
		},
		"the workload is given back when this is mended, or when another template is set",
	},
	{
		func(x *pass) bool {
			return x.lacks() != "" && !x.doing(rollouts.ActivityAborting)
		},
		"create it, or abort, or roll back",
	},
	{while(rollouts.ActivityAborting), "mend the pods of the stable revision, set another template, or retry the release"},
	{while(rollouts.ActivityAborted), "see why the template cannot be set, or set it yourself"},
	{while(rollouts.ActivityCancelling), "mend these pods, or set another template"},
	{
		func(x *pass) bool { return x.doing(rollouts.ActivityFinalising) && abortable(x.style, x.progress()) },
		"mend this, abort, or roll back",
	},
	{while(rollouts.ActivityFinalising), "mend these pods, or set another template, or the earlier one"},
	{
		func(x *pass) bool {
			return x.progress().State == rollouts.StepUpgrade && x.style == rollouts.StyleBlueGreen
		},
		"mend these pods, abort, or roll back",
	},
	{
		func(x *pass) bool { return x.progress().State == rollouts.StepUpgrade },
		"mend these pods, set another template, abort, or roll back",
	},
	{func(*pass) bool { return true }, "mend this, abort, or roll back"},
}

func while(a rollouts.Activity) func(*pass) bool {
	return func(x *pass) bool { return x.doing(a) }
}

func (x *pass) help() string {
	for _, h := range helps {
		if h.applies(x) {
			return h.what
		}
	}
	return ""
}
