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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/weir-rollouts/weir/pkg/cli/draw"
	"github.com/weir-rollouts/weir/pkg/convert"
	"github.com/weir-rollouts/weir/pkg/lint"
)

// manifestFlag is the flag -f.
type manifestFlag struct {
	files []string
}

func (m *manifestFlag) addFlag(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringSliceVarP(&m.files, "filename", "f", nil, "files, directories or URLs of manifests; - is the standard input")
	return cmd
}

// readAll reads the manifests, and returns an error if there are no files.
func (m *manifestFlag) readAll() ([]*unstructured.Unstructured, error) {
	if len(m.files) == 0 {
		return nil, errors.New("name manifests by -f")
	}
	return readFiles(m.files)
}

// readFiles reads manifests as kubectl does, without a server.
func readFiles(names []string) ([]*unstructured.Unstructured, error) {
	infos, err := resource.NewLocalBuilder().Unstructured().ContinueOnError().
		FilenameParam(false, &resource.FilenameOptions{Filenames: names}).Flatten().Do().Infos()
	return toObjects(infos), err
}

func toObjects(infos []*resource.Info) []*unstructured.Unstructured {
	var objects []*unstructured.Unstructured
	for _, info := range infos {
		if o, ok := info.Object.(*unstructured.Unstructured); ok {
			objects = append(objects, o)
		}
	}
	return objects
}

// isWorkload reports whether an object has a pod template.
func isWorkload(o *unstructured.Unstructured) bool {
	_, found, err := unstructured.NestedMap(o.Object, "spec", "template", "spec")
	return found && err == nil
}

func newLint(a *app) *cobra.Command {
	var m manifestFlag
	cmd := a.newCommand("lint -f FILE", "Validate manifests without a cluster, by the rules of the server", cobra.NoArgs, func(context.Context, []string) error {
		objects, err := m.readAll()
		if err != nil {
			return err
		}
		looked, bad := int32(0), false
		for _, o := range objects {
			r := lint.Object(o)
			if r.Known {
				looked++
			}
			bad = bad || len(r.Errors) > 0
			name := strings.ToLower(o.GetKind()) + "/" + o.GetName()
			for _, e := range r.Errors {
				fmt.Fprintln(a.Out, draw.Plain("ERROR  "+name+": "+e))
			}
			for _, w := range r.Warnings {
				fmt.Fprintln(a.Out, draw.Plain("WARN   "+name+": "+w))
			}
		}
		a.printNote("%s of Weir looked at, of %d.", draw.Count(looked, "object"), len(objects))
		if bad {
			return &exitError{code: exitPerson}
		}
		return nil
	})
	cmd.Long = "Validate manifests without a cluster, by the rules of the server of this version.\nExit code 3: there are errors."
	return m.addFlag(cmd)
}

func newConvert(a *app) *cobra.Command {
	var m manifestFlag
	cmd := a.newCommand("convert -f FILE", "Write manifests of Argo Rollouts and Flagger for Weir", cobra.NoArgs, func(context.Context, []string) error {
		objects, err := m.readAll()
		if err != nil {
			return err
		}
		results := convert.Manifests(objects)
		if len(results) == 0 {
			return errors.New("no manifest of Argo Rollouts or Flagger was found")
		}
		noted, err := a.renderManifests(results)
		if err == nil && noted {
			return &exitError{code: exitPerson}
		}
		return err
	})
	cmd.Long = `Write Rollouts and AnalysisTemplates of Argo Rollouts, and Canaries and MetricTemplates of
Flagger, for Weir. What has no counterpart is a comment at its place and a line of the
standard error, and the exit code is 3.`
	return m.addFlag(cmd)
}

// renderManifests writes manifests, and reports whether there are notes.
func (a *app) renderManifests(results []convert.Result) (noted bool, err error) {
	text, err := convert.Render(results)
	if err != nil {
		return false, err
	}
	if _, err := a.Out.Write(text); err != nil {
		return false, err
	}
	for _, r := range results {
		for _, n := range r.Notes {
			noted = true
			a.printNote("%s: %s", r.From, n)
		}
	}
	return noted, nil
}

func newInit(a *app) *cobra.Command {
	var m manifestFlag
	var steps []string
	cmd := a.newCommand("init KIND/NAME | -f FILE", "Write a Rollout for a workload, with the Services and routes that are found", cobra.MaximumNArgs(1),
		func(_ context.Context, args []string) error {
			read := m.readAll
			if len(args) == 1 {
				read = func() ([]*unstructured.Unstructured, error) { return a.readSurroundings(args[0]) }
			}
			there, err := read()
			if err != nil {
				return err
			}
			at := slices.IndexFunc(there, isWorkload)
			if at < 0 {
				return errors.New("no workload with a template of pods was found")
			}
			_, err = a.renderManifests([]convert.Result{convert.ProposeRollout(there[at], steps, there)})
			return err
		})
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.Example = "  kubectl weir init deployment/web > rollout.yaml\n  kubectl weir init -f deployment.yaml -f service.yaml -f ingress.yaml --steps 1,25%,100%"
	cmd.Flags().StringSliceVar(&steps, "steps", []string{"20%", "50%", "100%"}, "pods of the new version after each step")
	return m.addFlag(cmd)
}

// routerKinds are the kinds that init reads, apart from the workload: Services and routers.
var routerKinds = []string{"services", "ingresses.networking.k8s.io", "httproutes.gateway.networking.k8s.io", "virtualservices.networking.istio.io"}

// readSurroundings reads a workload of the cluster, and the Services and routers of its namespace. It ignores kinds
// that the cluster does not serve, and prints an error for kinds that cannot be read.
func (a *app) readSurroundings(arg string) ([]*unstructured.Unstructured, error) {
	if !strings.Contains(arg, "/") {
		return nil, fmt.Errorf("%q must be KIND/NAME, such as deployment/web", arg)
	}
	namespace, _, err := a.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, err
	}
	all, err := a.readObjects(namespace, arg)
	if err != nil {
		return nil, err
	}
	mapper, err := a.flags.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	for _, kind := range routerKinds {
		if _, err := mapper.ResourceFor(schema.ParseGroupResource(kind).WithVersion("")); meta.IsNoMatchError(err) {
			continue
		}
		found, err := a.readObjects(namespace, kind)
		if err != nil {
			a.printNote("Not looked at: %s", err)
		}
		all = append(all, found...)
	}
	return toObjects(all), nil
}
