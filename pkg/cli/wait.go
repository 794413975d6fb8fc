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

const aboutWait = `Wait for the release that is under way, and no other. Without one, wait for the
Rollout as it is; a change of the workload that Weir has not seen yet is waited for.

  kubectl weir wait web --for=healthy --timeout=30m
  kubectl weir wait web --for=paused,healthy --no-people

Of several conditions the first one counts:
  healthy   the release is over, and every pod runs the new version
  paused    it waits for a person
  step=N    step N has its pods and its traffic, or is over
  aborted   the abort is complete

Exit codes: 0 reached; 1 usage, permission, no such Rollout; 3 a person has to act
(--no-people); 4 aborted, cancelled or superseded; 5 stalled; 124 timeout.`

// waiting are the flags of wait.
type waiting struct {
	*app
	conditions []string
	timeout    time.Duration
	noPeople   bool
}

func newWait(a *app) *cobra.Command {
	w := &waiting{app: a}
	cmd := a.about("wait NAME", "Wait for a release, with an exit code for scripts", cobra.ExactArgs(1), w.run)
	cmd.Aliases, cmd.Long = []string{"status"}, aboutWait
	f := cmd.Flags()
	f.StringSliceVar(&w.conditions, "for", []string{"healthy"}, "healthy, paused, step=N or aborted; the first one counts")
	f.DurationVar(&w.timeout, "timeout", 30*time.Minute, "how long to wait; 0 looks once")
	f.BoolVar(&w.noPeople, "no-people", false, "end with 3 as soon as a person has to act")
	return cmd
}

// checkFor reads --for.
func checkFor(conditions []string) error {
	for _, c := range conditions {
		step, isStep := strings.CutPrefix(c, "step=")
		if n, err := strconv.Atoi(step); isStep && err == nil && n > 0 {
			continue
		}
		if !slices.Contains([]string{"healthy", "paused", "aborted"}, c) {
			return fmt.Errorf("--for=%s must be healthy, paused, step=N or aborted", c)
		}
	}
	return nil
}

// pollEvery is how often the server is asked.
const pollEvery = time.Second

func (w *waiting) run(ctx context.Context, t *target, _ []string) error {
	if err := checkFor(w.conditions); err != nil {
		return err
	}
	return w.wait(ctx, t)
}

// wait looks until the release has come to an end that counts.
func (w *waiting) wait(ctx context.Context, t *target) error {
	began, known := w.clock.Now(), ""
	bound := &binding{conditions: w.conditions, noPeople: w.noPeople}
	for ctx.Err() == nil {
		seen, err := look(ctx, t, bound)
		if err != nil && !isLost(err) {
			return err
		}
		if err != nil {
			seen = sight{why: v1beta1.RolloutWhy{Summary: said(err)}}
		} else if end := bound.judge(&seen); end != nil {
			return w.end(t, end)
		}
		if key := keyOfWait(&seen.why); key != known {
			known = key
			fmt.Fprintf(w.Out, "%s %s\n", w.clock.Now().Format(time.TimeOnly), seen.why.Summary)
		}
		if w.clock.Since(began) >= w.timeout {
			return &exit{exitTimeout, fmt.Sprintf("not %s after %s: %s", strings.Join(w.conditions, ", "), w.timeout, seen.why.Summary)}
		}
		w.sleep(ctx, pollEvery)
	}
	return ctx.Err()
}

func (w *waiting) end(t *target, end *exit) error {
	if end.code != 0 {
		return end
	}
	fmt.Fprintf(w.Out, "%s: %s\n", fullName(t.name), end.text)
	return nil
}

// keyOfWait is the same as long as nothing but time passes.
func keyOfWait(w *v1beta1.RolloutWhy) string {
	if w.State == "" {
		return w.Summary // of a server that did not answer
	}
	return fmt.Sprint(w.State, w.WaitingFor.For, w.WaitingFor.What, w.Release)
}

// sight is what one look has shown.
type sight struct {
	why v1beta1.RolloutWhy
	// rollout is read for conditions about steps.
	rollout v1beta1.Rollout
	// ended is the release that was waited for, where it is no longer under way.
	ended *v1beta1.PastRelease
}

