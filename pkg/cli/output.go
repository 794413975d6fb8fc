// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"
)

// output is the flag -o.
type output struct {
	format string
	// drawings are formats that are drawn here; the empty one is among them.
	drawings []string
}

func addOutput(cmd *cobra.Command, drawings ...string) *output {
	o := &output{drawings: append(drawings, "")}
	cmd.Flags().StringVarP(&o.format, "output", "o", "", strings.Join(append(drawings, "json, yaml, name or jsonpath=…"), ", "))
	cmd.PreRunE = func(*cobra.Command, []string) error { return o.check() }
	return o
}

// check reports a format that nothing writes, before anything is done.
func (o *output) check() error {
	if o.drawn() || slices.Contains([]string{"json", "yaml", "name"}, o.format) || strings.HasPrefix(o.format, "jsonpath=") {
		return nil
	}
	return fmt.Errorf("--output %q must be json, yaml, name or jsonpath=…", o.format)
}

// drawn reports whether the answer is for a person.
func (o *output) drawn() bool { return slices.Contains(o.drawings, o.format) }

// print writes an object as the server has sent it.
func (o *output) print(w io.Writer, raw []byte) error {
	var object unstructured.Unstructured
	if err := json.Unmarshal(raw, &object.Object); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	switch o.format {
	case "json":
		return (&printers.JSONPrinter{}).PrintObj(&object, w)
	case "yaml":
		return (&printers.YAMLPrinter{}).PrintObj(&object, w)
	case "name":
		return printNames(w, &object)
	}
	p, err := printers.NewJSONPathPrinter(strings.TrimPrefix(o.format, "jsonpath="))
	if err != nil {
		return err
	}
	return p.PrintObj(&object, w)
}

// printNames prints the name of an object, or those of a list.
func printNames(w io.Writer, object *unstructured.Unstructured) error {
	if !object.IsList() {
		fmt.Fprintln(w, fullName(object.GetName()))
		return nil
	}
	return object.EachListItem(func(item runtime.Object) error {
		if meta, ok := item.(metav1.Object); ok {
			fmt.Fprintln(w, fullName(meta.GetName()))
		}
		return nil
	})
}

// fullName names a Rollout as kubectl does.
func fullName(name string) string { return "rollout.rollouts.kruise.io/" + name }

// title is the name of a Rollout above a drawing.
func title(meta *metav1.ObjectMeta) string { return meta.Name + " · " + meta.Namespace }
