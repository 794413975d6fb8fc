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

// terminal is the input and output of the command, which may be a terminal or not.
type terminal struct {
	genericiooptions.IOStreams
	clock clock.Clock
	ascii bool
}

// screen returns the properties of the output.
func (t *terminal) screen() draw.Screen {
	s := draw.Screen{ASCII: t.ascii || !hasUTF8Locale(), Now: t.clock.Now()}
	s.Colour = colorprofile.Detect(t.Out, os.Environ()) >= colorprofile.ANSI
	if f, ok := t.Out.(*os.File); ok && isTerminal(f) {
		s.Width, _, _ = term.GetSize(int(f.Fd())) // 0 means unlimited
	}
	return s
}

// printNote prints a line on the standard error.
func (t *terminal) printNote(format string, args ...any) {
	fmt.Fprintln(t.ErrOut, draw.Plain(fmt.Sprintf(format, args...)))
}

// canAsk reports whether the user can be asked.
func (t *terminal) canAsk() bool { return isTerminal(t.In) && isTerminal(t.Out) }

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// hasUTF8Locale reports whether the locale uses UTF-8.
func hasUTF8Locale() bool {
	locale := strings.ToLower(cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG")))
	return strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8") || locale == "" && runtime.GOOS == "windows"
}

// askLine asks the user for a line of text.
func (t *terminal) askLine(question string) string {
	fmt.Fprint(t.ErrOut, question)
	line, _ := bufio.NewReader(t.In).ReadString('\n') // empty at the end of the input
	return strings.TrimSpace(line)
}

func (t *terminal) confirm(question string) bool {
	return strings.HasPrefix(strings.ToLower(t.askLine(question+" [y/N] ")), "y")
}

// sleep waits until the time has passed or the context ends.
func (t *terminal) sleep(ctx context.Context, long time.Duration) {
	select {
	case <-ctx.Done():
	case <-t.clock.After(long):
	}
}
