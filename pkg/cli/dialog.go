// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/cli/draw"
)

// dialog asks before a verb is sent, and for what it needs.
type dialog struct {
	action v1beta1.Action
	// fields that a person adds, what is in them, and the one that is typed into.
	fields []string
	values map[string]string
	at     int
	doubts *v1beta1.RolloutPlan
}

func newDialog(a v1beta1.Action) *dialog {
	d := &dialog{action: a, values: map[string]string{}}
	for _, need := range a.Needs {
		if need != "override" && need != "reason" { // an override is confirmed, a reason comes last
			d.fields = append(d.fields, need)
		}
	}
	d.fields = append(d.fields, "reason")
	return d
}

// isAbout reports whether an action is the one that the dialog was opened for.
func (d *dialog) isAbout(a v1beta1.Action) bool {
	return a.Verb == d.action.Verb && bytes.Equal(a.Body.Raw, d.action.Body.Raw)
}

// has reports whether the action needs a field. A jump past checks needs an override and its reason.
func (d *dialog) has(need string) bool {
	step, err := strconv.Atoi(d.value("step"))
	past := err == nil && d.action.OverrideFrom > 0 && step >= int(d.action.OverrideFrom)
	return slices.Contains(d.action.Needs, need) || past && (need == "override" || need == "reason")
}

func (d *dialog) value(field string) string { return strings.TrimSpace(d.values[field]) }

// enterText adds text to the field.
func (d *dialog) enterText(text string) { d.values[d.fields[d.at]] += draw.Plain(text) }

// erase takes away the last character.
func (d *dialog) erase() {
	text := d.values[d.fields[d.at]]
	_, size := utf8.DecodeLastRuneInString(text)
	d.values[d.fields[d.at]] = text[:len(text)-size]
}

// next goes to the next field, and reports whether all are done.
func (d *dialog) next() bool {
	field, last := d.fields[d.at], d.at == len(d.fields)-1
	if d.value(field) == "" && d.has(field) {
		return false
	}
	if !last {
		d.at++
	}
	return last
}

// draw has what happens, what the plan doubts, and what is asked for.
func (d *dialog) draw(s draw.Screen) string {
	var b strings.Builder
	b.WriteString(s.Paint(draw.Bold, s.Wrap(d.action.Title+"?", "  ")) + "\n")
	if text := draw.Effect(&d.action); text != "" {
		b.WriteString("  " + s.Wrap(text, "  ") + "\n")
	}
	if d.has("override") {
		b.WriteString("  " + s.Paint(draw.Red, s.Wrap("This overrides the checks.", "  ")) + "\n")
	}
	if d.doubts != nil {
		b.WriteString(s.Findings(d.doubts))
	}
	for _, field := range d.fields[:d.at] {
		b.WriteString("  " + field + ": " + d.values[field] + "\n")
	}
	field, optional := d.fields[d.at], ""
	if !d.has(field) {
		optional = " (optional)"
	}
	b.WriteString("  " + field + optional + ": " + d.values[field] + "_\n")
	return b.String() + s.Paint(draw.Bold, "enter") + " " + d.action.Verb + "  " + s.Paint(draw.Bold, "esc") + " cancel"
}
