// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/cli/draw"
)

// changeCommand holds the flags of commands that write the workload with the permissions of the user.
type changeCommand struct {
	*app
	yes, wait bool
	timeout   time.Duration
	dryRun    string
	to        int64
}

// workloadEdit is a patch of a workload, with the request for its plan.
type workloadEdit struct {
	kind  types.PatchType
	patch []byte
	what  string
	plan  v1beta1.PlanSpec
	// unchanged means that the workload already is as the patch would make it.
	unchanged bool
}

func newSet(a *app) *cobra.Command {
	c := &changeCommand{app: a}
	image := c.newRolloutCommand("image NAME CONTAINER=IMAGE…", "Preview the plan, ask, and set images of the workload", cobra.MinimumNArgs(2),
		func(ctx context.Context, t *target, args []string) error {
			images := map[string]string{}
			for _, arg := range args {
				container, image, ok := strings.Cut(arg, "=")
				if !ok || container == "" {
					return fmt.Errorf("%q must be CONTAINER=IMAGE", arg)
				}
				images[container] = image
			}
			if err := checkImages(images); err != nil {
				return err
			}
			return c.run(ctx, t, func(workload *unstructured.Unstructured) (*workloadEdit, error) { return setImages(workload, images) })
		})
	c.addFlags(image)
	set := &cobra.Command{Use: "set", Short: "Preview the plan, then set an image"}
	set.AddCommand(image)
	return set
}

func newUndo(a *app) *cobra.Command {
	c := &changeCommand{app: a}
	cmd := c.newRolloutCommand("undo NAME", "Release an earlier version again, through all steps (shows the plan and asks first)", cobra.ExactArgs(1),
		func(ctx context.Context, t *target, _ []string) error { return c.undo(ctx, t) })
	cmd.Flags().Int64Var(&c.to, "to", 0, "number of the release whose version is released again (default: the version before the current one)")
	c.addFlags(cmd)
	return cmd
}

func (c *changeCommand) undo(ctx context.Context, t *target) error {
	return c.run(ctx, t, func(workload *unstructured.Unstructured) (*workloadEdit, error) {
		return c.prepareUndo(ctx, t, workload)
	})
}

func (c *changeCommand) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVarP(&c.yes, "yes", "y", false, "do not ask for confirmation, even if the plan has errors")
	f.BoolVar(&c.wait, "wait", false, "after the change, wait until the release is over, or someone has to act")
	f.DurationVar(&c.timeout, "timeout", 30*time.Minute, "how long --wait waits")
	addDryRun(cmd, &c.dryRun)
}

// imagePattern matches the name of an image as container runtimes parse it: registry, path in lower case, tag and
// digest.
var imagePattern = regexp.MustCompile(`^([\w.-]+(:\d+)?/)?[a-z\d]+([._/-]+[a-z\d]+)*(:\w[\w.-]{0,127})?(@[a-z\d]+:[a-f\d]{32,})?$`)

// checkImages returns an error for the first invalid image.
func checkImages(images map[string]string) error {
	for _, container := range slices.Sorted(maps.Keys(images)) {
		if !imagePattern.MatchString(images[container]) {
			return fmt.Errorf("%q is not an image: use [REGISTRY/]NAME[:TAG][@DIGEST], with a lower-case name", images[container])
		}
	}
	return nil
}

