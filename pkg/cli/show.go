// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"slices"

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
	raw, err := sent(cmd.Context(), s.rest.Get().Namespace(s.namespace).Resource("rollouts").Param("limit", mostCompleted))
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

// completeNext completes a name, then what is known of that Rollout.
func completeNext[T any](a *app, cmd *cobra.Command, args []string, sub string, of func(*T) []string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return a.completeNames(cmd, args, "")
	}
	s, err := a.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	got, err := read[T](cmd.Context(), s, args[0], sub)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return of(&got.it), cobra.ShellCompDirectiveNoFileComp
}

// completeVerbs completes the verbs that are possible.
func completeVerbs(a *app) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		return completeNext(a, cmd, args, "why", func(w *v1beta1.RolloutWhy) []string {
			var possible []string
			for _, action := range w.Actions {
				if action.Possible && action.Allowed {
					possible = append(possible, action.Verb)
				}
			}
			return slices.Compact(possible)
		})
	}
}

// completeSteps completes the numbers of steps.
func completeSteps(a *app) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		return completeNext(a, cmd, args, "plan", func(p *v1beta1.RolloutPlan) []string {
			var numbers []string
			for i := range p.Status.Steps {
				if step := &p.Status.Steps[i]; step.Step > 0 {
					numbers = append(numbers, number(step.Step)+"\t"+count(step.Update, "new pod")+" "+percent(step.Traffic))
				}
			}
			return numbers
		})
	}
}

// completeReleases completes the numbers of releases.
func completeReleases(a *app) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		return completeNext(a, cmd, args, "history", func(h *v1beta1.RolloutReleases) []string {
			var numbers []string
			for i := range h.Releases {
				r := &h.Releases[i]
				numbers = append(numbers, fmt.Sprintf("%d\t%s %s", r.Number, versions(&r.ReleaseRef), r.Outcome))
			}
			return numbers
		})
	}
}
