// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/weir-rollouts/weir/pkg/convert"
	"github.com/weir-rollouts/weir/pkg/lint"
)

// addFiles adds the flag -f, without which a command has nothing to do.
func addFiles(cmd *cobra.Command) *[]string {
	files := cmd.Flags().StringSliceP("filename", "f", nil, "files, directories or URLs of manifests; - is the standard input")
	return files
}

func newLint(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "lint -f FILE", Short: "Validate manifests without a cluster, by the rules of the server", Args: cobra.NoArgs,
		Long: "Validate manifests without a cluster, by the rules of the server of this version.\nExit code 3: there are errors.",
	}
	files := addFiles(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		objects, err := a.given(*files)
		if err != nil {
			return err
		}
		looked, bad := 0, false
		for _, o := range objects {
			r := lint.Object(o)
			if r.Known {
				looked++
			}
			for _, e := range r.Errors {
				bad = true
				fmt.Fprintf(a.Out, "ERROR  %s/%s: %s\n", strings.ToLower(o.GetKind()), plain(o.GetName()), plain(e))
			}
			for _, w := range r.Warnings {
				fmt.Fprintf(a.Out, "WARN   %s/%s: %s\n", strings.ToLower(o.GetKind()), plain(o.GetName()), plain(w))
			}
		}
		fmt.Fprintf(a.ErrOut, "%s of Weir looked at, of %d.\n", count(int32(looked), "object"), len(objects))
		if bad {
			return &exit{code: exitPerson}
		}
		return nil
	}
	return cmd
}

// given reads the files, of which there must be some.
func (a *app) given(files []string) ([]*unstructured.Unstructured, error) {
	if len(files) == 0 {
		return nil, errors.New("name manifests by -f")
	}
	return a.readFiles(files)
}

func newConvert(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "convert -f FILE", Short: "Write manifests of Argo Rollouts and Flagger for Weir", Args: cobra.NoArgs,
		Long: `Write Rollouts and AnalysisTemplates of Argo Rollouts, and Canaries and MetricTemplates of
Flagger, for Weir. What has no counterpart is a comment at its place and a line of the
standard error, and the exit code is 3.`,
	}
	files := addFiles(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		objects, err := a.given(*files)
		if err != nil {
			return err
		}
		results := convert.All(objects)
		if len(results) == 0 {
			return errors.New("no manifest of Argo Rollouts or Flagger was found")
		}
		return a.render(results, true)
	}
	return cmd
}

// render writes manifests. Where nothing may be lost, a note is an exit code.
func (a *app) render(results []convert.Result, strict bool) error {
	text, err := convert.Render(results)
	if err != nil {
		return err
	}
	if _, err := a.Out.Write(text); err != nil {
		return err
	}
	noted := false
	for _, r := range results {
		for _, n := range r.Notes {
			noted = true
			fmt.Fprintf(a.ErrOut, "%s: not converted: %s\n", plain(r.From), plain(n.Text))
		}
	}
	if noted && strict {
		return &exit{code: exitPerson}
	}
	return nil
}

func newInit(a *app) *cobra.Command {
	var steps []string
	cmd := &cobra.Command{
		Use: "init KIND/NAME | -f FILE", Short: "Write a Rollout for a workload, with the Services and routes that are found", Args: cobra.MaximumNArgs(1),
		Example: "  kubectl weir init deployment/web > rollout.yaml\n  kubectl weir init -f deployment.yaml -f service.yaml -f ingress.yaml --steps 1,25%,100%",
	}
	files := addFiles(cmd)
	cmd.Flags().StringSliceVar(&steps, "steps", []string{"20%", "50%", "100%"}, "pods of the new version after each step")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var there []*unstructured.Unstructured
		var err error
		if len(args) == 1 {
			there, err = a.around(cmd.Context(), args[0])
		} else {
			there, err = a.given(*files)
		}
		if err != nil {
			return err
		}
		at := slices.IndexFunc(there, isWorkload)
		if at < 0 {
			return errors.New("no workload with a template of pods was found")
		}
		return a.render([]convert.Result{convert.Propose(there[at], steps, there)}, false)
	}
	return cmd
}

// routers are looked at for what leads to a workload, beside Services.
var routers = []schema.GroupResource{
	{Resource: "services"}, {Group: "networking.k8s.io", Resource: "ingresses"},
	{Group: "gateway.networking.k8s.io", Resource: "httproutes"}, {Group: "networking.istio.io", Resource: "virtualservices"},
}

// around reads a workload of the cluster, and what may lead to it.
func (a *app) around(ctx context.Context, arg string) ([]*unstructured.Unstructured, error) {
	resource, name, ok := strings.Cut(arg, "/")
	if !ok {
		return nil, fmt.Errorf("%q must be KIND/NAME, such as deployment/web", arg)
	}
	s, err := a.connect()
	if err != nil {
		return nil, err
	}
	mapper, err := a.flags.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	kind, err := mapper.KindFor(schema.ParseGroupResource(resource).WithVersion(""))
	if err != nil {
		return nil, err
	}
	_, workload, err := a.object(ctx, s.namespace, refOf(kind, name))
	if err != nil {
		return nil, err
	}
	return append([]*unstructured.Unstructured{workload}, a.routers(ctx, s.namespace, mapper)...), nil
}

// routers reads what may be read; a kind that is not there, or is forbidden, is said.
func (a *app) routers(ctx context.Context, namespace string, mapper meta.RESTMapper) []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	config, err := a.config()
	if err != nil {
		return nil
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil
	}
	for _, r := range routers {
		found, err := mapper.ResourceFor(r.WithVersion(""))
		if err != nil {
			continue // the cluster has none
		}
		list, err := client.Resource(found).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			fmt.Fprintf(a.ErrOut, "Not looked at: %s\n", plain(err.Error()))
			continue
		}
		for i := range list.Items {
			all = append(all, &list.Items[i])
		}
	}
	return all
}
