// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	restclient "k8s.io/client-go/rest"
)

const asTable = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

// listing are the flags of list.
type listing struct {
	*app
	*output
	everywhere, mine, watch bool
	selector                string
}

func newList(a *app) *cobra.Command {
	l := &listing{app: a}
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List Rollouts, and what they wait for", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return l.run(cmd.Context()) },
	}
	l.output = addOutput(cmd, "wide")
	f := cmd.Flags()
	f.BoolVarP(&l.everywhere, "all-namespaces", "A", false, "of all namespaces")
	f.BoolVar(&l.mine, "mine", false, "only those that wait for an approval that you may give")
	f.BoolVarP(&l.watch, "watch", "w", false, "go on with a line for each change")
	f.StringVarP(&l.selector, "selector", "l", "", "labels that Rollouts must have")
	return cmd
}

func (l *listing) run(ctx context.Context) error {
	s, err := l.connect()
	if err != nil {
		return err
	}
	if l.everywhere {
		s.namespace = ""
	}
	accept := asTable
	if !l.drawn() {
		accept = "application/json"
	}
	raw, err := sent(ctx, l.request(s).SetHeader("Accept", accept))
	if err != nil {
		return explain(err, "")
	}
	if !l.drawn() {
		return l.print(l.Out, raw)
	}
	return l.show(ctx, s, raw)
}

// show draws the list, and what changes in it.
func (l *listing) show(ctx context.Context, s *server, raw []byte) error {
	var table metav1.Table
	if err := json.Unmarshal(raw, &table); err != nil {
		return fmt.Errorf("reading the list: %w", err)
	}
	may := l.permissions(ctx)
	if err := l.draw(&table, may, false); err != nil {
		return err
	}
	if l.watch {
		return l.follow(ctx, s, table.ResourceVersion, may)
	}
	if len(table.Rows) == 0 {
		fmt.Fprintln(l.ErrOut, "No Rollouts found.")
	}
	return nil
}

func (l *listing) request(s *server) *restclient.Request {
	r := s.rest.Get().NamespaceIfScoped(s.namespace, s.namespace != "").Resource("rollouts").Param("labelSelector", l.selector)
	if l.mine {
		r = r.Param("fieldSelector", "status.phase=Progressing,status.currentStepState=StepPaused")
	}
	return r.Param("includeObject", "Metadata")
}

// draw writes rows of the server's table, all columns.
func (l *listing) draw(table *metav1.Table, may func(namespace string) bool, more bool) error {
	if l.mine {
		table.Rows = slices.DeleteFunc(table.Rows, func(row metav1.TableRow) bool {
			return !waitsForApproval(table, row) || !may(metaOf(row).Namespace)
		})
	}
	clean(table)
	for i := range table.Rows { // of the printer
		table.Rows[i].Object.Object = metaOf(table.Rows[i])
	}
	p := printers.NewTablePrinter(printers.PrintOptions{Wide: true, WithNamespace: l.everywhere, NoHeaders: more})
	return p.PrintObj(table, l.Out)
}

func clean(table *metav1.Table) {
	for _, row := range table.Rows {
		for i := range row.Cells {
			row.Cells[i] = cleaned(row.Cells[i])
		}
	}
}

func metaOf(row metav1.TableRow) *metav1.PartialObjectMetadata {
	meta := &metav1.PartialObjectMetadata{}
	if row.Object.Raw == nil || json.Unmarshal(row.Object.Raw, meta) != nil {
		return &metav1.PartialObjectMetadata{}
	}
	return meta
}

// waitsForApproval reports what the column of waits says; true where there is none.
func waitsForApproval(table *metav1.Table, row metav1.TableRow) bool {
	for i, c := range table.ColumnDefinitions {
		if strings.EqualFold(c.Name, "WAITING-FOR") && i < len(row.Cells) {
			return strings.Contains(strings.ToLower(fmt.Sprint(row.Cells[i])), "approval")
		}
	}
	return true
}

// permissions asks, once for each namespace, whether the caller may promote.
func (l *listing) permissions(ctx context.Context) func(string) bool {
	known := map[string]bool{}
	return func(namespace string) bool {
		if may, ok := known[namespace]; ok {
			return may
		}
		config, err := l.config()
		if err != nil {
			return true
		}
		client, err := authorizationclient.NewForConfig(config)
		if err != nil {
			return true
		}
		review, err := client.SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: namespace, Verb: "create", Group: "rollouts.kruise.io", Resource: "rollouts", Subresource: "promote",
			}},
		}, metav1.CreateOptions{})
		known[namespace] = err != nil || review.Status.Allowed // the server has the last word
		return known[namespace]
	}
}

// follow prints a row for each change, until the caller ends it.
func (l *listing) follow(ctx context.Context, s *server, from string, may func(string) bool) error {
	stream, err := l.request(s).Param("watch", "true").Param("resourceVersion", from).SetHeader("Accept", asTable).Stream(ctx)
	if err != nil {
		return explain(err, "")
	}
	defer stream.Close()
	var columns []metav1.TableColumnDefinition
	err = events(stream, func(_ string, object []byte) error {
		var table metav1.Table
		if err := json.Unmarshal(object, &table); err != nil {
			return err
		}
		if columns == nil {
			columns = table.ColumnDefinitions
		}
		table.ColumnDefinitions = columns // later events have none
		return l.draw(&table, may, true)
	})
	if errors.Is(err, io.EOF) || ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("the watch has ended: %w", err)
}
