// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"

	"github.com/weir-rollouts/weir/pkg/cli"
)

// command matches a call of the plugin on a page, up to what ends a command in a shell or in a sentence.
var command = regexp.MustCompile("kubectl weir ([a-z-][^`\n|<>&;#]*)")

// The commands and flags of kubectl weir that pages show exist.
func TestCommands(t *testing.T) {
	t.Parallel()
	streams, _, _, _ := genericiooptions.NewTestIOStreams()
	root := cli.NewCommand(streams, clock.RealClock{}, "")
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, page := range append(pages, "../README.md", "../CONTRIBUTING.md") {
		for _, found := range command.FindAllStringSubmatch(codeOf(readPage(t, page)), -1) {
			checked++
			if problem := findProblem(root, strings.Fields(found[1])); problem != "" {
				t.Errorf("%s: kubectl weir %s: %s", page, found[1], problem)
			}
		}
	}
	if checked < 80 {
		t.Errorf("there are only %d commands on the pages: the test does not find them", checked)
	}
}

// codeOf returns the code of a page.
func codeOf(page string) string {
	return strings.Join(codeBlock.FindAllString(page, -1), "\n")
}

// findProblem returns what is wrong with a command; empty if nothing is.
func findProblem(root *cobra.Command, args []string) string {
	called, rest, err := root.Find(args)
	if err != nil {
		return err.Error()
	}
	if called == root && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return "there is no such command"
	}
	for _, arg := range args {
		name, isLong := strings.CutPrefix(arg, "--")
		name, _, _ = strings.Cut(name, "=")
		switch short := strings.TrimPrefix(arg, "-"); {
		case isLong && name == "help" || !strings.HasPrefix(arg, "-") || short == "":
		case isLong && called.Flags().Lookup(name) == nil && called.InheritedFlags().Lookup(name) == nil:
			return "there is no flag --" + name
		case !isLong && called.Flags().ShorthandLookup(short[:1]) == nil && called.InheritedFlags().ShorthandLookup(short[:1]) == nil:
			return "there is no flag -" + short[:1]
		}
	}
	return ""
}
