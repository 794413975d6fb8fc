// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// change are the flags of what writes the workload, with the rights of the caller.
type change struct {
	*app
	yes, wait bool
	timeout   time.Duration
	dryRun    string
	to        int64
}

func (c *change) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVarP(&c.yes, "yes", "y", false, "ask nothing, whatever the plan says")
	f.BoolVar(&c.wait, "wait", false, "then wait until the release is over, or waits for a person")
	f.DurationVar(&c.timeout, "timeout", 30*time.Minute, "of --wait")
	addDryRun(cmd, &c.dryRun)
}

func newSet(a *app) *cobra.Command {
	set := &cobra.Command{Use: "set", Short: "Set an image of the workload, after its plan"}
	c := &change{app: a}
	image := &cobra.Command{
		Use: "image NAME CONTAINER=IMAGE…", Short: "Print the plan, ask, and set images of the workload",
		Args: cobra.MinimumNArgs(2), ValidArgsFunction: a.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			images := map[string]string{}
			for _, arg := range args[1:] {
				container, image, ok := strings.Cut(arg, "=")
				if !ok || container == "" || image == "" {
					return fmt.Errorf("%q must be CONTAINER=IMAGE", arg)
				}
				images[container] = image
			}
			return c.run(cmd.Context(), args[0], func(_ *server, _ string, workload *unstructured.Unstructured) (*edit, error) {
				return setImages(workload, images)
			})
		},
	}
	c.addFlags(image)
	set.AddCommand(image)
	return set
}

func newUndo(a *app) *cobra.Command {
	c := &change{app: a}
	cmd := &cobra.Command{
		Use: "undo NAME", Short: "Print the plan, ask, and set the template of an earlier release again",
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeNames,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.run(cmd.Context(), args[0], func(s *server, name string, _ *unstructured.Unstructured) (*edit, error) {
			return c.undo(cmd.Context(), s, name)
		})
	}
	cmd.Flags().Int64Var(&c.to, "to", 0, "the release; by default the last successful one before the latest")
	c.addFlags(cmd)
	return cmd
}

// edit is a patch of a workload, and what is asked about it.
type edit struct {
	kind  types.PatchType
	patch []byte
	what  string
	plan  v1beta1.PlanSpec
}

// setImages makes a patch that sets images where the containers still are.
func setImages(workload *unstructured.Unstructured, images map[string]string) (*edit, error) {
	var patch []map[string]any
	var known []string
	for _, list := range []string{"containers", "initContainers"} {
		containers, _, _ := unstructured.NestedSlice(workload.Object, "spec", "template", "spec", list) // none is none
		for i := range containers {
			container, _ := containers[i].(map[string]any)
			name, _ := container["name"].(string)
			known = append(known, name)
			if image, ok := images[name]; ok {
				path := fmt.Sprintf("/spec/template/spec/%s/%d/", list, i)
				patch = append(patch, map[string]any{"op": "test", "path": path + "name", "value": name},
					map[string]any{"op": "add", "path": path + "image", "value": image})
			}
		}
	}
	for _, name := range sortedKeys(images) {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("%s %s has no container %s; it has %s", workload.GetKind(), workload.GetName(), name, strings.Join(known, ", "))
		}
	}
	data, err := json.Marshal(patch)
	return &edit{types.JSONPatchType, data, "image set", v1beta1.PlanSpec{Images: images}}, err
}

// undo finds the patch of an earlier release.
func (c *change) undo(ctx context.Context, s *server, name string) (*edit, error) {
	history, err := read[v1beta1.RolloutReleases](ctx, s, name, "history")
	if err != nil {
		return nil, err
	}
	number := c.to
	if number == 0 {
		for _, r := range history.it.Releases[min(1, len(history.it.Releases)):] {
			if number == 0 && r.Outcome == v1beta1.ReleaseSucceeded {
				number = r.Number
			}
		}
	}
	if number == 0 {
		return nil, errors.New("no earlier release that has succeeded is on record")
	}
	patch, err := s.restore(ctx, name, number)
	return &edit{types.MergePatchType, patch, "template of release " + strconv.FormatInt(number, 10) + " set", v1beta1.PlanSpec{}}, err
}

