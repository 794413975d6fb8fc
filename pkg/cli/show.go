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
	return newShow(a, "why", "Say what a Rollout waits for, since when, and what you can do", draw.Screen.Why)
}

// newShow returns a command that draws or prints a subresource of a Rollout.
func newShow[T any](a *app, sub, short string, drawing func(draw.Screen, *T) string) *cobra.Command {
	var o *output
	cmd := a.newRolloutCommand(sub+" NAME", short, cobra.ExactArgs(1), func(ctx context.Context, t *target, _ []string) error {
		got, err := read[T](ctx, t, sub)
		if err != nil {
			return err
		}
		return a.showOutput(o, got.raw, func(s draw.Screen) string { return drawing(s, &got.value) })
	})
	o = addOutput(cmd)
	return cmd
}

func newHistory(a *app) *cobra.Command {
	return newShow(a, "history", "List releases: who decided what, why, and how long it took", draw.Screen.History)
}

func newGet(a *app) *cobra.Command {
	var o *output
	var watch bool
	cmd := a.newRolloutCommand("get NAME", "Draw a release: its steps, its shares and its objects", cobra.ExactArgs(1), func(ctx context.Context, t *target, _ []string) error {
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
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "draw it live, with keys to act; without a terminal, a line for each change")
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
