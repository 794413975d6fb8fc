// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package why explains what a Rollout waits for, since when, and what would help. It is pure: it reads
// what the deciding code has stored, and applies verbs to a copy to learn what they would do. It must not
// know who asks, nor what they may do.
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

// The states in the API.
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

// Facts are observations in addition to the Rollout. Each may be missing.
type Facts struct {
	Now time.Time
	// Batch is the BatchRelease of the Rollout.
	Batch *rollouts.BatchRelease
	// Images are the images that the release changes.
	Images []rollouts.ImageChange
	// Generation is the generation of the workload. ProgressDeadline is the deadline in the
	// workload's spec, in seconds.
	Generation       int64
	ProgressDeadline int32
}

// Explain returns everything about a Rollout except the actions.
func Explain(r *rollouts.Rollout, f Facts) rollouts.RolloutWhy {
	s, waiting := planner.StateOf(r), planner.WaitingFor(r)
	w := rollouts.RolloutWhy{
		ObjectMeta: metav1.ObjectMeta{Name: r.Name, Namespace: r.Namespace, UID: r.UID, ResourceVersion: r.ResourceVersion},
		State:      wireState(r, s, waiting),
		Release:    releaseRef(r, s, f.Images),
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

// wireStates are the API's states of releases. The state during a step depends on what the step
// waits for.
var wireStates = map[planner.State]string{
	planner.StateIdle: AtRest, planner.StateWorkloadGone: Ending, planner.StateLeaving: Ending, planner.StateLeavingAborted: Ending,
	planner.StateInitializing: Moving, planner.StateRefused: Stalled, planner.StatePaused: Paused, planner.StateSuperseding: Moving,
	planner.StateAborted: Aborted, planner.StateFinalising: Ending, planner.StateRestoring: Ending, planner.StateCancelling: Ending,
}

func wireState(r *rollouts.Rollout, s planner.State, w planner.Waiting) string {
	stalled := r.Status.Stalled()
	switch {
	case stalled != nil && stalled.Reason != string(rollouts.StalledAborted):
		return Stalled
	case s == planner.StateAborted && w.For != planner.WaitDecision:
		return Aborting
	case s != planner.StateInStep:
		return wireStates[s]
	case w.For == planner.WaitPods, w.For == planner.WaitTraffic, w.For == planner.WaitController:
		return Moving
	default:
		return Waiting
	}
}

// releaseRef identifies the release under way; nil if there is none.
func releaseRef(r *rollouts.Rollout, s planner.State, images []rollouts.ImageChange) *rollouts.ReleaseRef {
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

// VersionName returns a name of the release for users: the tag of the image if only one image
// changes, or else the revision.
func VersionName(ref *rollouts.ReleaseRef) string {
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
		if f.Now.After(until.Time) { // the step waits for something else, for example for new pods that crash
			out.Until, out.What = nil, r.Status.Message
		}
	}
	out.Deadline = deadline(r, f.ProgressDeadline)
	return out
}

// deadline returns when the release is stalled without progress; nil if there is no deadline.
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

// summary returns one sentence for users.
func summary(r *rollouts.Rollout, s planner.State, waiting planner.Waiting, w *rollouts.RolloutWhy, now time.Time) string {
	switch s {
	case planner.StateIdle:
		return idleSummary(r, waiting)
	case planner.StateInStep:
		return stepSummary(r, waiting, w, now)
	}
	text := sentence(s.Explain(r))
	switch waiting.For {
	case planner.WaitPods, planner.WaitTraffic, planner.WaitWorkload:
		text += " It waits for: " + waiting.Text + sinceText(waiting, now) + "."
	}
	return text
}

func idleSummary(r *rollouts.Rollout, waiting planner.Waiting) string {
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

// waitDescriptions describe what a step waits for, within a sentence.
var waitDescriptions = map[planner.Wait]string{
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
	what := waitDescriptions[waiting.For]
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
	text := fmt.Sprintf("Step %d of %d of %s %s for %s", p.CurrentStepIndex, steps, VersionName(w.Release), does, what)
	if until := w.WaitingFor.Until; until != nil {
		text += " at " + until.UTC().Format(time.RFC3339)
	}
	text += sinceText(waiting, now)
	if waiting.For == planner.WaitTime && w.WaitingFor.Until == nil {
		return text + ": " + strings.TrimSuffix(w.WaitingFor.What, ".") + "."
	}
	if p.Message != "" && waitDescriptions[waiting.For] != "" {
		text += ": " + strings.TrimSuffix(p.Message, ".")
	}
	return text + "."
}

// sinceText returns how long ago a wait began, in one unit.
func sinceText(w planner.Waiting, now time.Time) string {
	if w.Since.IsZero() {
		return ""
	}
	return ", since " + durationText(now.Sub(w.Since.Time))
}

// durationUnits are the units of durations, the longest first.
var durationUnits = []struct {
	name string
	long time.Duration
}{{"day", 24 * time.Hour}, {"hour", time.Hour}, {"minute", time.Minute}, {"second", time.Second}}

func durationText(d time.Duration) string {
	for i, u := range durationUnits {
		n := int(d / u.long)
		if n >= 2 || n == 1 && i > 0 && d < 2*u.long || i == len(durationUnits)-1 {
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

// sentence turns a clause into a sentence.
func sentence(text string) string {
	text = strings.TrimSuffix(text, ".")
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}
