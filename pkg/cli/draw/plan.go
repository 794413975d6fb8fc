// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package draw

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// HasErrors reports whether a plan has a finding of the severity Error.
func HasErrors(p *v1beta1.RolloutPlan) bool {
	return slices.ContainsFunc(p.Status.Findings, func(f v1beta1.Finding) bool { return f.Severity == "Error" })
}

// severityStyles maps severities to a word and a colour.
var severityStyles = map[string][2]string{"Error": {"ERROR", Red}, "Warning": {"WARN", yellow}, "Info": {"INFO", dim}}

// isReleaseNote reports whether a finding says what the plan does to the release in progress. The plan shows it first.
func isReleaseNote(f *v1beta1.Finding) bool { return f.Code == "release" && f.Severity == "Info" }

// Findings draws the findings of a plan, without notes about the release in progress.
func (s Screen) Findings(p *v1beta1.RolloutPlan) string {
	var b strings.Builder
	for _, f := range p.Status.Findings {
		if isReleaseNote(&f) {
			continue
		}
		look := severityStyles[f.Severity]
		word := cmp.Or(look[0], strings.ToUpper(f.Severity))
		text := f.Code + ": " + strings.TrimSuffix(f.Message, ".")
		if f.Object != nil {
			text = strings.ToLower(f.Object.Kind) + "/" + f.Object.Name + ": " + strings.TrimSuffix(f.Message, ".")
		}
		if f.Step > 0 {
			text = fmt.Sprintf("step %d  %s", f.Step, text)
		}
		if f.Fix != "" {
			text += ". Fix: " + f.Fix
		}
		b.WriteString(s.Paint(look[1], fmt.Sprintf("%-8s", word)) + s.Wrap(text, "        ") + "\n")
	}
	for _, unknown := range p.Status.Unknown {
		b.WriteString(s.Paint(dim, "UNKNOWN ") + s.Wrap(unknown, "        ") + "\n")
	}
	return b.String()
}

// Plan draws the steps of a release.
func (s Screen) Plan(p *v1beta1.RolloutPlan) string {
	columns := []column{
		{title: "STEP", keep: alwaysShown, right: true}, {title: "NEW", keep: 8, right: true}, {title: "OLD", keep: 4, right: true},
		{title: "ORDER", keep: 6, right: true}, {title: "MAX-PODS", keep: 5, right: true}, {title: "MIN-READY", keep: 3, right: true},
		{title: "TRAFFIC", keep: 7, right: true}, {title: "LOAD", keep: 2, right: true}, {title: "THEN", keep: alwaysShown, whole: true},
		{title: "USUALLY", keep: 1, right: true},
	}
	rows := make([][]string, 0, len(p.Status.Steps))
	for i := range p.Status.Steps {
		step := &p.Status.Steps[i]
		rows = append(rows, []string{
			stepName(step), Number(step.Update), Number(step.Stable), formatWaves(step.Waves),
			Number(step.Peak), Number(step.MinReady), formatTraffic(step), step.PerPod, formatEnd(&step.Then), formatDuration(step.Usual),
		})
	}
	var head strings.Builder
	head.WriteString(s.Wrap(s.Paint(Bold, formatTitle(&p.ObjectMeta))+formatPlanSummary(p), "  ") + "\n")
	for i := range p.Status.Findings {
		if f := &p.Status.Findings[i]; isReleaseNote(f) {
			head.WriteString(s.Paint(yellow, s.Wrap(f.Message+".", "  ")) + "\n")
		}
	}
	return head.String() + s.drawTable(columns, rows) + s.drawLegend(columns, rows) + s.Findings(p)
}

// planLegend explains columns of a plan.
var planLegend = map[string]string{
	"ORDER": "ORDER: pods that start (+) and stop (−), in this order.",
	"LOAD":  "LOAD: of a new pod, compared with a pod before the release.",
}

// drawLegend explains the columns of a plan that are shown.
func (s Screen) drawLegend(columns []column, rows [][]string) string {
	if len(rows) == 0 || s.isNarrow() {
		return ""
	}
	var texts []string
	use, _ := s.fitColumns(columns, rows)
	for _, i := range use {
		if text := planLegend[columns[i].title]; text != "" {
			texts = append(texts, text)
		}
	}
	return s.Paint(dim, s.Wrap(strings.Join(texts, " "), "")) + "\n"
}

