// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/printers"
	restclient "k8s.io/client-go/rest"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/cli/draw"
)

// listCommand holds the flags of list, and the state of its output.
type listCommand struct {
	*app
	*output
	server                  *server
	everywhere, mine, watch bool
	selector                string
	// mayPromoteIn caches by namespace whether the user may promote.
	mayPromoteIn map[string]bool
	// out keeps the widths of the columns between tables.
	out interface {
		io.Writer
		Flush() error
	}
	// columns are those of the first table; later events of a watch contain none.
	columns []metav1.TableColumnDefinition
}

func newList(a *app) *cobra.Command {
	l := &listCommand{app: a, mayPromoteIn: map[string]bool{}}
	cmd := a.newCommand("list", "List Rollouts, and what they wait for", cobra.NoArgs, func(ctx context.Context, _ []string) error { return l.run(ctx) })
	cmd.Aliases = []string{"ls"}
	l.output = addOutput(cmd, "wide")
	f := cmd.Flags()
	f.BoolVarP(&l.everywhere, "all-namespaces", "A", false, "of all namespaces")
	f.BoolVar(&l.mine, "mine", false, "only those that wait for an approval that you may give")
	f.BoolVarP(&l.watch, "watch", "w", false, "go on with a line for each change")
	f.StringVarP(&l.selector, "selector", "l", "", "labels that Rollouts must have")
	return cmd
}

func (l *listCommand) run(ctx context.Context) error {
	_, err := labels.Parse(l.selector)
	if err != nil {
		return fmt.Errorf("--selector %q: %w", l.selector, err)
	}
	if l.server, err = l.connect(); err != nil {
		return err
	}
	if l.everywhere {
		l.server.namespace = ""
	}
	if !l.isDrawing() {
		raw, err := send(ctx, l.request())
		if err != nil {
			return explainError(err, "")
		}
		return l.printObject(&l.terminal, raw)
	}
	l.out = printers.GetNewTabWriter(l.Out)
	var table metav1.Table
	if err := l.tableRequest().Do(ctx).Into(&table); err != nil {
		return explainError(err, "")
	}
	if err := l.printTable(ctx, &table); err != nil {
		return err
	}
	if !l.watch {
		return nil
	}
	r := l.tableRequest().Param("watch", "true").Param("resourceVersion", table.ResourceVersion)
	err = followWatch(ctx, r, func(_ watch.EventType, object runtime.Object) error {
		if change, ok := object.(*metav1.Table); ok {
			return l.printTable(ctx, change)
		}
		return nil
	})
	return explainError(err, "")
}

func (l *listCommand) request() *restclient.Request {
	s := l.server
	r := s.rest.Get().NamespaceIfScoped(s.namespace, s.namespace != "").Resource("rollouts").Param("labelSelector", l.selector)
	if l.mine {
		r = r.Param("fieldSelector", "status.phase=Progressing,status.currentStepState=StepPaused")
	}
	return r
}

func (l *listCommand) tableRequest() *restclient.Request {
	return l.request().Param("includeObject", "Metadata").SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
}

// printTable prints the rows of the server's table with all columns, and the titles once.
func (l *listCommand) printTable(ctx context.Context, table *metav1.Table) error {
	first := l.columns == nil
	if first {
		l.columns = table.ColumnDefinitions
	}
	table.ColumnDefinitions = l.columns
	var err error
	if table.Rows, err = l.selectRows(ctx, table.Rows); err != nil {
		return err
	}
	if first && len(table.Rows) == 0 && !l.watch {
		l.printNote("No Rollouts found.")
	}
	p := printers.NewTablePrinter(printers.PrintOptions{Wide: true, WithNamespace: l.everywhere, NoHeaders: !first})
	if err := p.PrintObj(table, l.out); err != nil {
		return err
	}
	return l.out.Flush()
}

// selectRows returns the selected rows in the form that the printer needs.
func (l *listCommand) selectRows(ctx context.Context, rows []metav1.TableRow) ([]metav1.TableRow, error) {
	var wanted []metav1.TableRow
	for _, row := range rows {
		meta := &metav1.PartialObjectMetadata{}
		if err := json.Unmarshal(row.Object.Raw, meta); err != nil {
			return nil, fmt.Errorf("reading the list: %w", err)
		}
		if l.mine && (!l.waitsForApproval(row) || !l.mayPromote(ctx, meta.Namespace)) {
			continue
		}
		row.Cells, _ = draw.Clean(row.Cells).([]any)
		row.Object.Object = meta
		wanted = append(wanted, row)
	}
	return wanted, nil
}

// waitsForApproval reports whether the column WAITING-FOR mentions an approval; true without that column.
func (l *listCommand) waitsForApproval(row metav1.TableRow) bool {
	at := slices.IndexFunc(l.columns, func(c metav1.TableColumnDefinition) bool { return strings.EqualFold(c.Name, "WAITING-FOR") })
	return at < 0 || at >= len(row.Cells) || strings.Contains(strings.ToLower(fmt.Sprint(row.Cells[at])), "approval")
}

// mayPromote asks the server once per namespace. After an error it returns true, because the server checks
// the permission again.
func (l *listCommand) mayPromote(ctx context.Context, namespace string) bool {
	if may, known := l.mayPromoteIn[namespace]; known {
		return may
	}
	review, err := json.Marshal(authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: "create", Group: v1beta1.GroupName, Resource: "rollouts", Subresource: "promote",
		},
	}})
	if err != nil {
		return true
	}
	r := l.server.rest.Post().AbsPath("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").SetHeader("Content-Type", "application/json").Body(review)
	got, err := fetch[authorizationv1.SelfSubjectAccessReview](ctx, r, "")
	l.mayPromoteIn[namespace] = err != nil || got.value.Status.Allowed
	return l.mayPromoteIn[namespace]
}
