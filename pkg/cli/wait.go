// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

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
	if b.wantsStep() {
		rollout, err := read[v1beta1.Rollout](ctx, t, "")
		if err != nil {
			return seen, err
		}
		seen.rollout = rollout.it
	}
	if b.release == nil || same(b.release, seen.why.Release) {
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

func same(a, b *v1beta1.ReleaseRef) bool {
	return a != nil && b != nil && a.Number == b.Number && a.Revision == b.Revision
}

// binding is the release that is waited for, from the first one that was seen.
type binding struct {
	conditions []string
	noPeople   bool
	uid        string
	release    *v1beta1.ReleaseRef
}

// judge says how the wait ends; nil if it goes on.
func (b *binding) judge(seen *sight) *exit {
	w := &seen.why
	if b.uid == "" {
		b.uid = string(w.UID)
	}
	if b.release == nil && w.Workload.Seen >= w.Workload.Generation {
		b.release = w.Release.DeepCopy()
	}
	switch {
	case b.uid != string(w.UID):
		return &exit{exitAborted, "another Rollout has its name now"}
	case b.release == nil && w.Workload.Seen < w.Workload.Generation:
		return nil
	case b.release == nil:
		return b.atRest(w)
	case !same(b.release, w.Release):
		return b.ended(seen)
	}
	return b.underWay(seen)
}

// underWay judges the release that is waited for.
func (b *binding) underWay(seen *sight) *exit {
	w := &seen.why
	for _, c := range b.conditions {
		if reached(c, seen) {
			return &exit{0, c + ": " + w.Summary}
		}
	}
	switch {
	case w.State == "Aborted", w.State == "Aborting" && !b.wants("aborted"):
		return &exit{exitAborted, w.Summary}
	case w.State == "Stalled":
		return &exit{exitStalled, w.Summary}
	case b.noPeople && needsPerson(w):
		return &exit{exitPerson, w.Summary}
	}
	return nil
}

func (b *binding) wants(condition string) bool { return slices.Contains(b.conditions, condition) }

func (b *binding) wantsStep() bool {
	return slices.ContainsFunc(b.conditions, func(c string) bool { return strings.HasPrefix(c, "step=") })
}

// atRest judges a Rollout without a release.
func (b *binding) atRest(w *v1beta1.RolloutWhy) *exit {
	switch {
	case w.State == "AtRest" && w.WaitingFor.For == "" && b.wants("healthy"):
		return &exit{0, "healthy: " + w.Summary}
	case w.State == "Stalled":
		return &exit{exitStalled, w.Summary}
	}
	return nil
}

// ended judges a release that is over.
func (b *binding) ended(seen *sight) *exit {
	r := seen.ended
	switch {
	case r == nil:
		return &exit{exitFailed, fmt.Sprintf("release %d is over, and its outcome is not on record", b.release.Number)}
	case r.Outcome == "":
		return nil // its record is written in a moment
	case r.Outcome == v1beta1.ReleaseSucceeded && b.wants("healthy"):
		return &exit{0, fmt.Sprintf("healthy: release %d has succeeded", r.Number)}
	case r.Outcome == v1beta1.ReleaseSucceeded && b.wantsStep():
		return &exit{0, fmt.Sprintf("release %d has succeeded", r.Number)}
	case r.Outcome == v1beta1.ReleaseAborted && b.wants("aborted"):
		return &exit{0, fmt.Sprintf("aborted: release %d was aborted", r.Number)}
	}
	return &exit{exitAborted, fmt.Sprintf("release %d was %s", r.Number, r.Outcome)}
}

// reached reports whether a condition holds for the release under way.
func reached(condition string, seen *sight) bool {
	w := &seen.why
	switch condition {
	case "paused":
		return w.State == "Paused" || w.State == "Waiting" && needsPerson(w)
	case "aborted":
		return w.State == "Aborted"
	case "healthy":
		return false // there is a release
	}
	n, _ := strconv.ParseInt(strings.TrimPrefix(condition, "step="), 10, 32) // checkFor has
	s := &seen.rollout.Status
	return w.State != "Aborting" && w.State != "Aborted" &&
		(s.CurrentStepIndex > int32(n) || s.CurrentStepIndex == int32(n) && slices.Contains(inPlace, s.CurrentStepState))
}

// inPlace are the states in which a step has its pods and its traffic.
var inPlace = []v1beta1.StepState{v1beta1.StepMetricsAnalysis, v1beta1.StepPaused, v1beta1.StepReady, v1beta1.StepCompleted}

// needsPerson reports whether nothing but a person makes the release go on.
func needsPerson(w *v1beta1.RolloutWhy) bool {
	return w.State == "Paused" || strings.EqualFold(w.WaitingFor.For, "approval") || strings.EqualFold(w.WaitingFor.For, "decision")
}
