// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

const aboutWait = `Wait for the current release only. If the workload has a change that Weir has not
processed yet, wait for the release of that change. If there is no release, wait for
the Rollout as it is.

  kubectl weir wait web --for=healthy --timeout=30m
  kubectl weir wait web --for=waiting,healthy

If several conditions are given, the first one reached wins:
  healthy   the release is over, and all pods run the new version
  waiting   someone has to act, for example approve a step (paused means the same)
  step=N    step N has its pods and its traffic, or is over
  aborted   the abort is complete

Exit codes: 0 reached; 1 usage error, missing permission or no such Rollout; 3 someone
has to act (--no-people); 4 aborted, cancelled or superseded; 5 stalled; 124 timeout.`

// waitCommand holds the flags of wait.
type waitCommand struct {
	*app
	conditions []string
	timeout    time.Duration
	noPeople   bool
}

func newWait(a *app) *cobra.Command {
	w := &waitCommand{app: a}
	cmd := a.newRolloutCommand("wait NAME", "Wait for a release in CI, with an exit code for each result", cobra.ExactArgs(1), w.run)
	cmd.Aliases, cmd.Long = []string{"status"}, aboutWait
	f := cmd.Flags()
	f.StringSliceVar(&w.conditions, "for", []string{"healthy"}, "healthy, waiting, step=N or aborted; the first one reached wins")
	f.DurationVar(&w.timeout, "timeout", 30*time.Minute, "how long to wait; 0 checks once and returns")
	f.BoolVar(&w.noPeople, "no-people", false, "for unattended jobs: exit with code 3 as soon as someone has to act")
	return cmd
}

// validateConditions validates --for.
func validateConditions(conditions []string) error {
	for _, c := range conditions {
		step, isStep := strings.CutPrefix(c, "step=")
		if n, err := strconv.Atoi(step); isStep && err == nil && n > 0 {
			continue
		}
		if !slices.Contains([]string{"healthy", "waiting", "paused", "aborted"}, c) {
			return fmt.Errorf("--for=%s must be healthy, waiting, step=N or aborted", c)
		}
	}
	return nil
}

// pollInterval is the interval between two reads.
const pollInterval = time.Second

func (w *waitCommand) run(ctx context.Context, t *target, _ []string) error {
	if err := validateConditions(w.conditions); err != nil {
		return err
	}
	return w.wait(ctx, t)
}

// wait polls until one of the conditions holds or cannot hold any more.
func (w *waitCommand) wait(ctx context.Context, t *target) error {
	began, known := w.clock.Now(), ""
	bound := &waitedRelease{conditions: w.conditions, noPeople: w.noPeople}
	for ctx.Err() == nil {
		seen, err := pollOnce(ctx, t, bound)
		if err != nil && !isLost(err) {
			return err
		}
		if err != nil {
			seen = poll{why: v1beta1.RolloutWhy{Summary: errorText(err)}}
		} else if end := bound.decideEnd(&seen); end != nil {
			return w.finish(t, end)
		}
		if key := waitKey(&seen.why); key != known {
			known = key
			fmt.Fprintf(w.Out, "%s %s\n", w.clock.Now().Format(time.TimeOnly), seen.why.Summary)
		}
		if w.clock.Since(began) >= w.timeout {
			return &exitError{exitTimeout, fmt.Sprintf("not %s after %s: %s", strings.Join(w.conditions, ", "), w.timeout, seen.why.Summary)}
		}
		w.sleep(ctx, pollInterval)
	}
	return ctx.Err()
}

func (w *waitCommand) finish(t *target, finish *exitError) error {
	if finish.code != 0 {
		return finish
	}
	fmt.Fprintf(w.Out, "%s: %s\n", resourceName(t.name), finish.text)
	return nil
}

// waitKey returns a key that changes with every change that should be printed.
func waitKey(w *v1beta1.RolloutWhy) string {
	if w.State == "" {
		return w.Summary // the server did not answer
	}
	return fmt.Sprint(w.State, w.WaitingFor.For, w.WaitingFor.What, w.Release)
}

// poll is the result of one poll.
type poll struct {
	why v1beta1.RolloutWhy
	// rollout is set only for conditions about steps.
	rollout v1beta1.Rollout
	// ended is the record of the release that was waited for, if the release is over.
	ended *v1beta1.PastRelease
}

// pollOnce reads the data for the next decision.
func pollOnce(ctx context.Context, t *target, b *waitedRelease) (seen poll, err error) {
	why, err := read[v1beta1.RolloutWhy](ctx, t, "why")
	if err != nil {
		return seen, err
	}
	seen.why = why.value
	if slices.ContainsFunc(b.conditions, isStep) {
		rollout, err := read[v1beta1.Rollout](ctx, t, "")
		if err != nil {
			return seen, err
		}
		seen.rollout = rollout.value
	}
	b.bind(&seen.why)
	if !b.isOver(&seen.why) {
		return seen, nil
	}
	past, err := read[v1beta1.RolloutReleases](ctx, t, "history")
	for i := range past.value.Releases {
		if r := &past.value.Releases[i]; r.Number == b.release.Number {
			seen.ended = r
		}
	}
	return seen, err
}

func isStep(condition string) bool { return strings.HasPrefix(condition, "step=") }

// waitedRelease identifies the release that is waited for: the first one that was seen. Its number identifies it; the
// revision is another one once the stable template was set again.
type waitedRelease struct {
	conditions []string
	noPeople   bool
	uid        types.UID
	release    *v1beta1.ReleaseRef
	// before is the release in progress while Weir has not processed the latest change of the workload.
	before *v1beta1.ReleaseRef
}

