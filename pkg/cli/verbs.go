// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
)

// verbs are the commands for verbs, with their flags other than --reason. The server decides what a verb
// does and whether it is possible.
var verbs = []struct {
	name, alias, short   string
	full, override, step bool
	// on reports whether the verb continues the release, so that the command first shows the errors of the
	// plan.
	on bool
}{
	{name: "promote", alias: "approve", short: "Approve the step that waits", full: true, override: true, on: true},
	{name: "abort", short: "Move traffic and pods back to the stable version"},
	{name: "rollback", short: "Abort, then set the stable template again"},
	{name: "retry", short: "Start an aborted release at step 1", override: true, on: true},
	{name: "pause", short: "Stop the release where it is"},
	{name: "resume", short: "End the pause", on: true},
	{name: "jump", short: "Go on at step N", override: true, step: true, on: true},
}

// verbCommand holds the flags of a verb.
type verbCommand struct {
	*app
	*output
	verb, reason, selector, dryRun        string
	full, override, yes, continuesRelease bool
	step                                  int32
}

func newVerbs(a *app) []*cobra.Command {
	all := make([]*cobra.Command, 0, len(verbs)+1)
	for _, v := range verbs {
		d := &verbCommand{app: a, verb: v.name, continuesRelease: v.on}
		cmd := a.newCommand(v.name+" NAME… | -l SELECTOR", v.short, cobra.ArbitraryArgs, d.run)
		if v.step {
			cmd = a.newCommand(v.name+" NAME STEP", v.short, cobra.ExactArgs(2), func(ctx context.Context, args []string) error {
				if err := d.parseStep(args[1]); err != nil {
					return err
				}
				return d.run(ctx, args[:1])
			})
			cmd.ValidArgsFunction = completeNames(a, "plan", listSteps)
		}
		if v.alias != "" {
			cmd.Aliases = []string{v.alias}
		}
		d.addFlags(cmd, v.full, v.override)
		all = append(all, cmd)
	}
	return append(all, newDo(a))
}

// newDo returns the command for verbs that this program does not know.
func newDo(a *app) *cobra.Command {
	d := &verbCommand{app: a, continuesRelease: true}
	cmd := a.newCommand("do NAME VERB", "Use any verb that the server has", cobra.ExactArgs(2), func(ctx context.Context, args []string) error {
		d.verb = args[1]
		return d.run(ctx, args[:1])
	})
	cmd.ValidArgsFunction = completeNames(a, "why", listVerbs)
	d.addFlags(cmd, true, true)
	cmd.Flags().Int32Var(&d.step, "step", 0, "the step, for a verb that asks for one")
	return cmd
}

func (d *verbCommand) addFlags(cmd *cobra.Command, full, override bool) {
	d.output = addOutput(cmd)
	f := cmd.Flags()
	f.StringVar(&d.reason, "reason", "", "why; it is kept with the decision")
	f.BoolVarP(&d.yes, "yes", "y", false, "ask nothing")
	f.StringVarP(&d.selector, "selector", "l", "", "labels of Rollouts, instead of names")
	addDryRun(cmd, &d.dryRun)
	if full {
		f.BoolVar(&d.full, "full", false, "approve every further step, too")
	}
	if override {
		f.BoolVar(&d.override, "override", false, "whatever the checks say; takes a --reason")
	}
}

func addDryRun(cmd *cobra.Command, into *string) {
	cmd.Flags().StringVar(into, "dry-run", "none", "none, or server: the server answers, and stores nothing")
}

func checkDryRun(flag string) error {
	if flag != "none" && flag != "server" {
		return fmt.Errorf("--dry-run=%s must be none or server", flag)
	}
	return nil
}

func (d *verbCommand) parseStep(text string) error {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 {
		return fmt.Errorf("step %q must be a number from 1", text)
	}
	d.step = int32(n)
	return nil
}
