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

// dialog asks for confirmation before a verb is sent, and for the fields of its body.
type dialog struct {
	action v1beta1.Action
	// fields are the names of the fields that the user enters, values their contents, and at the index of
	// the current field.
	fields []string
	values map[string]string
	at     int
	doubts *v1beta1.RolloutPlan
}

func newDialog(a v1beta1.Action) *dialog {
	d := &dialog{action: a, values: map[string]string{}}
	for _, need := range a.Needs {
		if need != "override" && need != "reason" { // an override is only confirmed, and the reason comes last
			d.fields = append(d.fields, need)
		}
	}
	d.fields = append(d.fields, "reason")
	return d
}

// isAbout reports whether the dialog was opened for the action.
func (d *dialog) isAbout(a v1beta1.Action) bool {
	return a.Verb == d.action.Verb && bytes.Equal(a.Body.Raw, d.action.Body.Raw)
}

// needsField reports whether the action needs a field. A jump past checks needs an override and a reason.
func (d *dialog) needsField(need string) bool {
	step, err := strconv.Atoi(d.fieldValue("step"))
	past := err == nil && d.action.OverrideFrom > 0 && step >= int(d.action.OverrideFrom)
	return slices.Contains(d.action.Needs, need) || past && (need == "override" || need == "reason")
}

func (d *dialog) fieldValue(field string) string { return strings.TrimSpace(d.values[field]) }

// enterText adds text to the current field.
func (d *dialog) enterText(text string) { d.values[d.fields[d.at]] += draw.Plain(text) }

// eraseCharacter removes the last character of the current field.
func (d *dialog) eraseCharacter() {
	text := d.values[d.fields[d.at]]
	_, size := utf8.DecodeLastRuneInString(text)
	d.values[d.fields[d.at]] = text[:len(text)-size]
}

// nextField moves to the next field, and reports whether all fields are complete.
func (d *dialog) nextField() bool {
	field, last := d.fields[d.at], d.at == len(d.fields)-1
	if d.fieldValue(field) == "" && d.needsField(field) {
		return false
	}
	if !last {
		d.at++
	}
	return last
}

// drawDialog draws the effect of the action, the findings of its plan, and the fields.
func (d *dialog) drawDialog(s draw.Screen) string {
	var b strings.Builder
	b.WriteString(s.Paint(draw.Bold, s.Wrap(d.action.Title+"?", "  ")) + "\n")
	if text := draw.Effect(&d.action); text != "" {
		b.WriteString("  " + s.Wrap(text, "  ") + "\n")
	}
	if d.needsField("override") {
		b.WriteString("  " + s.Paint(draw.Red, s.Wrap("This overrides the checks.", "  ")) + "\n")
	}
	if d.doubts != nil {
		b.WriteString(s.Findings(d.doubts))
	}
	for _, field := range d.fields[:d.at] {
		b.WriteString("  " + field + ": " + d.values[field] + "\n")
	}
	field, optional := d.fields[d.at], ""
	if !d.needsField(field) {
		optional = " (optional)"
	}
	b.WriteString("  " + field + optional + ": " + d.values[field] + "_\n")
	return b.String() + s.Paint(draw.Bold, "enter") + " " + d.action.Verb + "  " + s.Paint(draw.Bold, "esc") + " cancel"
}