// formatTraffic returns the requests that the new version gets: a share, or those that match.
func formatTraffic(step *v1beta1.PlannedStep) string {
	if step.Match != "" {
		return step.Match
	}
	return Percent(step.Traffic)
}

// formatPlanSummary returns the input of the plan, and the maximum resources of the release.
func formatPlanSummary(p *v1beta1.RolloutPlan) string {
	var parts []string
	for _, container := range slices.Sorted(maps.Keys(p.Spec.Images)) {
		parts = append(parts, container+"="+p.Spec.Images[container])
	}
	if p.Spec.Replicas != nil {
		parts = append(parts, fmt.Sprintf("%d replicas", *p.Spec.Replicas))
	}
	if after := p.Spec.After; after != nil {
		parts = append(parts, "after "+after.Verb)
	}
	if peak := p.Status.Peak; peak.Pods > 0 {
		text := fmt.Sprintf("at most %d pods", peak.Pods)
		if peak.CPU != nil {
			text += ", " + peak.CPU.String() + " CPU"
		}
		if peak.Memory != nil {
			text += ", " + peak.Memory.String() + " memory"
		}
		parts = append(parts, text, fmt.Sprintf("at least %d ready", p.Status.Floor))
	}
	if len(parts) == 0 {
		return ""
	}
	return "   " + strings.Join(parts, " · ")
}

// stepMarks are the marks of the states of steps.
var stepMarks = map[string]string{"Done": "✔", "Current": "▶", "Next": "○", "Back": "↻", "End": "○"}

// stepName returns the mark and the number of a step, or its state if it has no number.
func stepName(step *v1beta1.PlannedStep) string {
	mark := cmp.Or(stepMarks[step.State], "·") + " "
	if step.Step == 0 {
		return mark + strings.ToLower(step.State)
	}
	return mark + Number(step.Step)
}

// Number formats a number.
func Number(n int32) string { return strconv.Itoa(int(n)) }

// numberOrEmpty formats a number; 0 becomes an empty text.
func numberOrEmpty(n int32) string {
	if n == 0 {
		return ""
	}
	return Number(n)
}

// Count formats a number with a noun in singular or plural.
func Count(n int32, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Percent formats a percentage; nil becomes an empty text.
func Percent(n *int32) string {
	if n == nil {
		return ""
	}
	return fmt.Sprintf("%d%%", *n)
}

// maxListedWaves is the maximum number of waves that are listed one by one.
const maxListedWaves = 2

// formatWaves describes how many pods start and stop.
func formatWaves(waves []v1beta1.Wave) string {
	var texts []string
	var sum v1beta1.Wave
	for _, w := range waves {
		times := max(w.Times, 1)
		sum.Start, sum.Stop, sum.Times = sum.Start+times*w.Start, sum.Stop+times*w.Stop, sum.Times+times
		texts = append(texts, formatWave(w))
	}
	if len(waves) > maxListedWaves || sum.Times > int32(len(waves)) {
		return fmt.Sprintf("%s in %d waves", formatWave(sum), sum.Times)
	}
	return strings.Join(texts, ", ")
}

func formatWave(w v1beta1.Wave) string {
	var parts []string
	if w.Start > 0 {
		parts = append(parts, fmt.Sprintf("+%d", w.Start))
	}
	if w.Stop > 0 {
		parts = append(parts, fmt.Sprintf("−%d", w.Stop))
	}
	return strings.Join(parts, " ")
}

// formatEnd describes what a step waits for after its pods and its traffic.
func formatEnd(t *v1beta1.Then) string {
	then := t.For
	switch {
	case t.Seconds != nil:
		then = duration.HumanDuration(time.Duration(*t.Seconds) * time.Second)
	case len(t.Approvers) > 0:
		then += " by " + strings.Join(t.Approvers, ", ")
	case t.You:
		then += " (you)"
	}
	switch checks := formatChecks(t.Checks); {
	case checks == "" && t.For == "none":
		return "continues"
	case checks == "":
		return then
	case t.For == "none":
		return checks
	default:
		return checks + ", then " + then
	}
}

// maxListedChecks is the maximum number of checks that are named.
const maxListedChecks = 2

func formatChecks(names []string) string {
	if n := len(names); n > maxListedChecks {
		return fmt.Sprintf("%d checks", n)
	}
	if len(names) == 0 {
		return ""
	}
	return "checks " + strings.Join(names, ", ")
}

func formatDuration(long *metav1.Duration) string {
	if long == nil {
		return ""
	}
	return duration.HumanDuration(long.Duration)
}
