// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/cli/draw"
)

// planCommand holds the flags of plan.
type planCommand struct {
	*app
	*output
	images   map[string]string
	files    []string
	replicas int32
	after    v1beta1.AfterVerb
}

func newPlan(a *app) *cobra.Command {
	q := &planCommand{app: a}
	cmd := a.newCommand("plan NAME", "Preview a release step by step", cobra.MaximumNArgs(1), q.run)
	cmd.Long = `Preview the release in progress, or the next one, step by step. The server computes
the plan with the code that runs releases. Nothing is changed.
Exit code 3: the plan has errors.

  kubectl weir plan web --image app=web:v8
  kubectl weir plan -f rollout.yaml -f deployment.yaml    # before they are applied
  kubectl weir plan web --after promote`
	q.output = addOutput(cmd)
	f := cmd.Flags()
	f.StringToStringVar(&q.images, "image", nil, "preview another image: CONTAINER=IMAGE")
	f.Int32Var(&q.replicas, "replicas", unsetReplicas, "preview another number of pods")
	f.StringSliceVarP(&q.files, "filename", "f", nil, "preview manifests of the workload, the Rollout, or both")
	f.StringVar(&q.after.Verb, "after", "", "preview an action, for example promote")
	f.Int32Var(&q.after.Step, "step", 0, "step of --after jump")
	f.BoolVar(&q.after.Full, "full", false, "with --after promote: approve all remaining steps")
	f.BoolVar(&q.after.Override, "override", false, "with --after promote, jump or retry: despite failed or pending checks")
	f.Lookup("replicas").DefValue = "0" // the help shows no default of 0
	return cmd
}

// unsetReplicas is the default of --replicas.
const unsetReplicas = math.MinInt32

// newPlanSpec returns the spec of the request, and the names of Rollouts in the manifests.
func (q *planCommand) newPlanSpec() (v1beta1.PlanSpec, []string, error) {
	spec := v1beta1.PlanSpec{Images: q.images}
	if err := checkImages(q.images); err != nil {
		return spec, nil, err
	}
	if q.replicas != unsetReplicas {
		spec.Replicas = &q.replicas
	}
	if q.after.Verb != "" {
		spec.After = &q.after
	}
	named, err := q.addManifests(&spec)
	return spec, named, err
}

func (q *planCommand) run(ctx context.Context, args []string) error {
	spec, named, err := q.newPlanSpec()
	if err != nil {
		return err
	}
	args = append(args, named...)
	if len(args) == 0 {
		return errors.New("missing NAME; usage: kubectl weir plan NAME")
	}
	t, err := q.openTarget(ctx, args[0])
	if err != nil {
		return err
	}
	var plan response[v1beta1.RolloutPlan]
	if equality.Semantic.DeepEqual(spec, v1beta1.PlanSpec{}) {
		plan, err = read[v1beta1.RolloutPlan](ctx, t, "plan")
	} else {
		plan, err = t.requestPlan(ctx, spec)
	}
	if err != nil {
		return err
	}
	err = q.showOutput(q.output, plan.raw, func(s draw.Screen) string { return s.Plan(&plan.value) + "Nothing was changed.\n" })
	if err == nil && draw.HasErrors(&plan.value) {
		return &exitError{code: exitPerson}
	}
	return err
}

// useNamespace makes the namespace of a manifest that of the request. It returns an error if -n, or an earlier manifest, has
// another one.
func (q *planCommand) useNamespace(o *unstructured.Unstructured) error {
	switch own, chosen := o.GetNamespace(), *q.flags.Namespace; {
	case own == "" || own == chosen:
		return nil
	case chosen == "":
		*q.flags.Namespace = own
		return nil
	default:
		return fmt.Errorf("%s %s is in namespace %s, but -n or another manifest has namespace %s", o.GetKind(), o.GetName(), own, chosen)
	}
}

// addManifests adds the content of files to the request, and returns the names of Rollouts in them.
func (q *planCommand) addManifests(spec *v1beta1.PlanSpec) ([]string, error) {
	if len(q.files) == 0 {
		return nil, nil
	}
	objects, err := readFiles(q.files)
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
		case o.GetKind() == "Rollout" && o.GroupVersionKind().Group == v1beta1.GroupName:
			var r v1beta1.Rollout
			if err := json.Unmarshal(raw, &r); err != nil {
				return nil, fmt.Errorf("reading Rollout %s: %w", o.GetName(), err)
			}
			spec.Rollout = &r.Spec
			names = append(names, r.Name)
		case isWorkload(o):
			spec.Workload.Raw = raw
		default:
			continue
		}
		if err := q.useNamespace(o); err != nil {
			return nil, err
		}
	}
	return names, nil
}
