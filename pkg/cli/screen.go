// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// screen is what is drawn on. It has no effects: texts in, texts out.
type screen struct {
	// width in columns; 0 is as wide as needed.
	width         int
	ascii, colour bool
	now           time.Time
}

// inASCII has for each sign one of the same width.
var inASCII = strings.NewReplacer(
	"✔", "+", "▶", ">", "○", "o", "✘", "x", "↻", "~", "‖", "=", "→", ">", "−", "-", "≥", ">", "×", "x", "·", "-", "…", "~",
	"├", "|", "─", "-", "└", "`", "│", "|", "░", ".", "▁", "_", "▂", "_", "▃", "-", "▄", "-", "▅", "-", "▆", "=", "▇", "=", "█", "#",
)

// finish has no line that is wider than the screen: it ends with an ellipsis.
func (s screen) finish(drawing string) string {
	tail := "…"
	if s.ascii {
		drawing, tail = inASCII.Replace(drawing), "~"
	}
	lines := strings.Split(drawing, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
		if s.width > 0 {
			lines[i] = ansi.Truncate(lines[i], s.width, tail)
		}
	}
	return strings.Join(lines, "\n")
}

// wrap breaks a text into lines, all but the first one indented.
func (s screen) wrap(text, indent string) string {
	if s.width <= 0 {
		return text
	}
	return strings.ReplaceAll(ansi.Wrap(text, max(s.width-len(indent), 10), ""), "\n", "\n"+indent)
}

// The colours, each beside a word that says the same. They are those of the terminal.
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

func (s screen) paint(colour, text string) string {
	if !s.colour || colour == "" || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[m"
}

// age says how long ago a moment was, and nothing where it is not known.
func (s screen) age(t *metav1.Time) string {
	if t.IsZero() {
		return ""
	}
	return duration.HumanDuration(s.now.Sub(t.Time))
}

// at says when a moment was: the time of today, or the date.
func (s screen) at(t metav1.Time) string {
	local := t.In(s.now.Location())
	if s.now.Sub(t.Time) < 20*time.Hour {
		return local.Format("15:04")
	}
	return local.Format("2006-01-02 15:04")
}

// plain leaves out what would change the terminal: others write the texts.
func plain(text string) string {
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
func (s screen) table(columns []column, rows [][]string) string {
	if len(rows) == 0 {
		return ""
	}
	titles := make([]string, len(columns))
	for i, c := range columns {
		titles[i] = s.paint(dim, c.title)
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
func (s screen) fitting(columns []column, rows [][]string) (use, wide []int) {
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
		if columns[i].keep == always || s.width <= 0 || total(with, wide) <= s.width {
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
