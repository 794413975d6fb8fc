// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package why answers what a Rollout waits for, since when, and what would help. It is pure:
// it reads what the deciding code has stored, and asks that code what a verb would do. It
// must not know who asks, nor what they may do.
package why

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// The states on the wire.
const (
	AtRest   = "AtRest"
	Moving   = "Moving"
	Waiting  = "Waiting"
	Stalled  = "Stalled"
	Paused   = "Paused"
	Aborting = "Aborting"
	Aborted  = "Aborted"
	Ending   = "Ending"
)

// Facts are what is known beside the Rollout. Each may be missing.
type Facts struct {
	Now time.Time
	// Batch is the BatchRelease of the Rollout.
	Batch *rollouts.BatchRelease
	// Images are those that the release changes.
	Images []rollouts.ImageChange
	// Generation is that of the workload, and ProgressDeadline what its owner wrote, in seconds.
	Generation       int64
	ProgressDeadline int32
}

// Of says it of a Rollout, but for the actions.
func Of(r *rollouts.Rollout, f Facts) rollouts.RolloutWhy {
	s, waiting := planner.StateOf(r), planner.WaitingFor(r)
	w := rollouts.RolloutWhy{
		ObjectMeta: metav1.ObjectMeta{Name: r.Name, Namespace: r.Namespace, UID: r.UID, ResourceVersion: r.ResourceVersion},
		State:      stateOf(r, s, waiting),
		Release:    releaseOf(r, s, f.Images),
		WaitingFor: waitingFor(r, s, waiting, f),
		Causes:     causes(r, s, f.Batch),
		Workload:   rollouts.WorkloadSeen{Generation: f.Generation},
		Contact:    rollouts.Clean(r.Annotations[rollouts.AnnotationContact], rollouts.MaxReason),
	}
	if p := r.Status.Active(); p != nil && f.Generation > 0 {
		w.Workload.Seen = p.ObservedWorkloadGeneration
	}
	w.Summary = summary(r, s, waiting, &w, f.Now)
	return w
}

// states of releases on the wire; those of a step depend on what it waits for.
var states = map[planner.State]string{
	planner.StateIdle: AtRest, planner.StateWorkloadGone: Ending, planner.StateLeaving: Ending, planner.StateLeavingAborted: Ending,
	planner.StateInitializing: Moving, planner.StateRefused: Stalled, planner.StatePaused: Paused, planner.StateSuperseding: Moving,
	planner.StateAborted: Aborted, planner.StateFinalising: Ending, planner.StateRestoring: Ending, planner.StateCancelling: Ending,
}

func stateOf(r *rollouts.Rollout, s planner.State, w planner.Waiting) string {
	stalled := r.Status.Stalled()
	switch {
	case stalled != nil && stalled.Reason != string(rollouts.StalledAborted):
		return Stalled
	case s == planner.StateAborted && w.For != planner.WaitDecision:
		return Aborting
	case s != planner.StateInStep:
		return states[s]
	case w.For == planner.WaitPods, w.For == planner.WaitTraffic, w.For == planner.WaitController:
		return Moving
	default:
		return Waiting
	}
}

// releaseOf names the release under way; nil at rest.
func releaseOf(r *rollouts.Rollout, s planner.State, images []rollouts.ImageChange) *rollouts.ReleaseRef {
	p := r.Status.Active()
	if p == nil || s == planner.StateIdle {
		return nil
	}
	ref := &rollouts.ReleaseRef{Stable: p.StableRevision, Revision: p.UpdateRevision, Images: images}
	if n := len(r.Status.Releases); n > 0 {
		ref.Number = r.Status.Releases[n-1].Number
	}
	return ref
}

// Version names what is released for a person: the tag of the only image that changes, or
// else the revision.
func Version(ref *rollouts.ReleaseRef) string {
	if len(ref.Images) == 1 {
		to := ref.Images[0].To
		if at := strings.LastIndex(to, ":"); at > strings.LastIndex(to, "/") && !strings.Contains(to, "@") {
			return to[at+1:]
		}
	}
	return cmp.Or(ref.Revision, "a new version")
}

func waitingFor(r *rollouts.Rollout, s planner.State, w planner.Waiting, f Facts) rollouts.WaitingFor {
	if w.For == planner.WaitNothing {
		return rollouts.WaitingFor{}
	}
	out := rollouts.WaitingFor{For: string(w.For), What: w.Text}
	if !w.Since.IsZero() {
		out.Since = &w.Since
	}
	if until := planner.PauseEnd(r); s == planner.StateInStep && !until.IsZero() {
		out.Until = &until
		if f.Now.After(until.Time) { // something else holds the step, such as new pods that crash
			out.Until, out.What = nil, r.Status.Message
		}
	}
	out.Deadline = deadline(r, f.ProgressDeadline)
	return out
}

