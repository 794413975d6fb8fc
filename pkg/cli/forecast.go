// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// question are the flags of plan.
type question struct {
	*app
	*output
	images   map[string]string
	files    []string
	replicas int32
	after    v1beta1.AfterVerb
}

func newPlan(a *app) *cobra.Command {
	q := &question{app: a}
	cmd := &cobra.Command{
		Use: "plan NAME", Short: "Say what a release will do, or would", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeNames,
		Long: `Say what the release under way, or the next one, will do step by step, computed by
the code that will do it. Nothing is changed. Exit code 3: the plan has errors.

  kubectl weir plan web --image app=web:v8
  kubectl weir plan -f rollout.yaml -f deployment.yaml    # before they are applied
  kubectl weir plan web --after promote`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return q.run(cmd.Context(), args, cmd.Flags().Changed("replicas"))
		},
	}
	q.output = addOutput(cmd)
	f := cmd.Flags()
	f.StringToStringVar(&q.images, "image", nil, "another image: CONTAINER=IMAGE")
	f.Int32Var(&q.replicas, "replicas", 0, "another number of pods")
	f.StringSliceVarP(&q.files, "filename", "f", nil, "manifest of the workload, of the Rollout, or of both")
	f.StringVar(&q.after.Verb, "after", "", "what would this verb do now?")
	f.Int32Var(&q.after.Step, "step", 0, "of the verb jump")
	f.BoolVar(&q.after.Full, "full", false, "of the verb promote")
	return cmd
}

func (q *question) run(ctx context.Context, args []string, scaled bool) error {
	spec := v1beta1.PlanSpec{Images: q.images}
	if scaled {
		spec.Replicas = &q.replicas
	}
	if q.after.Verb != "" {
		spec.After = &q.after
	}
	named, err := q.manifests(&spec)
	if err != nil {
		return err
	}
	args = append(args, named...)
	if len(args) == 0 {
		return errors.New("name a Rollout")
	}
	s, name, err := q.open(ctx, args[0])
	if err != nil {
		return err
	}
	ask := func() (answer[v1beta1.RolloutPlan], error) { return s.forecast(ctx, name, spec) }
	if equality.Semantic.DeepEqual(spec, v1beta1.PlanSpec{}) {
		ask = func() (answer[v1beta1.RolloutPlan], error) { return read[v1beta1.RolloutPlan](ctx, s, name, "plan") }
	}
	plan, err := ask()
	if err != nil {
		return err
	}
	return q.write(&plan)
}

// write draws a plan, or prints it. Errors in it are an exit code.
func (q *question) write(plan *answer[v1beta1.RolloutPlan]) error {
	if !q.drawn() {
		if err := q.print(q.Out, plan.raw); err != nil {
			return err
		}
	} else {
		c := q.screen()
		if err := c.write(q.Out, c.plan(&plan.it)+"Nothing was changed.\n"); err != nil {
			return err
		}
	}
	if hasErrors(&plan.it) {
		return &exit{exitPerson, ""}
	}
	return nil
}

// manifests puts files into the question, and returns the names of Rollouts in them.
func (q *question) manifests(spec *v1beta1.PlanSpec) ([]string, error) {
	if len(q.files) == 0 {
		return nil, nil
	}
	objects, err := q.readFiles(q.files)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, o := range objects {
		raw, err := json.Marshal(o.Object)
		if err != nil {
			return nil, err
		}
		switch {
		case o.GetKind() == "Rollout" && strings.HasPrefix(o.GetAPIVersion(), "rollouts.kruise.io/"):
			var r v1beta1.Rollout
			if err := json.Unmarshal(raw, &r); err != nil {
				return nil, fmt.Errorf("reading Rollout %s: %w", o.GetName(), err)
			}
			spec.Rollout = &r.Spec
			names = append(names, r.Name)
		case isWorkload(o):
			spec.Workload.Raw = raw
		}
	}
	return names, nil
}

// isWorkload reports whether an object has a template of pods.
func isWorkload(o *unstructured.Unstructured) bool {
	_, found, err := unstructured.NestedMap(o.Object, "spec", "template", "spec")
	return found && err == nil
}

// readFiles reads manifests as kubectl does, without a server.
func (a *app) readFiles(names []string) ([]*unstructured.Unstructured, error) {
	infos, err := resource.NewLocalBuilder().Unstructured().ContinueOnError().Stdin().
		FilenameParam(false, &resource.FilenameOptions{Filenames: names}).Flatten().Do().Infos()
	if err != nil {
		return nil, err
	}
	objects := make([]*unstructured.Unstructured, 0, len(infos))
	for _, info := range infos {
		if o, ok := info.Object.(*unstructured.Unstructured); ok {
			objects = append(objects, o)
		}
	}
	return objects, nil
}
