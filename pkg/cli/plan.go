// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

func hasErrors(p *v1beta1.RolloutPlan) bool {
	for _, f := range p.Status.Findings {
		if f.Severity == "Error" {
			return true
		}
	}
	return false
}

// severities have a word and a colour each.
var severities = map[string][2]string{"Error": {"ERROR", red}, "Warning": {"WARN", yellow}, "Info": {"INFO", dim}}

// findings draws what will go wrong.
func (s screen) findings(p *v1beta1.RolloutPlan) string {
	var b strings.Builder
	for _, f := range p.Status.Findings {
		look, known := severities[f.Severity]
		if !known {
			look = [2]string{strings.ToUpper(f.Severity), ""}
		}
		var what []string
		if f.Step > 0 {
			what = append(what, fmt.Sprintf("step %d", f.Step))
		}
		if f.Object != nil {
			what = append(what, strings.ToLower(f.Object.Kind)+"/"+f.Object.Name)
		} else {
			what = append(what, f.Code)
		}
		text := strings.Join(what, "  ") + ": " + f.Message
		if f.Fix != "" {
			text += "; what helps: " + f.Fix
		}
		b.WriteString(s.paint(look[1], fmt.Sprintf("%-7s", look[0])) + s.wrap(text, "       ") + "\n")
	}
	for _, unknown := range p.Status.Unknown {
		b.WriteString(s.paint(dim, "UNSEEN ") + s.wrap(unknown, "       ") + "\n")
	}
	return b.String()
}

// plan draws what a release will do.
func (s screen) plan(p *v1beta1.RolloutPlan) string {
	var b strings.Builder
	fmt.Fprintln(&b, s.wrap(s.paint(bold, title(&p.ObjectMeta))+summaryOf(p), "  "))
	columns := []column{
		{"STEP", always, true}, {"NEW", 8, true}, {"OLD", 4, true}, {"PODS", 6, true}, {"PEAK", 5, true}, {"READY≥", 3, true},
		{"TRAFFIC", 7, true}, {"LOAD/NEW", 2, true}, {"THEN", always, false}, {"USUALLY", 1, true},
	}
	rows := make([][]string, 0, len(p.Status.Steps))
	for i := range p.Status.Steps {
		step := &p.Status.Steps[i]
		rows = append(rows, []string{
			stepMark(step.State) + stepName(step), number(step.Update), number(step.Stable), moves(step.Waves),
			number(step.Peak), number(step.MinReady), percent(step.Traffic), step.PerPod, then(&step.Then), usual(step),
		})
	}
	if len(rows) > 0 {
		b.WriteString(s.table(columns, rows))
	}
	return b.String() + s.findings(p)
}

// summaryOf says what was asked, and what the release needs at most.
func summaryOf(p *v1beta1.RolloutPlan) string {
	var parts []string
	for _, container := range sortedKeys(p.Spec.Images) {
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

// marks of the states of steps.
var marks = map[string]string{"Done": "✔", "Current": "▶", "Next": "○", "Back": "↻", "End": "✔"}

// stepName is the number of a step, or what else it is.
func stepName(step *v1beta1.PlannedStep) string {
	if step.Step == 0 {
		return strings.ToLower(step.State)
	}
	return number(step.Step)
}

func stepMark(state string) string {
	return cmp.Or(marks[state], "·") + " "
}

// number of pods, or nothing.
func number(n int32) string { return strconv.Itoa(int(n)) }

func percent(n *int32) string {
	if n == nil {
		return ""
	}
	return fmt.Sprintf("%d %%", *n)
}

// mostWaves is how many changes of sizes are written one by one.
const mostWaves = 2

// moves says how many pods start and stop.
func moves(waves []v1beta1.Wave) string {
	var texts []string
	var sum v1beta1.Wave
	for _, w := range waves {
		times := max(w.Times, 1)
		sum.Start, sum.Stop, sum.Times = sum.Start+times*w.Start, sum.Stop+times*w.Stop, sum.Times+times
		texts = append(texts, move(w))
	}
	if len(waves) > mostWaves || sum.Times > int32(len(waves)) {
		return fmt.Sprintf("%s in %d waves", move(sum), sum.Times)
	}
	return strings.Join(texts, ", ")
}

func move(w v1beta1.Wave) string {
	var parts []string
	if w.Start > 0 {
		parts = append(parts, fmt.Sprintf("+%d", w.Start))
	}
	if w.Stop > 0 {
		parts = append(parts, fmt.Sprintf("−%d", w.Stop))
	}
	return strings.Join(parts, " ")
}

// then says what ends a step.
func then(t *v1beta1.Then) string {
	switch {
	case t.Seconds != nil:
		return duration.HumanDuration(time.Duration(*t.Seconds) * time.Second)
	case len(t.Approvers) > 0:
		return t.For + ", " + strings.Join(t.Approvers, ", ")
	case t.You:
		return t.For + ", you"
	case t.For == "none":
		return "goes on"
	}
	return t.For
}

func usual(step *v1beta1.PlannedStep) string {
	if step.Usual == nil {
		return ""
	}
	return duration.HumanDuration(step.Usual.Duration)
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
