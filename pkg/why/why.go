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
	"github.com/weir-rollouts/weir/pkg/glossary"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// The states in the API.
const (
	AtRest   = "AtRest"
	Moving   = "Moving"
	Waiting  = "Waiting"
	Failing  = "Failing"
	Stalled  = "Stalled"
	Paused   = "Paused"
	Aborting = "Aborting"
	Aborted  = "Aborted"
	Ending   = "Ending"
)

// The states that the API does not have: it calls a Rollout in these states AtRest. Lists show them.
const (
	NotReady = "NotReady"
	Disabled = "Disabled"
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
		return Stalled // a release that has failed for longer than its deadline is stalled
	case r.Status.Failing() != nil:
		return Failing
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

// ShownState returns the state of a Rollout that lists show. It depends on the stored Rollout alone. A Rollout at rest
// that waits for something, such as a workload that does not exist, is not ready for a release.
func ShownState(r *rollouts.Rollout) string {
	waiting := planner.WaitingFor(r)
	state := wireState(r, planner.StateOf(r), waiting)
	switch {
	case state != AtRest:
		return state
	case r.Status.Phase == rollouts.PhaseDisabled:
		return Disabled
	case waiting.For != planner.WaitNothing:
		return NotReady
	}
	return AtRest
}

// Versions returns what lists show about the versions of a Rollout: the versions before and after the release in
// progress, such as "v1 → v2", or else the version that serves after the latest release. It is empty before the first
// release. images are the images that the latest release changes.
func Versions(r *rollouts.Rollout, images []rollouts.ImageChange) string {
	if ref := releaseRef(r, planner.StateOf(r), images); ref != nil {
		from, to := versionNames(ref)
		if from == "" {
			return to
		}
		return from + " → " + to
	}
	latest := LatestRelease(r)
	if latest == nil {
		return ""
	}
	from, to := versionNames(&rollouts.ReleaseRef{Stable: latest.StableRevision, Revision: latest.UpdateRevision, Images: images})
	if latest.Outcome == rollouts.ReleaseSucceeded || latest.Outcome == rollouts.ReleaseBypassed {
		return to
	}
	return from
}

// versionNames returns short names of the versions before and after a release: those of the image if the release
// changes one image, or else the revisions.
func versionNames(ref *rollouts.ReleaseRef) (from, to string) {
	if len(ref.Images) == 1 && ref.Images[0].To != "" {
		return glossary.ShortImage(ref.Images[0].From), glossary.ShortImage(ref.Images[0].To)
	}
	return ref.Stable, ref.Revision
}

// LatestRelease returns the record of the latest release; nil if there was none.
func LatestRelease(r *rollouts.Rollout) *rollouts.ReleaseRecord {
	if n := len(r.Status.Releases); n > 0 {
		return &r.Status.Releases[n-1]
	}
	return nil
}

// releaseRef identifies the release in progress; nil if there is none.
func releaseRef(r *rollouts.Rollout, s planner.State, images []rollouts.ImageChange) *rollouts.ReleaseRef {
	p := r.Status.Active()
	if p == nil || s == planner.StateIdle {
		return nil
	}
	ref := &rollouts.ReleaseRef{Stable: p.StableRevision, Revision: p.UpdateRevision, Images: images}
	if latest := LatestRelease(r); latest != nil {
		ref.Number = latest.Number
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
	switch cause := blockingMessage(r); {
	case cause != "":
		text += " " + sentence(cause)
	case waiting.For == planner.WaitPods, waiting.For == planner.WaitTraffic, waiting.For == planner.WaitWorkload:
		text += " Waiting for " + waiting.Text + waitedText(waiting, now) + "."
	}
	return text
}

// blockingMessage returns the cause for which the release fails; empty if it does not.
func blockingMessage(r *rollouts.Rollout) string {
	c := r.Status.Failing()
	if c == nil {
		return ""
	}
	cause, _ := planner.SplitHelp(c.Message)
	return cause
}

func idleSummary(r *rollouts.Rollout, waiting planner.Waiting) string {
	stalled := r.Status.Stalled()
	switch cause := blockingMessage(r); {
	case cause != "":
		return sentence(cause)
	case stalled != nil:
		return sentence("nothing can be released: " + stalled.Message)
	case waiting.For != planner.WaitNothing:
		return sentence("waiting for " + waiting.Text)
	case r.Status.Phase == rollouts.PhaseDisabled:
		return "The Rollout is disabled: changes of the workload are not held."
	default:
		return "No release in progress."
	}
}

// waitDescriptions describe what a step waits for, within a sentence.
var waitDescriptions = map[planner.Wait]string{
	planner.WaitApproval: "approval", planner.WaitTime: "the end of its pause", planner.WaitPods: "its pods",
	planner.WaitTraffic: "its traffic", planner.WaitChecks: "its checks", planner.WaitController: "the controller",
}

// stepSummary returns one sentence about a step, such as "v2, step 1 of 3: waiting for approval for 14 minutes".
func stepSummary(r *rollouts.Rollout, waiting planner.Waiting, w *rollouts.RolloutWhy, now time.Time) string {
	p := r.Status.Active()
	_, release := r.Spec.Strategy.Active()
	steps := 0
	if release != nil {
		steps = len(release.Steps)
	}
	place := fmt.Sprintf("%s, step %d of %d: ", VersionName(w.Release), p.CurrentStepIndex, steps)
	waited := waitedText(waiting, now)
	if cause := blockingMessage(r); cause != "" {
		return place + strings.ToLower(w.State) + waited + ": " + cause + "."
	}
	what := waitDescriptions[waiting.For]
	explained := what != "" && p.Message != ""
	if what == "" {
		what = waiting.Text
	}
	text := "waiting for " + what
	switch {
	case w.State == Stalled:
		text = "stalled, waiting for " + what
	case w.WaitingFor.Until != nil:
		text = "waiting until " + w.WaitingFor.Until.UTC().Format(time.RFC3339)
	case waiting.For == planner.WaitTime: // the time is over
		return place + "waiting" + waited + ": " + strings.TrimSuffix(w.WaitingFor.What, ".") + "."
	}
	if w.WaitingFor.Until == nil {
		text += waited
	}
	text = place + text
	if explained {
		text += ": " + strings.TrimSuffix(p.Message, ".")
	}
	return text + "."
}

// waitedText returns how long a wait has lasted, in one unit.
func waitedText(w planner.Waiting, now time.Time) string {
	if w.Since.IsZero() {
		return ""
	}
	return " for " + durationText(now.Sub(w.Since.Time))
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
