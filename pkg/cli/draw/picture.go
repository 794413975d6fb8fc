// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package draw

import (
	"fmt"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/glossary"
)

// Picture is the data of the drawing of a release. Plan and Release may be missing.
type Picture struct {
	Tree    *v1beta1.RolloutTree
	Plan    *v1beta1.RolloutPlan
	Release *v1beta1.PastRelease
	// Wide draws one line for each pod.
	Wide bool
	// ready are the numbers of ready pods of each version, one per sample.
	ready map[string][]int32
}

// stateStyles maps states to a mark and a colour. The title of the state is drawn as well.
var stateStyles = map[string][2]string{
	"Failing": {"✘", Red}, "AtRest": {"✔", green}, "Moving": {"↻", cyan}, "Waiting": {"‖", yellow}, "Stalled": {"✘", Red}, "Paused": {"‖", yellow},
	"Aborting": {"↻", Red}, "Aborted": {"✘", Red}, "Ending": {"↻", cyan}, "NotReady": {"✘", yellow}, "Disabled": {"○", dim},
}

// ShownState returns the state to show: a Rollout at rest that waits for something cannot release.
func ShownState(w *v1beta1.RolloutWhy) string {
	if w.State == "AtRest" && w.WaitingFor.For != "" && w.WaitingFor.For != "nothing" {
		return "NotReady"
	}
	return w.State
}

// formatState returns the mark and the title of a state.
func (s Screen) formatState(state string) string {
	style := stateStyles[state]
	return s.Paint(style[1], strings.TrimSpace(style[0]+" "+glossary.FindState(state).Title))
}

// Draw draws a release.
func (p *Picture) Draw(s Screen) string {
	w := &p.Tree.Why
	parts := []string{s.Paint(Bold, formatTitle(&p.Tree.ObjectMeta)), s.formatState(ShownState(w))}
	parts = append(parts, formatRelease(w.Release)...)
	text := s.Wrap(strings.Join(parts, "   "), "  ") + "\n" + s.Wrap(s.formatSummary(w), "  ") + "\n"
	if w.State == "Failing" {
		text += s.drawCauses(w)
	}
	if source := formatSource(w.Release); source != "" {
		text += s.Wrap(source, "  ") + "\n"
	}
	if w.Contact != "" {
		text += "ask: " + w.Contact + "\n"
	}
	if w.Release != nil {
		text += p.drawSteps(s) + p.drawShares(s)
	}
	return text + p.drawNodes(s) + s.drawHidden(p.Tree.Hidden)
}

// waitDuration matches the part of a summary that says how long the wait has taken.
var waitDuration = regexp.MustCompile(`(since|for) \d+ (second|minute|hour|day)s?`)

// formatSummary returns the server's summary, with the current age of the wait.
func (s Screen) formatSummary(w *v1beta1.RolloutWhy) string {
	at := waitDuration.FindStringSubmatchIndex(w.Summary)
	if at == nil || w.WaitingFor.Since == nil {
		return w.Summary
	}
	return w.Summary[:at[3]] + " " + s.formatAge(w.WaitingFor.Since) + w.Summary[at[1]:]
}

// formatTitle returns the title of a drawing: the name and the namespace of a Rollout.
func formatTitle(meta *metav1.ObjectMeta) string { return meta.Name + " · " + meta.Namespace }

// drawSteps draws the steps, with the decisions about each.
func (p *Picture) drawSteps(s Screen) string {
	if p.Plan == nil {
		return ""
	}
	var rows [][]string
	for i := range p.Plan.Status.Steps {
		step := &p.Plan.Status.Steps[i]
		rows = append(rows, []string{" " + stepName(step), formatTraffic(step), Count(step.Update, "pod"), p.formatStepDuration(step.Step), p.formatDecisionOrEnd(s, step)})
	}
	return s.drawTable([]column{{keep: alwaysShown}, {keep: 7, right: true}, {keep: 6, right: true}, {keep: 1, right: true}, {keep: 5}}, rows)
}

// formatStepDuration returns how long the pods of a step took in the current release.
func (p *Picture) formatStepDuration(step int32) (formatStepDuration string) {
	if p.Release == nil {
		return ""
	}
	for i := range p.Release.Steps {
		if r := &p.Release.Steps[i]; r.Step == step && r.EnteredTime != nil && r.UpgradedTime != nil {
			formatStepDuration = duration.HumanDuration(r.UpgradedTime.Sub(r.EnteredTime.Time))
		}
	}
	return formatStepDuration
}

