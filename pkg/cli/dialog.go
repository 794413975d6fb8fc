// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"slices"
	"strings"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// dialog asks before a verb is sent, and for what it needs.
type dialog struct {
	action v1beta1.Action
	// values of the fields that a person adds, and the field that is typed into.
	values map[string]string
	fields []string
	at     int
	doubts *v1beta1.RolloutPlan
}

func newDialog(a v1beta1.Action) *dialog {
	d := &dialog{action: a, values: map[string]string{}}
	for _, need := range a.Needs {
		if need != "override" { // which the confirmation is
			d.fields = append(d.fields, need)
		}
	}
	if !slices.Contains(d.fields, "reason") {
		d.fields = append(d.fields, "reason")
	}
	return d
}

// isAbout reports whether an action is the one that the dialog was opened for.
func (d *dialog) isAbout(a v1beta1.Action) bool {
	return a.Verb == d.action.Verb && bytes.Equal(a.Body.Raw, d.action.Body.Raw)
}

func (d *dialog) has(need string) bool { return slices.Contains(d.action.Needs, need) }

func (d *dialog) value(field string) string { return strings.TrimSpace(d.values[field]) }

// enterText adds text to the field.
func (d *dialog) enterText(text string) { d.values[d.fields[d.at]] += plain(text) }

// erase takes away the last character.
func (d *dialog) erase() {
	if runes := []rune(d.values[d.fields[d.at]]); len(runes) > 0 {
		d.values[d.fields[d.at]] = string(runes[:len(runes)-1])
	}
}

// next goes to the next field, and reports whether all are done.
func (d *dialog) next() bool {
	field := d.fields[d.at]
	if d.value(field) == "" && d.has(field) {
		return false
	}
	d.at++
	if d.at < len(d.fields) {
		return false
	}
	d.at--
	return true
}

// draw has what happens, what the plan doubts, and what is asked for.
func (d *dialog) draw(s screen) string {
	var b strings.Builder
	b.WriteString(s.paint(bold, s.wrap(d.action.Title+"?", "  ")) + "\n")
	if text := effect(&d.action); text != "" {
		b.WriteString("  " + s.wrap(text, "  ") + "\n")
	}
	if d.has("override") {
		b.WriteString("  " + s.paint(red, s.wrap("This overrides the checks.", "  ")) + "\n")
	}
	if d.doubts != nil {
		b.WriteString(s.findings(d.doubts))
	}
	for i, field := range d.fields[:d.at+1] {
		title := field
		if field == "reason" && !d.has(field) {
			title += " (optional)"
		}
		cursor := ""
		if i == d.at {
			cursor = "_"
		}
		b.WriteString("  " + title + ": " + d.values[field] + cursor + "\n")
	}
	return b.String() + s.paint(bold, "enter") + " " + d.action.Verb + "  " + s.paint(bold, "esc") + " cancel"
}