// run reads the workload, shows the plan of its change, and writes it.
func (c *change) run(ctx context.Context, arg string, prepare func(*server, string, *unstructured.Unstructured) (*edit, error)) error {
	if err := checkDryRun(c.dryRun); err != nil {
		return err
	}
	s, name, err := c.open(ctx, arg)
	if err != nil {
		return err
	}
	workloads, workload, err := c.workload(ctx, s, name)
	if err != nil {
		return err
	}
	e, err := prepare(s, name, workload)
	if err != nil {
		return err
	}
	if err := c.agree(ctx, s, name, workload, e); err != nil {
		return err
	}
	options := metav1.PatchOptions{FieldManager: "kubectl-weir"}
	if c.dryRun == "server" {
		options.DryRun = []string{metav1.DryRunAll}
	}
	if _, err := workloads.Patch(ctx, workload.GetName(), e.kind, e.patch, options); err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "%s/%s: %s\n", strings.ToLower(workload.GetKind()), workload.GetName(), e.what)
	if !c.wait || c.dryRun == "server" {
		return nil
	}
	w := &waiting{app: c.app, conditions: []string{"healthy", "paused"}, timeout: c.timeout}
	return w.wait(ctx, s, name)
}

// workload reads the one that a Rollout names.
func (a *app) workload(ctx context.Context, s *server, name string) (dynamic.ResourceInterface, *unstructured.Unstructured, error) {
	r, err := read[v1beta1.Rollout](ctx, s, name, "")
	if err != nil {
		return nil, nil, err
	}
	return a.object(ctx, s.namespace, r.it.Spec.WorkloadRef)
}

// object reads any object of a namespace.
func (a *app) object(ctx context.Context, namespace string, ref v1beta1.ObjectRef) (dynamic.ResourceInterface, *unstructured.Unstructured, error) {
	mapper, err := a.flags.ToRESTMapper()
	if err != nil {
		return nil, nil, err
	}
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, nil, err
	}
	config, err := a.config()
	if err != nil {
		return nil, nil, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	objects := client.Resource(mapping.Resource).Namespace(namespace)
	found, err := objects.Get(ctx, ref.Name, metav1.GetOptions{})
	return objects, found, err
}

// merged is the workload as a patch makes it.
func merged(workload *unstructured.Unstructured, patch []byte) (runtime.RawExtension, error) {
	data, err := json.Marshal(workload.Object)
	if err != nil {
		return runtime.RawExtension{}, err
	}
	data, err = jsonpatch.MergePatch(data, patch)
	return runtime.RawExtension{Raw: data}, err
}

// agree draws the plan. A person is asked; a script goes on unless the plan has errors.
func (c *change) agree(ctx context.Context, s *server, name string, workload *unstructured.Unstructured, e *edit) (err error) {
	if e.kind == types.MergePatchType {
		if e.plan.Workload, err = merged(workload, e.patch); err != nil {
			return err
		}
	}
	plan, err := s.forecast(ctx, name, e.plan)
	if err != nil {
		fmt.Fprintf(c.ErrOut, "What happens is not known: %s\n", plain(err.Error()))
	} else {
		screen := c.screen()
		if err := screen.write(c.ErrOut, screen.plan(&plan.it)); err != nil {
			return err
		}
	}
	switch {
	case c.yes:
		return nil
	case c.asks() && !c.confirm("Go on?"):
		return errNothing
	case !c.asks() && hasErrors(&plan.it):
		return &exit{exitPerson, "nothing was changed: the plan has errors; --yes goes on all the same"}
	}
	return nil
}

func refOf(kind schema.GroupVersionKind, name string) v1beta1.ObjectRef {
	return v1beta1.ObjectRef{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: name}
}