// formatDecisionOrEnd returns the latest decision about a step, or what will end the step.
func (p *Picture) formatDecisionOrEnd(s Screen, step *v1beta1.PlannedStep) (formatDecisionOrEnd string) {
	switch {
	case p.Release == nil && step.State != "Done":
		return formatEnd(&step.Then)
	case p.Release == nil:
		return ""
	case step.State == "Next":
		formatDecisionOrEnd = "then " + formatEnd(&step.Then)
	}
	for i := range p.Release.Decisions {
		if d := &p.Release.Decisions[i]; d.Step == step.Step {
			formatDecisionOrEnd = s.formatDecision(d) + s.formatOverride(d)
		}
	}
	return formatDecisionOrEnd
}

// formatDecision describes a decision: time, user, verb and reason.
func (s Screen) formatDecision(d *v1beta1.Decision) string {
	text := fmt.Sprintf("%s %s %s", s.formatTime(d.Time), d.User, DescribeVerb(d))
	if d.Reason != "" {
		text += ": " + d.Reason
	}
	return text
}

// DescribeVerb describes what a decision did, as far as its verb does not say it.
func DescribeVerb(d *v1beta1.Decision) string {
	switch {
	case d.Full:
		return "approved all remaining steps"
	case d.ToStep != 0:
		return fmt.Sprintf("jumped to step %d", d.ToStep)
	default:
		return string(d.Verb)
	}
}

// formatOverride names the checks that a decision overrode, with their results.
func (s Screen) formatOverride(d *v1beta1.Decision) string {
	if overridden := Overridden(d); overridden != "" {
		return s.Paint(Red, "; overrode "+overridden)
	}
	return ""
}

// drawShares draws the pods and the traffic of both versions.
func (p *Picture) drawShares(s Screen) string {
	var rows [][]string
	for i := range p.Tree.Nodes {
		n := &p.Tree.Nodes[i]
		if n.Role != "revision" || n.Revision != "update" && n.Revision != "stable" {
			continue
		}
		version := " " + versionNames[n.Revision]
		if len(n.Images) == 1 {
			version = " " + glossary.ShortImage(n.Images[0]) + version
		}
		traffic := Percent(n.Traffic)
		if match := p.currentMatch(); match != "" && n.Revision == "update" {
			traffic = match
		}
		rows = append(rows, []string{version, formatBar(n.Traffic), formatReady(n) + " ready", traffic, formatSparkline(p.ready[n.ID])})
	}
	return s.drawTable([]column{{keep: alwaysShown}, {keep: 2}, {keep: 7, right: true}, {keep: 8, right: true}, {keep: 1}}, rows)
}

// currentMatch returns the requests that the current step sends to the new version; empty if it sends a share.
func (p *Picture) currentMatch() string {
	if p.Plan == nil {
		return ""
	}
	for i := range p.Plan.Status.Steps {
		if step := &p.Plan.Status.Steps[i]; step.State == "Current" {
			return step.Match
		}
	}
	return ""
}

const barWidth = 20

func formatBar(share *int32) string {
	if share == nil {
		return ""
	}
	full := min(max(int(*share)*barWidth/100, 0), barWidth)
	return strings.Repeat("█", full) + strings.Repeat("░", barWidth-full)
}

// maxSamples is the number of samples that are drawn.
const maxSamples = 20

// Sample records how many pods of each version are ready.
func (p *Picture) Sample() {
	if p.ready == nil {
		p.ready = map[string][]int32{}
	}
	for _, n := range p.Tree.Nodes {
		if n.Role == "revision" && n.Ready != nil {
			samples := append(p.ready[n.ID], *n.Ready)
			p.ready[n.ID] = samples[max(len(samples)-maxSamples, 0):]
		}
	}
}

// formatSparkline draws samples as a line of bars, the latest at the right.
func formatSparkline(samples []int32) string {
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

// drawHidden describes which objects the user may not see.
func (s Screen) drawHidden(kinds []v1beta1.HiddenKind) string {
	var b strings.Builder
	for _, h := range kinds {
		text := "Hidden: " + h.Kind
		if h.Count != nil {
			text = "Hidden: " + Number(*h.Count) + " " + h.Kind
		}
		if h.Message != "" {
			text += ": " + h.Message
		}
		if h.Permission != "" {
			text += " (you need permission to " + h.Permission + ")"
		}
		b.WriteString(s.Paint(dim, s.Wrap(text, "  ")) + "\n")
	}
	return b.String()
}