// look asks what is needed for the next judgement.
func look(ctx context.Context, t *target, b *binding) (seen sight, err error) {
	why, err := read[v1beta1.RolloutWhy](ctx, t, "why")
	if err != nil {
		return seen, err
	}
	seen.why = why.it
	if slices.ContainsFunc(b.conditions, isStep) {
		rollout, err := read[v1beta1.Rollout](ctx, t, "")
		if err != nil {
			return seen, err
		}
		seen.rollout = rollout.it
	}
	if !b.isOver(&seen.why) {
		return seen, nil
	}
	past, err := read[v1beta1.RolloutReleases](ctx, t, "history")
	for i := range past.it.Releases {
		if r := &past.it.Releases[i]; same(b.release, &r.ReleaseRef) {
			seen.ended = r
		}
	}
	return seen, err
}

func isStep(condition string) bool { return strings.HasPrefix(condition, "step=") }

func same(a, b *v1beta1.ReleaseRef) bool {
	return a != nil && b != nil && a.Number == b.Number && a.Revision == b.Revision
}

// binding is the release that is waited for, from the first one that was seen.
type binding struct {
	conditions []string
	noPeople   bool
	uid        types.UID
	release    *v1beta1.ReleaseRef
}

// isOver reports whether the release that is waited for is no longer under way.
func (b *binding) isOver(w *v1beta1.RolloutWhy) bool {
	return b.release != nil && !same(b.release, w.Release)
}

// judge says how the wait ends; nil if it goes on.
func (b *binding) judge(seen *sight) *exit {
	w := &seen.why
	unseen := w.Workload.Seen < w.Workload.Generation
	b.uid = cmp.Or(b.uid, w.UID)
	if b.release == nil && !unseen {
		b.release = w.Release.DeepCopy()
	}
	switch {
	case b.uid != w.UID:
		return &exit{exitAborted, "another Rollout has its name now"}
	case b.release == nil && unseen:
		return nil
	case b.isOver(w):
		return b.ended(seen.ended)
	}
	for _, c := range b.conditions {
		if reached(c, seen) {
			return &exit{0, c + ": " + w.Summary}
		}
	}
	return b.hopeless(w)
}

// hopeless says why no condition will hold; nil if one may.
func (b *binding) hopeless(w *v1beta1.RolloutWhy) *exit {
	switch {
	case w.State == "Stalled":
		return &exit{exitStalled, w.Summary}
	case b.release == nil:
		return nil
	case w.State == "Aborted", w.State == "Aborting" && !slices.Contains(b.conditions, "aborted"):
		return &exit{exitAborted, w.Summary}
	case b.noPeople && needsPerson(w):
		return &exit{exitPerson, w.Summary}
	}
	return nil
}

// ended judges a release that is over.
func (b *binding) ended(r *v1beta1.PastRelease) *exit {
	if r == nil {
		return &exit{exitFailed, fmt.Sprintf("release %d is over, and its outcome is not on record", b.release.Number)}
	}
	text := fmt.Sprintf("release %d: %s", r.Number, r.Outcome)
	for _, c := range b.conditions {
		if r.Outcome == v1beta1.ReleaseSucceeded && (c == "healthy" || isStep(c)) || r.Outcome == v1beta1.ReleaseAborted && c == "aborted" {
			return &exit{0, c + ": " + text}
		}
	}
	if r.Outcome == "" {
		return nil // its record is written in a moment
	}
	return &exit{exitAborted, text}
}

// reached reports whether a condition holds.
func reached(condition string, seen *sight) bool {
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
	case condition == "paused":
		return w.State == "Paused" || w.State == "Waiting" && needsPerson(w)
	}
	n, _ := strconv.ParseInt(strings.TrimPrefix(condition, "step="), 10, 32) // checkFor has
	return hasStep(&seen.rollout.Status, int32(n))
}

// hasStep reports whether a step has its pods and its traffic, or is over.
func hasStep(s *v1beta1.RolloutStatus, n int32) bool {
	return s.CurrentStepIndex > n || s.CurrentStepIndex == n && slices.Contains(inPlace, s.CurrentStepState)
}

// inPlace are the states in which a step has its pods and its traffic.
var inPlace = []v1beta1.StepState{v1beta1.StepMetricsAnalysis, v1beta1.StepPaused, v1beta1.StepReady, v1beta1.StepCompleted}

// needsPerson reports whether nothing but a person makes the release go on.
func needsPerson(w *v1beta1.RolloutWhy) bool {
	return w.State == "Paused" || strings.EqualFold(w.WaitingFor.For, "approval") || strings.EqualFold(w.WaitingFor.For, "decision")
}
