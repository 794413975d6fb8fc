// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/cli/draw"
)

// diffCommand holds the flags of diff.
type diffCommand struct {
	*app
	full bool
}

func newDiff(a *app) *cobra.Command {
	d := &diffCommand{app: a}
	cmd := a.newRolloutCommand("diff NAME [RELEASE [RELEASE]]", "Show what a release changed, or compare two releases", cobra.RangeArgs(1, 3), d.run)
	cmd.ValidArgsFunction = completeNames(a, "history", listReleases)
	cmd.Long = `Show what the latest release, or the named one, changed in the pod template, or how two
releases differ. Whole templates (--full, or two releases that do not follow each other)
are compared with the program in KUBECTL_EXTERNAL_DIFF, or else with diff.`
	cmd.Flags().BoolVar(&d.full, "full", false, "compare whole templates")
	return cmd
}

func (d *diffCommand) run(ctx context.Context, t *target, releases []string) error {
	history, err := read[v1beta1.RolloutReleases](ctx, t, "history")
	if err != nil {
		return err
	}
	all := history.value.Releases
	if len(all) == 0 {
		return fmt.Errorf("%s has no releases yet", t.name)
	}
	newest := &all[0]
	if len(releases) > 0 {
		newest, err = findRelease(all, releases[len(releases)-1])
	}
	if err != nil {
		return err
	}
	before := findReplaced(all, newest)
	oldest := before
	if len(releases) == 2 {
		oldest, err = findRelease(all, releases[0])
	}
	switch {
	case err != nil:
		return err
	case oldest == before && !d.full && len(newest.Changes) == 0 && newest.MoreChanges == 0 && !newest.StableOnRecord:
		return t.describeUnseenChange(ctx, newest.Number)
	case oldest == before && !d.full:
		return d.showOutput(nil, nil, func(s draw.Screen) string { return s.Changes(newest) })
	case oldest == nil && newest.Stable == "":
		return fmt.Errorf("nothing was before release %d", newest.Number)
	case oldest == nil: // what served before is in the record of the release itself
		return d.compareTemplates(ctx, t, template{newest.Number, true}, template{newest.Number, false})
	}
	return d.compareTemplates(ctx, t, template{oldest.Number, false}, template{newest.Number, false})
}

// describeUnseenChange returns the error about a release whose templates the server does not show. The server leaves out
// templates if the user may not get the workload, and also if they are not recorded any more; the answer is the same.
func (t *target) describeUnseenChange(ctx context.Context, number int64) error {
	workload := "the workload of " + resourceName(t.name)
	if r, err := read[v1beta1.Rollout](ctx, t, ""); err == nil && r.value.Spec.WorkloadRef.Kind != "" {
		workload = r.value.Spec.WorkloadRef.Kind + " " + r.value.Spec.WorkloadRef.Name
	}
	return fmt.Errorf("what release %d changed cannot be seen: you need permission to get %s in namespace %s, or the templates are not recorded any more", number, workload, t.namespace)
}

// findRelease returns the release with a number.
func findRelease(all []v1beta1.PastRelease, given string) (*v1beta1.PastRelease, error) {
	for i := range all {
		if given == strconv.FormatInt(all[i].Number, 10) {
			return &all[i], nil
		}
	}
	return nil, fmt.Errorf("there is no release %s; see kubectl weir history", given)
}

// findReplaced returns the release whose version r replaced; nil if it is not on record.
func findReplaced(all []v1beta1.PastRelease, r *v1beta1.PastRelease) *v1beta1.PastRelease {
	for i := range all {
		if all[i].Number < r.Number && all[i].Revision == r.Stable {
			return &all[i]
		}
	}
	return nil
}

// readRestorePatch returns the patch that sets the template of a release again or, if isBefore is true, the template that
// served before the release. Control characters stay in it, because it is written and not drawn.
func (t *target) readRestorePatch(ctx context.Context, number int64, isBefore bool) ([]byte, error) {
	r := t.rest.Get().Namespace(t.namespace).Resource("rollouts").Name(t.name).SubResource("history").Param("release", strconv.FormatInt(number, 10))
	var past v1beta1.RolloutReleases
	if err := r.Do(ctx).Into(&past); err != nil {
		return nil, explainError(err, "history")
	}
	what := "the template of"
	for i := range past.Releases {
		patch := past.Releases[i].Restore.Raw
		if isBefore {
			patch, what = past.Releases[i].RestoreStable.Raw, "the template from before"
		}
		if past.Releases[i].Number == number && len(patch) > 0 {
			return patch, nil
		}
	}
	return nil, fmt.Errorf("%s release %d is not recorded any more, or you need permission to get its workload", what, number)
}

// template is the template of a release or, if isBefore is true, the one that served before the release.
type template struct {
	release  int64
	isBefore bool
}

// compareTemplates runs an external program that compares two templates, as kubectl diff does.
func (d *diffCommand) compareTemplates(ctx context.Context, t *target, templates ...template) error {
	dir, err := os.MkdirTemp("", "kubectl-weir-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // the directory contains only copies
	command := strings.Fields(cmp.Or(os.Getenv("KUBECTL_EXTERNAL_DIFF"), "diff -u -N"))
	for _, one := range templates {
		patch, err := t.readRestorePatch(ctx, one.release, one.isBefore)
		if err != nil {
			return err
		}
		text, err := yaml.JSONToYAML(patch)
		if err != nil {
			return err
		}
		file := fmt.Sprintf("release-%d.yaml", one.release)
		if one.isBefore {
			file = "before-" + file
		}
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
			return err
		}
		command = append(command, file)
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, d.Out, d.ErrOut                // in this directory, the output has short file names
	if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() != 1 { // 1 means that the files differ
		return fmt.Errorf("running %s: %w", command[0], err)
	}
	return nil
}
