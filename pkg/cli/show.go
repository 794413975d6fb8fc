// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"sync"

	"github.com/spf13/cobra"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/cli/draw"
)

func newWhy(a *app) *cobra.Command {
	return newShow(a, "why", "Show what a Rollout is waiting for, for how long, and what you can do", draw.Screen.Why)
}

// newShow returns a command that draws or prints a subresource of a Rollout.
func newShow[T any](a *app, sub, short string, drawing func(draw.Screen, *T) string, drawings ...string) *cobra.Command {
	var o *output
	cmd := a.newRolloutCommand(sub+" NAME", short, cobra.ExactArgs(1), func(ctx context.Context, t *target, _ []string) error {
		got, err := read[T](ctx, t, sub)
		if err != nil {
			return err
		}
		return a.showOutput(o, got.raw, func(s draw.Screen) string { return drawing(s, &got.value) })
	})
	o = addOutput(cmd, drawings...)
	return cmd
}

func newHistory(a *app) *cobra.Command {
	audit := &auditCommand{app: a}
	var since string
	one := newShow(a, "history", "List releases, and who decided what and why", draw.Screen.History, "csv")
	showOne := one.RunE
	cmd := a.newCommand("history [NAME]", one.Short, cobra.MaximumNArgs(1), nil)
	cmd.Long = `List the releases of a Rollout, and who decided what and why.

Without NAME, or with --since or -o csv, list the decisions of all Rollouts of the
namespace, or with -A of the cluster, for example for an audit. Times are in UTC.

  kubectl weir history web
  kubectl weir history -A --since 24h
  kubectl weir history -A --since 30d -o csv > decisions.csv`
	cmd.Flags().AddFlagSet(one.Flags())
	cmd.PreRunE = one.PreRunE
	cmd.Flags().BoolVarP(&audit.everywhere, "all-namespaces", "A", false, "list the decisions of all namespaces")
	cmd.Flags().StringVar(&since, "since", "", "list only decisions newer than this, for example 24h or 7d")
	cmd.RunE = func(c *cobra.Command, args []string) error {
		audit.format = c.Flags().Lookup("output").Value.String()
		if len(args) == 1 && !audit.everywhere && since == "" && audit.format != "csv" {
			return showOne(c, args)
		}
		if since != "" {
			var err error
			if audit.since, err = parseSince(since); err != nil {
				return err
			}
		}
		if len(args) == 1 {
			t, err := a.openTarget(c.Context(), args[0])
			if err != nil {
				return err
			}
			audit.name = t.name
		}
		return audit.run(c.Context())
	}
	return cmd
}

func newGet(a *app) *cobra.Command {
	var o *output
	var watch bool
	cmd := a.newRolloutCommand("get NAME", "Show a release as a tree: steps, traffic and objects", cobra.ExactArgs(1), func(ctx context.Context, t *target, _ []string) error {
		if watch && o.isDrawing() {
			return a.watchLive(ctx, t, o.isWide())
		}
		tree, err := read[v1beta1.RolloutTree](ctx, t, "tree")
		if err != nil {
			return err
		}
		p := &draw.Picture{Tree: &tree.value, Wide: o.isWide()}
		if o.isDrawing() {
			completePicture(ctx, t, p)
		}
		return a.showOutput(o, tree.raw, p.Draw)
	})
	o = addOutput(cmd, "wide")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "watch live, with keys to act; without a terminal, print a line for each change")
	return cmd
}

// completePicture reads the plan and the history of a tree. Without the permissions, they stay empty.
func completePicture(ctx context.Context, t *target, p *draw.Picture) {
	var wait sync.WaitGroup
	wait.Go(func() {
		if plan, err := read[v1beta1.RolloutPlan](ctx, t, "plan"); err == nil {
			p.Plan = &plan.value
		}
	})
	wait.Go(func() {
		past, err := read[v1beta1.RolloutReleases](ctx, t, "history")
		if err == nil && p.Tree.Why.Release != nil && len(past.value.Releases) > 0 {
			p.Release = &past.value.Releases[0]
		}
	})
	wait.Wait()
}
