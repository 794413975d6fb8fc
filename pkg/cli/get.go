// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

func newGet(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "get NAME", Short: "Draw a release: its steps, its shares and its objects",
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeNames,
	}
	o := addOutput(cmd, "wide")
	watch := cmd.Flags().BoolP("watch", "w", false, "draw it live, with keys to act; without a terminal, a line for each change")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return a.get(cmd.Context(), o, args[0], *watch) }
	return cmd
}

func (a *app) get(ctx context.Context, o *output, arg string, watch bool) error {
	s, name, err := a.open(ctx, arg)
	if err != nil {
		return err
	}
	if watch && o.drawn() {
		return a.watch(ctx, s, name, o.format == "wide")
	}
	tree, err := read[v1beta1.RolloutTree](ctx, s, name, "tree")
	if err != nil {
		return err
	}
	if !o.drawn() {
		return o.print(a.Out, tree.raw)
	}
	p := &picture{tree: &tree.it, wide: o.format == "wide"}
	p.look(ctx, s)
	c := a.screen()
	return c.write(a.Out, c.get(p))
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
func (p *picture) look(ctx context.Context, s *server) {
	var wait sync.WaitGroup
	wait.Go(func() {
		if plan, err := read[v1beta1.RolloutPlan](ctx, s, p.tree.Name, "plan"); err == nil {
			p.plan = &plan.it
		}
	})
	wait.Go(func() {
		past, err := read[v1beta1.RolloutReleases](ctx, s, p.tree.Name, "history")
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

// get draws a release.
func (s screen) get(p *picture) string {
	w := &p.tree.Why
	state := states[w.State]
	parts := []string{s.paint(bold, title(&p.tree.ObjectMeta)), s.paint(state[1], strings.TrimSpace(state[0]+" "+w.State))}
	if r := w.Release; r != nil {
		if r.Number > 0 {
			parts = append(parts, fmt.Sprintf("release %d", r.Number))
		}
		parts = append(parts, versions(r))
	}
	text := s.wrap(strings.Join(parts, "   "), "  ") + "\n" + s.wrap(w.Summary, "  ") + "\n"
	if w.Contact != "" {
		text += "ask: " + w.Contact + "\n"
	}
	return text + s.timeline(p) + s.shares(p) + s.nodes(p) + s.hidden(p.tree.Hidden)
}

// timeline draws the steps of a release under way, with who has decided what.
func (s screen) timeline(p *picture) string {
	if p.plan == nil || p.tree.Why.Release == nil {
		return ""
	}
	var rows [][]string
	for i := range p.plan.Status.Steps {
		step := &p.plan.Status.Steps[i]
		rows = append(rows, []string{
			" " + stepMark(step.State) + stepName(step), percent(step.Traffic), count(step.Update, "pod"),
			p.took(step.Step), s.who(p, step),
		})
	}
	drawn := s.table([]column{
		{"", always, false}, {"", 7, true}, {"", 6, true}, {"", 1, true}, {"", 5, false},
	}, rows)
	_, drawn, _ = strings.Cut(drawn, "\n")
	return drawn
}

func count(n int32, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// took is how long the pods of a step took when it was visited last.
func (p *picture) took(step int32) string {
	if p.release == nil {
		return ""
	}
	text := ""
	for i := range p.release.Steps {
		if r := &p.release.Steps[i]; r.Step == step && r.EnteredTime != nil && r.UpgradedTime != nil {
			text = duration.HumanDuration(r.UpgradedTime.Sub(r.EnteredTime.Time))
		}
	}
	return text
}

// who says who has decided about a step last.
func (s screen) who(p *picture, step *v1beta1.PlannedStep) string {
	text := ""
	if step.State != "Done" && p.release == nil {
		return then(&step.Then)
	}
	if p.release != nil {
		for i := range p.release.Decisions {
			if d := &p.release.Decisions[i]; d.Step == step.Step {
				text = s.decision(d)
			}
		}
	}
	if text == "" && step.State == "Next" {
		return "then " + then(&step.Then)
	}
	return text
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
func (s screen) shares(p *picture) string {
	var rows [][]string
	for i := range p.tree.Nodes {
		n := &p.tree.Nodes[i]
		if n.Role != "revision" || n.Revision != "update" && n.Revision != "stable" || p.tree.Why.Release == nil {
			continue
		}
		row := []string{" " + versionOf(n), "", ready(n), percent(n.Traffic), sparks(p.ready[n.ID])}
		if n.Traffic != nil {
			row[1] = bar(*n.Traffic)
		}
		row[2] += " ready"
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return ""
	}
	_, drawn, _ := strings.Cut(s.table([]column{
		{"", always, false}, {"", 2, false}, {"", 7, true}, {"", 8, true}, {"", 1, false},
	}, rows), "\n")
	return drawn
}

// versionOf names a revision by its image, or else by its role.
func versionOf(n *v1beta1.Node) string {
	if len(n.Images) == 1 {
		return short(n.Images[0]) + " " + n.Revision
	}
	return n.Revision
}

const barWidth = 20

func bar(share int32) string {
	full := min(max(int(share)*barWidth/100, 0), barWidth)
	return strings.Repeat("█", full) + strings.Repeat("░", barWidth-full)
}

// mostSparks is how many samples are drawn.
const mostSparks = 20

// sparks draws samples, the latest at the right.
func sparks(samples []int32) string {
	samples = samples[max(len(samples)-mostSparks, 0):]
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

// ready counts the ready pods of a node.
func ready(n *v1beta1.Node) string {
	all := n.Desired
	if all == nil {
		all = n.Pods
	}
	switch {
	case n.Ready == nil && all == nil:
		return ""
	case n.Ready == nil:
		return "?/" + number(*all)
	case all == nil:
		return number(*n.Ready)
	}
	return number(*n.Ready) + "/" + number(*all)
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
