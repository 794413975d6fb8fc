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
	cmd.Flags().StringSliceVarP(&m.files, "filename", "f", nil, "manifest files, directories or URLs; use - for stdin")
	return cmd
}

// readAll reads the manifests, and returns an error if there are no files.
func (m *manifestFlag) readAll() ([]*unstructured.Unstructured, error) {
	if len(m.files) == 0 {
		return nil, errors.New("missing -f: name the manifests")
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
	cmd := a.newCommand("lint -f FILE", "Validate manifests offline, with the server's rules", cobra.NoArgs, func(context.Context, []string) error {
		objects, err := m.readAll()
		if err != nil {
			return err
		}
		var checked, errs, warnings int32
		for _, o := range objects {
			r := lint.Object(o)
			if r.Known {
				checked++
			}
			errs, warnings = errs+int32(len(r.Errors)), warnings+int32(len(r.Warnings)) //nolint:gosec // of one manifest
			name := strings.ToLower(o.GetKind()) + "/" + o.GetName()
			for _, e := range r.Errors {
				fmt.Fprintln(a.Out, draw.Plain("ERROR  "+name+": "+e))
			}
			for _, w := range r.Warnings {
				fmt.Fprintln(a.Out, draw.Plain("WARN   "+name+": "+w))
			}
		}
		a.printNote("%s", summarizeLint(objects, checked, errs, warnings))
		if errs > 0 {
			return &exitError{code: exitPerson}
		}
		return nil
	})
	cmd.Long = "Validate manifests offline, with this version's server rules.\nExit code 3: there are errors."
	return m.addFlag(cmd)
}

// otherTools are the API groups whose manifests kubectl weir convert reads.
var otherTools = []string{"argoproj.io", "flagger.app"}

// summarizeLint describes how many objects were checked and what was found.
func summarizeLint(objects []*unstructured.Unstructured, checked, errs, warnings int32) string {
	result := "no problems"
	switch {
	case errs > 0 && warnings > 0:
		result = draw.Count(errs, "error") + ", " + draw.Count(warnings, "warning")
	case errs > 0:
		result = draw.Count(errs, "error")
	case warnings > 0:
		result = draw.Count(warnings, "warning")
	}
	text := fmt.Sprintf("Checked %s (%d in the input): %s.", draw.Count(checked, "Weir object"), len(objects), result)
	if checked == 0 {
		text = fmt.Sprintf("Checked nothing: the input has no Weir objects, but %s.", draw.Count(int32(len(objects)), "other object")) //nolint:gosec // of one command
	}
	if slices.ContainsFunc(objects, func(o *unstructured.Unstructured) bool {
		return slices.Contains(otherTools, o.GroupVersionKind().Group)
	}) {
		text += " To convert manifests of Argo Rollouts or Flagger, use kubectl weir convert."
	}
	return text
}

func newConvert(a *app) *cobra.Command {
	var m manifestFlag
	cmd := a.newCommand("convert -f FILE", "Convert manifests of Argo Rollouts and Flagger", cobra.NoArgs, func(context.Context, []string) error {
		objects, err := m.readAll()
		if err != nil {
			return err
		}
		results := convert.Manifests(objects)
		if len(results) == 0 {
			return errors.New("the input has no manifest of Argo Rollouts or Flagger")
		}
		noted, err := a.renderManifests(results)
		if err == nil && noted {
			return &exitError{code: exitPerson}
		}
		return err
	})
	cmd.Long = `Convert Rollouts and AnalysisTemplates of Argo Rollouts, and Canaries and MetricTemplates
of Flagger. A field without a counterpart becomes a comment in its place and a line on
stderr, and the exit code is 3.`
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
	cmd := a.newCommand("init KIND/NAME | -f FILE", "Write a Rollout for a workload, with the Services and routes that it finds", cobra.MaximumNArgs(1),
		func(_ context.Context, args []string) error {
			read := m.readAll
			switch {
			case len(args) == 0 && len(m.files) == 0:
				return errors.New("missing KIND/NAME or -f: name a workload of the cluster, for example deployment/web, or manifests")
			case len(args) == 1:
				read = func() ([]*unstructured.Unstructured, error) { return a.readSurroundings(args[0]) }
			}
			there, err := read()
			if err != nil {
				return err
			}
			at := slices.IndexFunc(there, isWorkload)
			if at < 0 {
				return errors.New("the input has no workload with a pod template")
			}
			proposed := convert.ProposeRollout(there[at], steps, there)
			if _, err = a.renderManifests([]convert.Result{proposed}); err != nil {
				return err
			}
			if slices.ContainsFunc(proposed.Notes, func(n convert.Note) bool { return n.Kind == convert.Refused }) {
				return &exitError{code: exitFailed} // the notes say why
			}
			return nil
		})
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.Example = "  kubectl weir init deployment/web > rollout.yaml\n  kubectl weir init -f deployment.yaml -f service.yaml -f ingress.yaml --steps 1,25%,100%"
	cmd.Flags().StringSliceVar(&steps, "steps", []string{"20%", "50%", "100%"}, "new pods after each step")
	return m.addFlag(cmd)
}

// routerKinds are the kinds that init reads, apart from the workload: Services and routers.
var routerKinds = []string{"services", "ingresses.networking.k8s.io", "httproutes.gateway.networking.k8s.io", "virtualservices.networking.istio.io"}

// readSurroundings reads a workload of the cluster, and the Services and routers of its namespace. It ignores kinds
// that the cluster does not serve, and prints an error for kinds that cannot be read.
func (a *app) readSurroundings(arg string) ([]*unstructured.Unstructured, error) {
	if !strings.Contains(arg, "/") {
		return nil, fmt.Errorf("%q must be KIND/NAME, for example deployment/web", arg)
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
			a.printNote("Could not read: %s", err)
		}
		all = append(all, found...)
	}
	return toObjects(all), nil
}
