// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/weir-rollouts/weir/pkg/glossary"
)

// verbs are the commands for verbs, with their flags other than --reason. The server decides what a verb
// does and whether it is possible.
var verbs = []struct {
	name, alias          string
	full, override, step bool
	// on reports whether the verb continues the release, so that the command first shows the errors of the
	// plan.
	on bool
}{
	{name: "promote", alias: "approve", full: true, override: true, on: true},
	{name: "abort"},
	{name: "rollback"},
	{name: "retry", override: true, on: true},
	{name: "pause"},
	{name: "resume", on: true},
	{name: "jump", override: true, step: true, on: true},
}

// verbCommand holds the flags of a verb.
type verbCommand struct {
	*app
	*output
	verb, reason, selector, dryRun        string
	full, override, yes, continuesRelease bool
	step                                  int32
	// reasonGiven reports whether the command line has --reason.
	reasonGiven func() bool
}

func newVerbs(a *app) []*cobra.Command {
	all := make([]*cobra.Command, 0, len(verbs)+1)
	for _, v := range verbs {
		d := &verbCommand{app: a, verb: v.name, continuesRelease: v.on}
		known, _ := glossary.FindAction(v.name)
		cmd := a.newCommand(v.name+" NAME… | -l SELECTOR", known.Meaning, cobra.ArbitraryArgs, d.run)
		if v.step {
			cmd = a.newCommand(v.name+" NAME STEP", known.Meaning, cobra.ExactArgs(2), func(ctx context.Context, args []string) error {
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
	cmd := a.newCommand("do NAME VERB", "Send any verb that the server supports", cobra.ExactArgs(2), func(ctx context.Context, args []string) error {
		d.verb = args[1]
		return d.run(ctx, args[:1])
	})
	cmd.ValidArgsFunction = completeNames(a, "why", listVerbs)
	d.addFlags(cmd, true, true)
	cmd.Flags().Int32Var(&d.step, "step", 0, "the step, for a verb that needs one")
	return cmd
}

func (d *verbCommand) addFlags(cmd *cobra.Command, full, override bool) {
	d.output = addOutput(cmd)
	f := cmd.Flags()
	f.StringVar(&d.reason, "reason", "", "reason, recorded with the decision")
	d.reasonGiven = func() bool { return f.Changed("reason") }
	f.BoolVarP(&d.yes, "yes", "y", false, "do not ask for confirmation")
	f.StringVarP(&d.selector, "selector", "l", "", "label selector of Rollouts, instead of names")
	addDryRun(cmd, &d.dryRun)
	if full {
		f.BoolVar(&d.full, "full", false, "also approve all remaining steps")
	}
	if override {
		f.BoolVar(&d.override, "override", false, cmp.Or(d.verb, "act")+" despite failed or pending checks (requires --reason)")
	}
}

func addDryRun(cmd *cobra.Command, into *string) {
	cmd.Flags().StringVar(into, "dry-run", "none", `"none" or "server" (validate on the server without saving)`)
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
