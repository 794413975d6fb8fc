// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// terminal prints the story, in colour where somebody looks at it.
type terminal struct {
	out    io.Writer
	colour bool
}

const (
	bold  = "1"
	dim   = "2"
	green = "32"
)

func newTerminal(f *os.File) *terminal {
	info, err := f.Stat()
	looked := err == nil && info.Mode()&os.ModeCharDevice != 0
	return &terminal{out: f, colour: looked && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

func (t *terminal) paint(how, text string) string {
	if !t.colour {
		return text
	}
	return "\x1b[" + how + "m" + text + "\x1b[0m"
}

// title begins a chapter.
func (t *terminal) title(text string) {
	fmt.Fprintf(t.out, "\n%s\n", t.paint(bold, "== "+text))
}

// say tells what happens next or what was seen.
func (t *terminal) say(text string) {
	fmt.Fprintf(t.out, "\n%s\n", wrap(text, 100))
}

// note tells what was waited for.
func (t *terminal) note(format string, args ...any) {
	fmt.Fprintln(t.out, t.paint(dim, "... "+fmt.Sprintf(format, args...)))
}

// typed shows a command before it runs.
func (t *terminal) typed(who, line string) {
	if who != "" {
		who += " "
	}
	fmt.Fprintln(t.out, t.paint(green, who+"$ ")+t.paint(bold, line))
}

// block shows the output of a command, or lines to copy.
func (t *terminal) block(text string) {
	for line := range strings.Lines(text) {
		fmt.Fprintln(t.out, "  "+strings.TrimRight(line, " \n"))
	}
}

// wrap breaks text into lines of at most width characters.
func wrap(text string, width int) string {
	var b strings.Builder
	at := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case at+1+len(word) > width:
			b.WriteByte('\n')
			at = 0
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += len(word)
	}
	return b.String()
}
