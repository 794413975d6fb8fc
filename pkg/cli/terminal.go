// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/charmbracelet/colorprofile"
	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"

	"github.com/weir-rollouts/weir/pkg/cli/draw"
)

// terminal is where a person reads and types, or where a script does.
type terminal struct {
	genericiooptions.IOStreams
	clock clock.Clock
	ascii bool
}

// screen is what the output is drawn on.
func (t *terminal) screen() draw.Screen {
	s := draw.Screen{ASCII: t.ascii || !speaksUTF8(), Now: t.clock.Now()}
	s.Colour = colorprofile.Detect(t.Out, os.Environ()) >= colorprofile.ANSI
	if f, ok := t.Out.(*os.File); ok && isTerminal(f) {
		s.Width, _, _ = term.GetSize(int(f.Fd())) // 0 is as wide as needed
	}
	return s
}

// note writes a line of the standard error.
func (t *terminal) note(format string, args ...any) {
	fmt.Fprintln(t.ErrOut, draw.Plain(fmt.Sprintf(format, args...)))
}

// asks reports whether a person can be asked.
func (t *terminal) asks() bool { return isTerminal(t.In) && isTerminal(t.Out) }

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// speaksUTF8 reports whether the locale has more than ASCII.
func speaksUTF8() bool {
	locale := strings.ToLower(cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG")))
	return strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8") || locale == "" && runtime.GOOS == "windows"
}

// ask asks a person for a line.
func (t *terminal) ask(question string) string {
	fmt.Fprint(t.ErrOut, question)
	line, _ := bufio.NewReader(t.In).ReadString('\n') // at the end of the input it is empty
	return strings.TrimSpace(line)
}

func (t *terminal) confirm(question string) bool {
	return strings.HasPrefix(strings.ToLower(t.ask(question+" [y/N] ")), "y")
}

// sleep waits, unless the caller ends it.
func (t *terminal) sleep(ctx context.Context, long time.Duration) {
	select {
	case <-ctx.Done():
	case <-t.clock.After(long):
	}
}
