// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package draw formats the responses of the server as text for people. It is pure: responses in, text out.
// No line is wider than the Screen. Colours repeat information that the text also contains. Texts of other
// users cannot contain control sequences of the terminal.
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

// Screen describes the output: its width, its characters, its colours and the current time.
type Screen struct {
	// Width is the number of columns; 0 means unlimited.
	Width         int
	ASCII, Colour bool
	Now           time.Time
	// Flags are the global flags of the command, such as --context=prod. Suggested commands repeat them.
	Flags []string
}

// asciiReplacer maps each non-ASCII sign to an ASCII text of the same width.
var asciiReplacer = strings.NewReplacer(
	"✔", "+", "▶", ">", "○", "o", "✘", "x", "↻", "~", "‖", "=", "→", ">", "−", "-", "≥", ">", "×", "x", "·", "-", "…", "~",
	"├", "|", "─", "-", "└", "`", "│", "|", "░", ".", "▁", "_", "▂", "_", "▃", "-", "▄", "-", "▅", "-", "▆", "=", "▇", "=", "█", "#",
)

// Finish cuts lines that are wider than the screen. Such lines end with an ellipsis.
func (s Screen) Finish(drawing string) string {
	tail := "…"
	if s.ASCII {
		drawing, tail = asciiReplacer.Replace(drawing), "~"
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

// Wrap wraps a text into lines. It indents all lines but the first.
func (s Screen) Wrap(text, indent string) string {
	if s.Width <= 0 {
		return text
	}
	return strings.ReplaceAll(ansi.Wrap(text, max(s.Width-len(indent), 10), ""), "\n", "\n"+indent)
}

// The colours are those of the terminal's palette. The text contains the same information as the colour.
const (
	Bold   = "1"
	dim    = "2"
	Red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

// Paint adds a colour to a text if the screen has colours.
func (s Screen) Paint(colour, text string) string {
	if !s.Colour || colour == "" || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[m"
}

// formatAge formats how long ago a time was; empty for nil.
func (s Screen) formatAge(t *metav1.Time) string {
	if t.IsZero() {
		return ""
	}
	return duration.HumanDuration(s.Now.Sub(t.Time))
}

// TimeZone says in which time zone formatTime formats: UTC, or the local one with its offset.
func (s Screen) TimeZone() string {
	if name, offset := s.Now.Zone(); offset != 0 {
		return name + " (" + s.Now.Format("UTC-07:00") + ")"
	}
	return "UTC"
}

// formatTime formats a time: the time of day if it is today, or else the date.
func (s Screen) formatTime(t metav1.Time) string {
	local := t.In(s.Now.Location())
	if s.Now.Sub(t.Time) < 20*time.Hour {
		return local.Format("15:04")
	}
	return local.Format("2006-01-02 15:04")
}

// Plain removes control characters from a text, because other users write these texts.
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

// column is a column of a table. If the screen is too narrow, columns with a larger value of keep are kept, and
// the texts of a flexible column are cut.
type column struct {
	title    string
	keep     int
	right    bool
	flexible bool
	// whole means that other columns are omitted before the texts of this one are cut.
	whole bool
}

// alwaysShown is the value of keep for columns that are never omitted.
const alwaysShown = 9

// drawTable draws rows below the titles of the columns, if there are titles.
func (s Screen) drawTable(columns []column, rows [][]string) string {
	if len(rows) == 0 {
		return ""
	}
	titles := make([]string, len(columns))
	for i, c := range columns {
		titles[i] = s.Paint(dim, c.title)
	}
	use, wide := s.fitColumns(columns, rows)
	if strings.Join(titles, "") != "" {
		rows = append([][]string{titles}, rows...)
	}
	return s.drawRows(columns, rows, use, wide)
}

// drawRows draws the cells of some columns. It cuts the cells that are wider than their column.
func (s Screen) drawRows(columns []column, rows [][]string, use, wide []int) string {
	var b strings.Builder
	for _, row := range rows {
		cells := make([]string, 0, len(use))
		for _, i := range use {
			cell := row[i]
			if columns[i].flexible {
				cell = ansi.Truncate(cell, wide[i], "…")
			}
			gap := strings.Repeat(" ", max(wide[i]-ansi.StringWidth(cell), 0))
			if columns[i].right {
				cells = append(cells, gap+cell)
			} else {
				cells = append(cells, cell+gap)
			}
		}
		b.WriteString(strings.TrimRight(strings.Join(cells, "  "), " ") + "\n")
	}
	return b.String()
}

// fitColumns returns the indexes of the columns that are not empty and fit on the screen, and the widths of
// all columns.
func (s Screen) fitColumns(columns []column, rows [][]string) (use, wide []int) {
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
		if columns[i].keep == alwaysShown || s.Width <= 0 || minTableWidth(columns, with, wide) <= s.Width {
			use = with
		}
	}
	over := -2 - s.Width
	for _, i := range use {
		over += wide[i] + 2
	}
	for _, i := range use {
		if columns[i].flexible && s.Width > 0 && over > 0 {
			wide[i] = max(wide[i]-over, min(wide[i], minFlexibleWidth))
		}
	}
	return use, wide
}

// minFlexibleWidth is the minimum width of a column whose texts may be cut.
const minFlexibleWidth = 16

// minTableWidth returns the minimum width of a table. The last column counts with a third of its width, but at
// least minFlexibleWidth, because its text may be cut.
func minTableWidth(columns []column, use, wide []int) int {
	sum := -2
	for at, i := range use {
		switch {
		case columns[i].flexible:
			sum += min(wide[i], minFlexibleWidth)
		case at == len(use)-1 && !columns[i].whole:
			sum += wide[i] - max(0, wide[i]-max(wide[i]/3, minFlexibleWidth))
		default:
			sum += wide[i]
		}
		sum += 2
	}
	return sum
}

// Clean removes control characters from all strings in a decoded JSON value.
func Clean(value any) any {
	switch v := value.(type) {
	case string:
		return Plain(v)
	case []any:
		for i := range v {
			v[i] = Clean(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = Clean(v[k])
		}
	}
	return value
}
