// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package draw answers: what does a person see of a release? It is pure: what the server
// has said in, texts out. No line is wider than the Screen, a colour repeats a word, and
// nothing that others write changes the terminal.
package draw

import (
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// Screen is what is drawn on. It has no effects: texts in, texts out.
type Screen struct {
	// Width in columns; 0 is as wide as needed.
	Width         int
	ASCII, Colour bool
	Now           time.Time
}

// inASCII has for each sign one of the same width.
var inASCII = strings.NewReplacer(
	"✔", "+", "▶", ">", "○", "o", "✘", "x", "↻", "~", "‖", "=", "→", ">", "−", "-", "≥", ">", "×", "x", "·", "-", "…", "~",
	"├", "|", "─", "-", "└", "`", "│", "|", "░", ".", "▁", "_", "▂", "_", "▃", "-", "▄", "-", "▅", "-", "▆", "=", "▇", "=", "█", "#",
)

// Finish has no line that is wider than the screen: it ends with an ellipsis.
func (s Screen) Finish(drawing string) string {
	tail := "…"
	if s.ASCII {
		drawing, tail = inASCII.Replace(drawing), "~"
	}
	lines := strings.Split(drawing, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
		if s.Width > 0 {
			lines[i] = ansi.Truncate(lines[i], s.Width, tail)
		}
	}
	return strings.Join(lines, "\n")
}

// Wrap breaks a text into lines, all but the first one indented.
func (s Screen) Wrap(text, indent string) string {
	if s.Width <= 0 {
		return text
	}
	return strings.ReplaceAll(ansi.Wrap(text, max(s.Width-len(indent), 10), ""), "\n", "\n"+indent)
}

// The colours, each beside a word that says the same. They are those of the terminal.
const (
	Bold   = "1"
	dim    = "2"
	Red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

// Paint colours a text, where there are colours.
func (s Screen) Paint(colour, text string) string {
	if !s.Colour || colour == "" || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[m"
}

// age says how long ago a moment was, and nothing where it is not known.
func (s Screen) age(t *metav1.Time) string {
	if t.IsZero() {
		return ""
	}
	return duration.HumanDuration(s.Now.Sub(t.Time))
}

// at says when a moment was: the time of today, or the date.
func (s Screen) at(t metav1.Time) string {
	local := t.In(s.Now.Location())
	if s.Now.Sub(t.Time) < 20*time.Hour {
		return local.Format("15:04")
	}
	return local.Format("2006-01-02 15:04")
}

// Plain leaves out what would change the terminal: others write the texts.
func Plain(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r) && r != '\u200d':
			return -1
		}
		return r
	}, text)
}

// column of a table. Where there is no room, those with a large keep come first.
type column struct {
	title string
	keep  int
	right bool
}

// always is of columns that are never left out.
const always = 9

// table draws rows below titles, if there are any.
func (s Screen) table(columns []column, rows [][]string) string {
	if len(rows) == 0 {
		return ""
	}
	titles := make([]string, len(columns))
	for i, c := range columns {
		titles[i] = s.Paint(dim, c.title)
	}
	use, wide := s.fitting(columns, rows)
	if strings.Join(titles, "") != "" {
		rows = append([][]string{titles}, rows...)
	}
	var b strings.Builder
	for _, row := range rows {
		cells := make([]string, 0, len(use))
		for _, i := range use {
			gap := strings.Repeat(" ", max(wide[i]-ansi.StringWidth(row[i]), 0))
			if columns[i].right {
				cells = append(cells, gap+row[i])
			} else {
				cells = append(cells, row[i]+gap)
			}
		}
		b.WriteString(strings.TrimRight(strings.Join(cells, "  "), " ") + "\n")
	}
	return b.String()
}

// fitting are the columns that have a text, and room, and how wide each of all is.
func (s Screen) fitting(columns []column, rows [][]string) (use, wide []int) {
	var candidates []int
	for i, c := range columns {
		most := 0
		for _, row := range rows {
			most = max(most, ansi.StringWidth(row[i]))
		}
		if most > 0 {
			candidates = append(candidates, i)
		}
		wide = append(wide, max(most, ansi.StringWidth(c.title)))
	}
	slices.SortStableFunc(candidates, func(a, b int) int { return columns[b].keep - columns[a].keep })
	for _, i := range candidates {
		with := slices.Sorted(slices.Values(append(slices.Clone(use), i)))
		if columns[i].keep == always || s.Width <= 0 || total(with, wide) <= s.Width {
			use = with
		}
	}
	return use, wide
}

// total is the width of a table. A last column of text may be cut to a third.
func total(use, wide []int) int {
	sum := 0
	for _, i := range use {
		sum += wide[i] + 2
	}
	last := wide[use[len(use)-1]]
	return sum - 2 - max(0, last-max(last/3, 16))
}

// Cleaned has no text that changes the terminal.
func Cleaned(value any) any {
	switch v := value.(type) {
	case string:
		return Plain(v)
	case []any:
		for i := range v {
			v[i] = Cleaned(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = Cleaned(v[k])
		}
	}
	return value
}