// setImages returns a patch that sets images. The patch fails if the containers were reordered meanwhile.
func setImages(workload *unstructured.Unstructured, images map[string]string) (*workloadEdit, error) {
	var patch []map[string]any
	var known []string
	unchanged := true
	for _, list := range []string{"containers", "initContainers"} {
		containers, _, _ := unstructured.NestedSlice(workload.Object, "spec", "template", "spec", list) // the list may be missing
		for i := range containers {
			container, _ := containers[i].(map[string]any)
			name, _ := container["name"].(string)
			known = append(known, name)
			if image, ok := images[name]; ok {
				unchanged = unchanged && container["image"] == image
				path := fmt.Sprintf("/spec/template/spec/%s/%d/", list, i)
				patch = append(patch, map[string]any{"op": "test", "path": path + "name", "value": name},
					map[string]any{"op": "add", "path": path + "image", "value": image})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(images)) {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("%s %s has no container %s; it has %s", workload.GetKind(), workload.GetName(), name, strings.Join(known, ", "))
		}
	}
	data, err := json.Marshal(patch)
	return &workloadEdit{types.JSONPatchType, data, "image set", v1beta1.PlanSpec{Images: images}, unchanged}, err
}

// prepareUndo returns a patch that sets the template of an earlier release.
func (c *changeCommand) prepareUndo(ctx context.Context, t *target, workload *unstructured.Unstructured) (*workloadEdit, error) {
	number, isBefore := c.to, false
	if number == 0 {
		history, err := read[v1beta1.RolloutReleases](ctx, t, "history")
		if err != nil {
			return nil, err
		}
		why, err := read[v1beta1.RolloutWhy](ctx, t, "why")
		if err != nil {
			return nil, err
		}
		if number, isBefore, err = chooseEarlierVersion(history.value.Releases, why.value.Release != nil); err != nil {
			return nil, err
		}
	}
	data, err := workload.MarshalJSON()
	if err != nil {
		return nil, err
	}
	e := &workloadEdit{kind: types.MergePatchType, what: fmt.Sprintf("template of release %d set", number)}
	if isBefore {
		e.what = fmt.Sprintf("template from before release %d set", number)
	}
	if e.patch, err = t.readRestorePatch(ctx, number, isBefore); err != nil {
		if c.to != 0 && apierrors.IsBadRequest(err) {
			return nil, t.describeMissingRelease(ctx, c.to)
		}
		return nil, err
	}
	if e.plan.Workload.Raw, err = jsonpatch.MergePatch(data, e.patch); err != nil {
		return nil, err
	}
	without, err := jsonpatch.MergePatch(data, []byte("{}")) // drops empty fields, as the other patch does
	e.unchanged = jsonpatch.Equal(without, e.plan.Workload.Raw)
	return e, err
}

// describeMissingRelease returns the error about a release in --to that is not on record. It names the releases that are.
func (t *target) describeMissingRelease(ctx context.Context, number int64) error {
	history, err := read[v1beta1.RolloutReleases](ctx, t, "history")
	if err != nil {
		return err
	}
	var recorded []string
	for _, r := range history.value.Releases {
		recorded = append(recorded, strconv.FormatInt(r.Number, 10))
	}
	if len(recorded) == 0 {
		return fmt.Errorf("--to %d: there is no release %d, because rollout %s has no releases on record", number, number, t.name)
	}
	return fmt.Errorf("--to %d: there is no release %d of rollout %s on record; choose one of %s", number, number, t.name, strings.Join(recorded, ", "))
}

// chooseEarlierVersion returns the release to go back to, newest first. If isBefore is true, this is the version that
// served before the release, because no recorded release has this version as its result. While a release is in
// progress, undo goes back to the version that serves.
func chooseEarlierVersion(releases []v1beta1.PastRelease, inProgress bool) (number int64, isBefore bool, err error) {
	at := slices.IndexFunc(releases, func(r v1beta1.PastRelease) bool { return r.Outcome == v1beta1.ReleaseSucceeded })
	switch {
	case at >= 0 && inProgress:
		return releases[at].Number, false, nil
	case inProgress && len(releases) > 0:
		return releases[0].Number, true, nil
	case at < 0:
		return 0, false, errors.New("there is no successful release to undo; choose a release with --to (see kubectl weir history)")
	}
	serving := &releases[at]
	for _, earlier := range releases[at+1:] {
		if earlier.Outcome == v1beta1.ReleaseSucceeded && earlier.Revision == serving.Stable {
			return earlier.Number, false, nil
		}
	}
	return serving.Number, true, nil
}

// run reads the workload, shows the plan of the change, and patches the workload.
func (c *changeCommand) run(ctx context.Context, t *target, prepare func(*unstructured.Unstructured) (*workloadEdit, error)) error {
	if err := checkDryRun(c.dryRun); err != nil {
		return err
	}
	info, workload, err := c.readWorkload(ctx, t)
	if err != nil {
		return err
	}
	e, err := prepare(workload)
	if err != nil {
		return err
	}
	dry := c.dryRun == "server"
	if e.unchanged {
		fmt.Fprintf(c.Out, "%s/%s: unchanged, because it already has this template; nothing would be released\n", strings.ToLower(workload.GetKind()), info.Name)
		return c.waitAfterChange(ctx, t)
	}
	if err := c.confirmPlan(ctx, t, e); err != nil {
		return err
	}
	helper := resource.NewHelper(info.Client, info.Mapping).WithFieldManager("kubectl-weir").DryRun(dry)
	if _, err := helper.Patch(info.Namespace, info.Name, e.kind, e.patch, nil); err != nil {
		return err
	}
	if dry {
		e.what += " (server dry run)"
	}
	fmt.Fprintf(c.Out, "%s/%s: %s\n", strings.ToLower(workload.GetKind()), info.Name, e.what)
	return c.waitAfterChange(ctx, t)
}

// waitAfterChange waits for the release if --wait is given.
func (c *changeCommand) waitAfterChange(ctx context.Context, t *target) error {
	if !c.wait || c.dryRun == "server" {
		return nil
	}
	w := &waitCommand{app: c.app, conditions: []string{"healthy", "waiting"}, timeout: c.timeout}
	return w.wait(ctx, t)
}

// readWorkload reads the workload of a Rollout.
func (a *app) readWorkload(ctx context.Context, t *target) (*resource.Info, *unstructured.Unstructured, error) {
	r, err := read[v1beta1.Rollout](ctx, t, "")
	if err != nil {
		return nil, nil, err
	}
	ref := r.value.Spec.WorkloadRef
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	infos, err := a.readObjects(t.namespace, fmt.Sprintf("%s.%s.%s/%s", kind.Kind, kind.Version, kind.Group, ref.Name))
	if err != nil {
		return nil, nil, err
	}
	workload, _ := infos[0].Object.(*unstructured.Unstructured)
	return infos[0], workload, nil
}

// readObjects reads objects of a namespace: KIND/NAME, or all of a KIND.
func (a *app) readObjects(namespace, which string) ([]*resource.Info, error) {
	return resource.NewBuilder(a.flags).Unstructured().NamespaceParam(namespace).DefaultNamespace().
		ResourceTypeOrNameArgs(true, which).Flatten().Do().Infos()
}

// confirmPlan draws the plan and asks the user to confirm. Without a terminal, it returns an error only if the
// plan has errors.
func (c *changeCommand) confirmPlan(ctx context.Context, t *target, e *workloadEdit) error {
	plan, err := t.requestPlan(ctx, e.plan)
	if err != nil {
		c.printNote("Could not preview the result: %s", err)
	} else {
		s := c.screen()
		fmt.Fprint(c.ErrOut, s.Finish(s.Plan(&plan.value)))
	}
	switch {
	case c.yes:
		return nil
	case c.canAsk() && !c.confirm("Continue?"):
		return errNothingChanged
	case !c.canAsk() && draw.HasErrors(&plan.value):
		return &exitError{exitPerson, "the plan has errors, so nothing was changed; use --yes to proceed anyway"}
	}
	return nil
}
