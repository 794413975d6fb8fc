// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// show reads one thing about a Rollout, and draws or prints it.
func show[T any](ctx context.Context, a *app, o *output, arg, sub string, draw func(screen, *T) string) error {
	s, name, err := a.open(ctx, arg)
	if err != nil {
		return err
	}
	got, err := read[T](ctx, s, name, sub)
	if err != nil {
		return err
	}
	if !o.drawn() {
		return o.print(a.Out, got.raw)
	}
	c := a.screen()
	return c.write(a.Out, draw(c, &got.it))
}

// open connects, and finds the Rollout that an argument names.
func (a *app) open(ctx context.Context, arg string) (*server, string, error) {
	s, err := a.connect()
	if err != nil {
		return nil, "", err
	}
	name, err := s.name(ctx, arg)
	return s, name, err
}

// mostCompleted bounds what a completion reads.
const mostCompleted = "500"

// completeNames completes the name of a Rollout.
func (a *app) completeNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	s, err := a.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	raw, err := s.rest.Get().Namespace(s.namespace).Resource("rollouts").Param("limit", mostCompleted).Do(cmd.Context()).Raw()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	list, err := decode[v1beta1.RolloutList](raw)
	names := make([]string, 0, len(list.it.Items))
	for i := range list.it.Items {
		names = append(names, list.it.Items[i].Name)
	}
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