// deadline is when the release is stalled without progress; nil where none runs.
func deadline(r *rollouts.Rollout, ofWorkload int32) *metav1.Time {
	p := r.Status.Active()
	_, release := r.Spec.Strategy.Active()
	if p == nil || p.LastProgressTime == nil || release == nil {
		return nil
	}
	seconds := cmp.Or(ofWorkload, planner.DefaultProgressDeadlineSeconds)
	if own := release.ProgressDeadlineSeconds; own != nil {
		seconds = *own
	}
	if seconds == math.MaxInt32 {
		return nil
	}
	at := metav1.NewTime(p.LastProgressTime.Add(time.Duration(seconds) * time.Second))
	return &at
}

// summary is one sentence for a person.
func summary(r *rollouts.Rollout, s planner.State, waiting planner.Waiting, w *rollouts.RolloutWhy, now time.Time) string {
	switch s {
	case planner.StateIdle:
		return atRest(r, waiting)
	case planner.StateInStep:
		return stepSummary(r, waiting, w, now)
	}
	text := sentence(s.Explain(r))
	switch waiting.For {
	case planner.WaitPods, planner.WaitTraffic, planner.WaitWorkload:
		text += " It waits for: " + waiting.Text + since(waiting, now) + "."
	}
	return text
}

func atRest(r *rollouts.Rollout, waiting planner.Waiting) string {
	c := r.Status.Stalled()
	switch {
	case c != nil:
		return sentence("nothing can be released: " + c.Message)
	case waiting.For != planner.WaitNothing:
		return sentence("no release is under way; the Rollout waits for: " + waiting.Text)
	case r.Status.Phase == rollouts.PhaseDisabled:
		return "The Rollout is disabled: changes of the workload are not held."
	default:
		return "No release is under way."
	}
}

// waits say what a step waits for, within a sentence.
var waits = map[planner.Wait]string{
	planner.WaitApproval: "an approval", planner.WaitTime: "the end of its pause", planner.WaitPods: "its pods",
	planner.WaitTraffic: "its traffic", planner.WaitChecks: "its checks", planner.WaitController: "the controller",
}

func stepSummary(r *rollouts.Rollout, waiting planner.Waiting, w *rollouts.RolloutWhy, now time.Time) string {
	p := r.Status.Active()
	_, release := r.Spec.Strategy.Active()
	steps := 0
	if release != nil {
		steps = len(release.Steps)
	}
	what := waits[waiting.For]
	if what == "" {
		what = waiting.Text
	}
	if waiting.For == planner.WaitTime && w.WaitingFor.Until == nil {
		what = "its gates" // the time is over
	}
	does := "waits"
	if w.State == Stalled {
		does = "is stalled, and waits"
	}
	text := fmt.Sprintf("Step %d of %d of %s %s for %s", p.CurrentStepIndex, steps, Version(w.Release), does, what)
	if until := w.WaitingFor.Until; until != nil {
		text += " at " + until.UTC().Format(time.RFC3339)
	}
	text += since(waiting, now)
	if waiting.For == planner.WaitTime && w.WaitingFor.Until == nil {
		return text + ": " + strings.TrimSuffix(w.WaitingFor.What, ".") + "."
	}
	if p.Message != "" && waits[waiting.For] != "" {
		text += ": " + strings.TrimSuffix(p.Message, ".")
	}
	return text + "."
}

// since says how long ago a wait began, in one unit.
func since(w planner.Waiting, now time.Time) string {
	if w.Since.IsZero() {
		return ""
	}
	return ", since " + span(now.Sub(w.Since.Time))
}

// units of spans, the longest first.
var units = []struct {
	name string
	long time.Duration
}{{"day", 24 * time.Hour}, {"hour", time.Hour}, {"minute", time.Minute}, {"second", time.Second}}

func span(d time.Duration) string {
	for i, u := range units {
		n := int(d / u.long)
		if n >= 2 || n == 1 && i > 0 && d < 2*u.long || i == len(units)-1 {
			return plural(max(n, 0), u.name)
		}
	}
	return ""
}

func plural(n int, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}

// sentence makes a sentence of a clause.
func sentence(text string) string {
	text = strings.TrimSuffix(text, ".")
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}
