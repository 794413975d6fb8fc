// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// output is the flag -o.
type output struct {
	*genericclioptions.PrintFlags
	// drawings are formats that are drawn here; the empty one is among them.
	drawings []string
}

func addOutput(cmd *cobra.Command, drawings ...string) *output {
	o := &output{genericclioptions.NewPrintFlags(""), append(drawings, "")}
	o.AddFlags(cmd)
	for _, name := range []string{"template", "allow-missing-template-keys", "show-managed-fields"} {
		cmd.Flags().Lookup(name).Hidden = true
	}
	cmd.Flags().Lookup("output").Usage = "json, yaml, name, jsonpath=… or go-template=…"
	for _, d := range drawings {
		cmd.Flags().Lookup("output").Usage = d + ", " + cmd.Flags().Lookup("output").Usage
	}
	return o
}

// drawn reports whether the answer is for a person.
func (o *output) drawn() bool { return slices.Contains(o.drawings, *o.OutputFormat) }

// print writes an object as the server has sent it.
func (o *output) print(w io.Writer, raw []byte) error {
	var object unstructured.Unstructured
	if err := json.Unmarshal(raw, &object.Object); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if *o.OutputFormat == "name" {
		_, err := fmt.Fprintln(w, fullName(object.GetName()))
		return err
	}
	printer, err := o.ToPrinter()
	if err != nil {
		return err
	}
	return printer.PrintObj(&object, w)
}

// fullName names a Rollout as kubectl does.
func fullName(name string) string { return "rollout.rollouts.kruise.io/" + name }

// title is the name of a Rollout above a drawing.
func title(meta *metav1.ObjectMeta) string { return meta.Name + " · " + meta.Namespace }
