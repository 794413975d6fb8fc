// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/cli/draw"
)

// maxCompleted limits the number of Rollouts that a completion reads.
const maxCompleted = "500"

// completeNames completes the name of a Rollout. If words is not nil, it then completes the words for a
// subresource of that Rollout.
func completeNames[T any](a *app, sub string, words func(*T) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 && words == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		s, err := a.connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		if len(args) > 0 {
			got, err := read[T](cmd.Context(), &target{s, args[0]}, sub)
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			return words(&got.value), cobra.ShellCompDirectiveNoFileComp
		}
		found, err := s.listRollouts(cmd.Context(), "limit", maxCompleted)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		names := make([]string, 0, len(found))
		for i := range found {
			names = append(names, found[i].Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// listVerbs returns the possible and permitted verbs.
func listVerbs(w *v1beta1.RolloutWhy) []string {
	var possible []string
	for _, action := range w.Actions {
		if action.Possible && action.Allowed {
			possible = append(possible, action.Verb)
		}
	}
	return slices.Compact(possible)
}

// listSteps returns the numbers of the steps.
func listSteps(p *v1beta1.RolloutPlan) []string {
	var numbers []string
	for i := range p.Status.Steps {
		if step := &p.Status.Steps[i]; step.Step > 0 {
			numbers = append(numbers, draw.Number(step.Step)+"\t"+draw.Count(step.Update, "new pod")+" "+draw.Percent(step.Traffic))
		}
	}
	return numbers
}

// listReleases returns the numbers of the releases.
func listReleases(h *v1beta1.RolloutReleases) []string {
	var numbers []string
	for i := range h.Releases {
		r := &h.Releases[i]
		numbers = append(numbers, fmt.Sprintf("%d\t%s %s", r.Number, draw.Versions(&r.ReleaseRef), r.Outcome))
	}
	return numbers
}
