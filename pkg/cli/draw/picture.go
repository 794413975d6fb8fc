// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package draw

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// Picture is what a drawing of a release is made of. Plan and release may be missing.
type Picture struct {
	Tree    *v1beta1.RolloutTree
	Plan    *v1beta1.RolloutPlan
	Release *v1beta1.PastRelease
	// Wide has a line for each pod.
	Wide bool
	// ready are the ready pods of both versions, sample by sample.
	ready map[string][]int32
}

// states have a mark and a colour each, beside the word.
var states = map[string][2]string{
	"AtRest": {"✔", green}, "Moving": {"↻", cyan}, "Waiting": {"‖", yellow}, "Stalled": {"✘", Red}, "Paused": {"‖", yellow},
	"Aborting": {"↻", Red}, "Aborted": {"✘", Red}, "Ending": {"↻", cyan},
}

// Draw draws a release.
func (p *Picture) Draw(s Screen) string {
	w := &p.Tree.Why
	state := states[w.State]
	parts := []string{s.Paint(Bold, title(&p.Tree.ObjectMeta)), s.Paint(state[1], strings.TrimSpace(state[0]+" "+w.State))}
	parts = append(parts, named(w.Release)...)
	text := s.Wrap(strings.Join(parts, "   "), "  ") + "\n" + s.Wrap(s.summary(w), "  ") + "\n"
	if w.Contact != "" {
		text += "ask: " + w.Contact + "\n"
	}
	if w.Release != nil {
		text += p.timeline(s) + p.shares(s)
	}
	return text + p.nodes(s) + s.hidden(p.Tree.Hidden)
}

// summary is what the server says, with a time that moves on while it is on the screen.
func (s Screen) summary(w *v1beta1.RolloutWhy) string {
	what, _, timed := strings.Cut(w.Summary, ", since ")
	if !timed || w.WaitingFor.Since == nil {
		return w.Summary
	}
	return what + ", since " + s.age(w.WaitingFor.Since) + "."
}

// title is the name of a Rollout above a drawing.
func title(meta *metav1.ObjectMeta) string { return meta.Name + " · " + meta.Namespace }

// timeline draws the steps, with who has decided what.
func (p *Picture) timeline(s Screen) string {
	if p.Plan == nil {
		return ""
	}
	var rows [][]string
	for i := range p.Plan.Status.Steps {
		step := &p.Plan.Status.Steps[i]
		rows = append(rows, []string{" " + stepName(step), Percent(step.Traffic), Count(step.Update, "pod"), p.took(step.Step), p.who(s, step)})
	}
	return s.table([]column{{keep: always}, {keep: 7, right: true}, {keep: 6, right: true}, {keep: 1, right: true}, {keep: 5}}, rows)
}

// took is how long the pods of a step took the last time.
func (p *Picture) took(step int32) (took string) {
	if p.Release == nil {
		return ""
	}
	for i := range p.Release.Steps {
		if r := &p.Release.Steps[i]; r.Step == step && r.EnteredTime != nil && r.UpgradedTime != nil {
			took = duration.HumanDuration(r.UpgradedTime.Sub(r.EnteredTime.Time))
		}
	}
	return took
}

// who says who has decided about a step the last time, or what will end it.
func (p *Picture) who(s Screen, step *v1beta1.PlannedStep) (who string) {
	switch {
	case p.Release == nil && step.State != "Done":
		return then(&step.Then)
	case p.Release == nil:
		return ""
	case step.State == "Next":
		who = "then " + then(&step.Then)
	}
	for i := range p.Release.Decisions {
		if d := &p.Release.Decisions[i]; d.Step == step.Step {
			who = s.decision(d) + s.overrode(d)
		}
	}
	return who
}

// decision says who has decided what, and why.
func (s Screen) decision(d *v1beta1.Decision) string {
	text := fmt.Sprintf("%s %s %s", s.at(d.Time), d.User, d.Verb)
	if d.Reason != "" {
		text += ": " + d.Reason
	}
	return text
}

// overrode names the checks that a decision overrode, with their results.
func (s Screen) overrode(d *v1beta1.Decision) string {
	if len(d.Overrode) == 0 {
		return ""
	}
	var names []string
	for _, c := range d.OverriddenChecks {
		result := strings.ToLower(string(c.Result))
		if result == "" {
			result = "not measured"
		}
		names = append(names, fmt.Sprintf("%s (%s, step %d)", c.Name, result, c.Step))
	}
	if len(names) == 0 {
		names = []string{"the checks"}
	}
	return s.Paint(Red, "; overrode "+strings.Join(names, ", "))
}

// shares draws the pods and the traffic of both versions.
func (p *Picture) shares(s Screen) string {
	var rows [][]string
	for i := range p.Tree.Nodes {
		n := &p.Tree.Nodes[i]
		if n.Role != "revision" || n.Revision != "update" && n.Revision != "stable" {
			continue
		}
		version := " " + n.Revision
		if len(n.Images) == 1 {
			version = " " + short(n.Images[0]) + version
		}
		rows = append(rows, []string{version, bar(n.Traffic), ready(n) + " ready", Percent(n.Traffic), sparks(p.ready[n.ID])})
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

// Sample keeps how many pods of each version are ready.
func (p *Picture) Sample() {
	if p.ready == nil {
		p.ready = map[string][]int32{}
	}
	for _, n := range p.Tree.Nodes {
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
func (s Screen) hidden(kinds []v1beta1.HiddenKind) string {
	var b strings.Builder
	for _, h := range kinds {
		text := "hidden: " + h.Kind
		if h.Count != nil {
			text = "hidden: " + Number(*h.Count) + " " + h.Kind
		}
		if h.Message != "" {
			text += ": " + h.Message
		}
		if h.Permission != "" {
			text += "; to see it: permission to " + h.Permission
		}
		b.WriteString(s.Paint(dim, s.Wrap(text, "  ")) + "\n")
	}
	return b.String()
}
