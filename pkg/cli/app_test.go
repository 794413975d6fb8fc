// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"
)

// The documentation page mentions each command.
func TestPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	streams, _, _, _ := genericiooptions.NewTestIOStreams()
	for _, c := range NewCommand(streams, clock.RealClock{}, "test").Commands() {
		if !strings.Contains(string(page), "`"+c.Name()) && c.Name() != "completion" && c.Name() != "help" {
			t.Errorf("docs/cli.md lacks %s", c.Name())
		}
		if c.GroupID == "" && c.Name() != "completion" && c.Name() != "help" {
			t.Errorf("%s has no section in the help", c.Name())
		}
	}
}

// Names, verbs and releases are completed from responses of the server.
func TestCompletion(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"promote\nabort\n": {"do", "web", ""},
		"2\t5 new pods":    {"jump", "web", ""},
		"12\tv7 → v8":      {"diff", "web", ""},
	} {
		r := newRecording(t)
		out, code := r.run(t, append([]string{cobra.ShellCompRequestCmd}, args...)...)
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("%v: exit %d, want %q:\n%s", args, code, want, out)
		}
	}
}

// A command with too few arguments prints its usage.
func TestUsage(t *testing.T) {
	t.Parallel()
	for use, args := range map[string][]string{
		"missing NAME; usage: kubectl weir why NAME":                                       {"why"},
		"missing STEP; usage: kubectl weir jump NAME STEP":                                 {"jump", "web"},
		"missing CONTAINER=IMAGE; usage: kubectl weir set image NAME CONTAINER=IMAGE…":     {"set", "image", "web"},
		"missing NAME; usage: kubectl weir diff NAME [RELEASE [RELEASE]]":                  {"diff"},
		`unexpected argument "now"; usage: kubectl weir why NAME`:                          {"why", "web", "now"},
		`unexpected argument "rollout.yaml"; usage: kubectl weir lint -f FILE`:             {"lint", "rollout.yaml"},
		`unexpected argument "deployment/b"; usage: kubectl weir init KIND/NAME | -f FILE`: {"init", "deployment/a", "deployment/b"},
	} {
		streams, _, _, _ := genericiooptions.NewTestIOStreams()
		c := NewCommand(streams, clock.RealClock{}, "test")
		c.SetArgs(args)
		if err := c.Execute(); err == nil || err.Error() != use {
			t.Errorf("%q: the error is %v, want %s", args, err, use)
		}
	}
}
