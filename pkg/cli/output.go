// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// output is the flag -o: a drawing for people, or the object that the server has sent.
type output struct {
	*genericclioptions.PrintFlags
	drawings []string
}

// addOutput adds the flag. drawings are the formats for people, apart from the default.
func addOutput(cmd *cobra.Command, drawings ...string) *output {
	o := &output{genericclioptions.NewPrintFlags(""), append(drawings, "")}
	o.AddFlags(cmd)
	for _, rare := range []string{"allow-missing-template-keys", "show-managed-fields", "template"} {
		cmd.Flags().Lookup(rare).Hidden = true
	}
	formats := strings.Join(append(drawings, "json, yaml, name or jsonpath=…"), ", ")
	cmd.Flags().Lookup("output").Usage = formats
	cmd.PreRunE = func(*cobra.Command, []string) error { // reports an invalid format before the command has an effect
		if o.isDrawing() {
			return nil
		}
		_, err := o.ToPrinter()
		if genericclioptions.IsNoCompatiblePrinterError(err) {
			return fmt.Errorf("--output %q must be one of: %s", *o.OutputFormat, formats)
		}
		return err
	}
	return o
}

// isDrawing reports whether the output is a drawing for people.
func (o *output) isDrawing() bool {
	return o == nil || slices.Contains(o.drawings, *o.OutputFormat)
}

func (o *output) isWide() bool { return *o.OutputFormat == "wide" }

// printObject prints an object, or a list, as the server has sent it.
func (o *output) printObject(t *terminal, raw []byte) error {
	object, err := runtime.Decode(unstructured.UnstructuredJSONScheme, raw)
	if err != nil {
		return err
	}
	if u, ok := object.(*unstructured.Unstructured); ok && *o.OutputFormat == "name" {
		u.SetKind("Rollout") // every response is about a Rollout
	}
	p, err := o.ToPrinter()
	if err != nil {
		return err
	}
	return p.PrintObj(object, t.Out)
}
