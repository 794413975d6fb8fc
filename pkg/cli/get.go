// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

func newGet(a *app) *cobra.Command {
	var o *output
	var watch bool
	cmd := a.about("get NAME", "Draw a release: its steps, its shares and its objects", cobra.ExactArgs(1), func(ctx context.Context, t *target, _ []string) error {
		if watch && o.drawn() {
			return a.watch(ctx, t, o.isWide())
		}
		tree, err := read[v1beta1.RolloutTree](ctx, t, "tree")
		if err != nil {
			return err
		}
		p := &picture{tree: &tree.it, wide: o.isWide()}
		if o.drawn() {
			p.look(ctx, t)
		}
		return a.show(o, tree.raw, p.draw)
	})
	o = addOutput(cmd, "wide")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "draw it live, with keys to act; without a terminal, a line for each change")
	return cmd
}

// picture is what a drawing of a release is made of. Plan and release may be missing.
type picture struct {
	tree    *v1beta1.RolloutTree
	plan    *v1beta1.RolloutPlan
	release *v1beta1.PastRelease
	// wide has a line for each pod.
	wide bool
	// ready are the ready pods of both versions, sample by sample.
	ready map[string][]int32
}

// look reads what the tree lacks. A reader without these rights gets less.
func (p *picture) look(ctx context.Context, t *target) {
	var wait sync.WaitGroup
	wait.Go(func() {
		if plan, err := read[v1beta1.RolloutPlan](ctx, t, "plan"); err == nil {
			p.plan = &plan.it
		}
	})
	wait.Go(func() {
		past, err := read[v1beta1.RolloutReleases](ctx, t, "history")
		if err == nil && p.tree.Why.Release != nil && len(past.it.Releases) > 0 {
			p.release = &past.it.Releases[0]
		}
	})
	wait.Wait()
}

// states have a mark and a colour each, beside the word.
var states = map[string][2]string{
	"AtRest": {"✔", green}, "Moving": {"↻", cyan}, "Waiting": {"‖", yellow}, "Stalled": {"✘", red}, "Paused": {"‖", yellow},
	"Aborting": {"↻", red}, "Aborted": {"✘", red}, "Ending": {"↻", cyan},
}

// draw draws a release.
func (p *picture) draw(s screen) string {
	w := &p.tree.Why
	state := states[w.State]
	parts := []string{s.paint(bold, title(&p.tree.ObjectMeta)), s.paint(state[1], strings.TrimSpace(state[0]+" "+w.State))}
	parts = append(parts, named(w.Release)...)
	text := s.wrap(strings.Join(parts, "   "), "  ") + "\n" + s.wrap(w.Summary, "  ") + "\n"
	if w.Contact != "" {
		text += "ask: " + w.Contact + "\n"
	}
	if w.Release != nil {
		text += p.timeline(s) + p.shares(s)
	}
	return text + p.nodes(s) + s.hidden(p.tree.Hidden)
}

// title is the name of a Rollout above a drawing.
func title(meta *metav1.ObjectMeta) string { return meta.Name + " · " + meta.Namespace }

// timeline draws the steps, with who has decided what.
func (p *picture) timeline(s screen) string {
	if p.plan == nil {
		return ""
	}
	var rows [][]string
	for i := range p.plan.Status.Steps {
		step := &p.plan.Status.Steps[i]
		rows = append(rows, []string{" " + stepName(step), percent(step.Traffic), count(step.Update, "pod"), p.took(step.Step), p.who(s, step)})
	}
	return s.table([]column{{keep: always}, {keep: 7, right: true}, {keep: 6, right: true}, {keep: 1, right: true}, {keep: 5}}, rows)
}

// took is how long the pods of a step took the last time.
func (p *picture) took(step int32) (took string) {
	if p.release == nil {
		return ""
	}
	for i := range p.release.Steps {
		if r := &p.release.Steps[i]; r.Step == step && r.EnteredTime != nil && r.UpgradedTime != nil {
			took = duration.HumanDuration(r.UpgradedTime.Sub(r.EnteredTime.Time))
		}
	}
	return took
}

// who says who has decided about a step the last time, or what will end it.
func (p *picture) who(s screen, step *v1beta1.PlannedStep) (who string) {
	switch {
	case p.release == nil && step.State != "Done":
		return then(&step.Then)
	case p.release == nil:
		return ""
	case step.State == "Next":
		who = "then " + then(&step.Then)
	}
	for i := range p.release.Decisions {
		if d := &p.release.Decisions[i]; d.Step == step.Step {
			who = s.decision(d)
		}
	}
	return who
}

// decision says who has decided what, and why.
func (s screen) decision(d *v1beta1.Decision) string {
	text := fmt.Sprintf("%s %s %s", s.at(d.Time), d.User, d.Verb)
	if d.Reason != "" {
		text += ": " + d.Reason
	}
	return text
}

// shares draws the pods and the traffic of both versions.
func (p *picture) shares(s screen) string {
	var rows [][]string
	for i := range p.tree.Nodes {
		n := &p.tree.Nodes[i]
		if n.Role != "revision" || n.Revision != "update" && n.Revision != "stable" {
			continue
		}
		version := " " + n.Revision
		if len(n.Images) == 1 {
			version = " " + short(n.Images[0]) + version
		}
		rows = append(rows, []string{version, bar(n.Traffic), ready(n) + " ready", percent(n.Traffic), sparks(p.ready[n.ID])})
	}
	return s.table([]column{{keep: always}, {keep: 2}, {keep: 7, right: true}, {keep: 8, right: true}, {keep: 1}}, rows)
}

const barWidth = 20

func bar(share *int32) string {
	if share == nil {
		return ""
	}
	full := min(max(int(*share)*barWidth/100, 0), barWidth)
	return strings.Repeat("█", full) + strings.Repeat("░", barWidth-full)
}

// mostSparks is how many samples are drawn.
const mostSparks = 20

// sample keeps how many pods of each version are ready.
func (p *picture) sample() {
	if p.ready == nil {
		p.ready = map[string][]int32{}
	}
	for _, n := range p.tree.Nodes {
		if n.Role == "revision" && n.Ready != nil {
			samples := append(p.ready[n.ID], *n.Ready)
			p.ready[n.ID] = samples[max(len(samples)-mostSparks, 0):]
		}
	}
}

// sparks draws samples, the latest at the right.
func sparks(samples []int32) string {
	most := int32(1)
	for _, n := range samples {
		most = max(most, n)
	}
	signs := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, n := range samples {
		b.WriteRune(signs[max(n, 0)*int32(len(signs)-1)/most])
	}
	return b.String()
}

// hidden says what the viewer may not see.
func (s screen) hidden(kinds []v1beta1.HiddenKind) string {
	var b strings.Builder
	for _, h := range kinds {
		text := "hidden: " + h.Kind
		if h.Count != nil {
			text = "hidden: " + number(*h.Count) + " " + h.Kind
		}
		if h.Message != "" {
			text += ": " + h.Message
		}
		if h.Permission != "" {
			text += "; to see it: permission to " + h.Permission
		}
		b.WriteString(s.paint(dim, s.wrap(text, "  ")) + "\n")
	}
	return b.String()
}