// bind chooses the release that is waited for, once Weir has processed the latest change of the workload. If this change
// did not start a release, it has cancelled the one that was in progress.
func (b *waitedRelease) bind(w *v1beta1.RolloutWhy) {
	b.uid = cmp.Or(b.uid, w.UID)
	switch {
	case b.release != nil:
	case w.Workload.Seen < w.Workload.Generation:
		b.before = cmp.Or(w.Release.DeepCopy(), b.before)
	default:
		b.release = cmp.Or(w.Release.DeepCopy(), b.before)
	}
}

// isOver reports whether the release that is waited for has ended or was replaced.
func (b *waitedRelease) isOver(w *v1beta1.RolloutWhy) bool {
	return b.release != nil && (w.Release == nil || w.Release.Number != b.release.Number)
}

// decideEnd returns how the wait ends; nil if it continues.
func (b *waitedRelease) decideEnd(seen *poll) *exitError {
	w := &seen.why
	switch missing := findMissingStep(b.conditions, &seen.rollout); {
	case missing != nil:
		return missing
	case b.uid != w.UID:
		return &exitError{exitAborted, "the Rollout was deleted, and another one has its name"}
	case b.release == nil && w.Workload.Seen < w.Workload.Generation:
		return nil
	case b.isOver(w) && seen.ended == nil && w.Release == nil:
		return nil // the record comes later: that of the latest release is always kept
	case b.isOver(w):
		return b.decideAfterEnd(seen.ended)
	}
	for _, c := range b.conditions {
		if isReached(c, seen) {
			return &exitError{0, c + ": " + w.Summary}
		}
	}
	return b.findHopeless(w)
}

// findMissingStep returns an error about a step that the plan does not have; nil if there is none.
func findMissingStep(conditions []string, r *v1beta1.Rollout) *exitError {
	var steps []v1beta1.Step
	switch s := r.Spec.Strategy; {
	case s.Canary != nil:
		steps = s.Canary.Steps
	case s.BlueGreen != nil:
		steps = s.BlueGreen.Steps
	}
	for _, c := range conditions {
		if n, err := strconv.Atoi(strings.TrimPrefix(c, "step=")); err == nil && len(steps) > 0 && n > len(steps) {
			return &exitError{exitFailed, fmt.Sprintf("--for=%s: the plan has the steps 1 to %d", c, len(steps))}
		}
	}
	return nil
}

// findHopeless returns an error if no condition can hold any more; nil otherwise.
func (b *waitedRelease) findHopeless(w *v1beta1.RolloutWhy) *exitError {
	switch {
	case w.State == "Stalled":
		return &exitError{exitStalled, w.Summary}
	case b.release == nil:
		return nil
	case w.State == "Aborted", w.State == "Aborting" && !slices.Contains(b.conditions, "aborted"):
		return &exitError{exitAborted, w.Summary}
	case b.noPeople && needsPerson(w):
		return &exitError{exitPerson, w.Summary}
	}
	return nil
}

// decideAfterEnd returns how the wait ends after the release is over.
func (b *waitedRelease) decideAfterEnd(r *v1beta1.PastRelease) *exitError {
	if r == nil {
		return &exitError{exitFailed, fmt.Sprintf("release %d is over, but its outcome is not recorded", b.release.Number)}
	}
	text := fmt.Sprintf("release %d: %s", r.Number, r.Outcome)
	for _, c := range b.conditions {
		if r.Outcome == v1beta1.ReleaseSucceeded && (c == "healthy" || isStep(c)) || r.Outcome == v1beta1.ReleaseAborted && c == "aborted" {
			return &exitError{0, c + ": " + text}
		}
	}
	if r.Outcome == "" {
		return nil // the record is not complete yet
	}
	return &exitError{exitAborted, text}
}

// isReached reports whether a condition holds.
func isReached(condition string, seen *poll) bool {
	w := &seen.why
	switch {
	case condition == "healthy":
		return w.Release == nil && w.State == "AtRest" && w.WaitingFor.For == ""
	case w.Release == nil:
		return false
	case condition == "aborted":
		return w.State == "Aborted"
	case w.State == "Aborted", w.State == "Aborting":
		return false
	case condition == "waiting", condition == "paused": // paused is the older name
		return needsPerson(w)
	}
	n, _ := strconv.ParseInt(strings.TrimPrefix(condition, "step="), 10, 32) // checkFor has validated the number
	return hasStep(&seen.rollout.Status, int32(n))
}

// hasStep reports whether a step has its pods and its traffic, or is over.
func hasStep(s *v1beta1.RolloutStatus, n int32) bool {
	return s.CurrentStepIndex > n || s.CurrentStepIndex == n && slices.Contains(statesInPlace, s.CurrentStepState)
}

// statesInPlace are the states in which a step has its pods and its traffic.
var statesInPlace = []v1beta1.StepState{v1beta1.StepMetricsAnalysis, v1beta1.StepPaused, v1beta1.StepReady, v1beta1.StepCompleted}

// needsPerson reports whether only a person can make the release continue.
func needsPerson(w *v1beta1.RolloutWhy) bool {
	return w.State == "Paused" || strings.EqualFold(w.WaitingFor.For, "approval") || strings.EqualFold(w.WaitingFor.For, "decision")
}
