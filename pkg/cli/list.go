// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
	restclient "k8s.io/client-go/rest"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/cli/draw"
	"github.com/weir-rollouts/weir/pkg/glossary"
)

// listCommand holds the flags of list, and the state of its output.
type listCommand struct {
	*app
	*output
	server                  *server
	everywhere, mine, watch bool
	selector                string
	// mu guards what follows, which the watches of several namespaces share.
	mu sync.Mutex
	// mayPromoteIn caches by namespace whether the user may promote.
	mayPromoteIn map[string]bool
	drawing      draw.List
	// showsNamespaces reports whether the list has Rollouts of several namespaces.
	showsNamespaces bool
	// columns are the upper-case names of the columns in the server's first table; later events of a watch
	// contain none.
	columns []string
}

func newList(a *app) *cobra.Command {
	l := &listCommand{app: a, mayPromoteIn: map[string]bool{}}
	cmd := a.newCommand("list", "List Rollouts, those that need attention first", cobra.NoArgs, func(ctx context.Context, _ []string) error { return l.run(ctx) })
	cmd.Aliases = []string{"ls"}
	cmd.Long = `List Rollouts, with what they release and what they wait for. Rollouts that need
attention come first.

  kubectl weir list -A
  kubectl weir list -A --mine     # everything waiting for your approval
  kubectl weir list -n shop,pay   # several namespaces

-A needs permission to list Rollouts in all namespaces. Without it, the list has the
namespaces that you may read, or else the current one.`
	l.output = addOutput(cmd, "wide")
	f := cmd.Flags()
	f.BoolVarP(&l.everywhere, "all-namespaces", "A", false, "list the Rollouts of all namespaces")
	f.BoolVar(&l.mine, "mine", false, "list only Rollouts that wait for an approval that you may give")
	f.BoolVarP(&l.watch, "watch", "w", false, "after listing, print a line for each change")
	f.StringVarP(&l.selector, "selector", "l", "", "label selector of Rollouts")
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
	namespaces := strings.Split(l.server.namespace, ",")
	if l.everywhere {
		namespaces = []string{""}
	}
	if !l.isDrawing() {
		raw, _, err := readNamespaces(ctx, l, namespaces, func(ctx context.Context, namespace string) ([]byte, error) {
			return send(ctx, l.request(namespace))
		})
		if err != nil {
			return explainError(err, "")
		}
		return l.printLists(raw)
	}
	tables, namespaces, err := readNamespaces(ctx, l, namespaces, func(ctx context.Context, namespace string) (*metav1.Table, error) {
		table := &metav1.Table{}
		return table, l.tableRequest(namespace).Do(ctx).Into(table)
	})
	if err != nil {
		return explainError(err, "")
	}
	l.showsNamespaces = len(namespaces) > 1 || namespaces[0] == ""
	if err := l.printTables(ctx, tables); err != nil || !l.watch {
		return err
	}
	return explainError(l.watchTables(ctx, namespaces, tables), "")
}

// maxReads is the maximum number of concurrent reads.
const maxReads = 8

// readNamespaces reads each namespace, and returns the results with their namespaces. If the user may not read all
// namespaces at once, it reads those that the user may read. An error about one of several namespaces is printed.
func readNamespaces[T any](ctx context.Context, a interface {
	printNote(format string, args ...any)
	findNamespaces(ctx context.Context) ([]string, error)
}, namespaces []string, readOne func(context.Context, string) (T, error),
) (all []T, read []string, err error) {
	all, read, errs := readEach(ctx, namespaces, readOne)
	if isAll := len(namespaces) == 1 && namespaces[0] == ""; isAll && len(errs) == 1 && apierrors.IsForbidden(errs[0]) {
		if namespaces, err = a.findNamespaces(ctx); err != nil {
			return nil, nil, err
		}
		all, read, errs = readEach(ctx, namespaces, readOne)
		errs = slices.DeleteFunc(errs, func(err error) bool { return apierrors.IsForbidden(err) })
		if len(read) == 0 && len(errs) == 0 {
			return nil, nil, errNoNamespace
		}
	}
	if len(read) == 0 {
		return nil, nil, errors.Join(errs...)
	}
	for _, err := range errs {
		a.printNote("error: %s", errorText(err))
	}
	return all, read, nil
}

// errNoNamespace is the error if no namespace can be read and none was named.
var errNoNamespace = errors.New("you need permission to list rollouts.rollouts.kruise.io in all namespaces; to list the namespaces that you may read, name them: -n a,b")

// readEach reads each namespace, some at once.
func readEach[T any](ctx context.Context, namespaces []string, readOne func(context.Context, string) (T, error)) (all []T, read []string, failed []error) {
	results, errs := make([]T, len(namespaces)), make([]error, len(namespaces))
	free := make(chan struct{}, maxReads)
	var wait sync.WaitGroup
	for i, namespace := range namespaces {
		free <- struct{}{}
		wait.Go(func() {
			results[i], errs[i] = readOne(ctx, namespace)
			<-free
		})
	}
	wait.Wait()
	for i, err := range errs {
		if err != nil {
			failed = append(failed, err)
			continue
		}
		all, read = append(all, results[i]), append(read, namespaces[i])
	}
	return all, read, failed
}

// findNamespaces returns the namespaces of the cluster or, if the user may not list them, the current one.
func (a *app) findNamespaces(ctx context.Context) ([]string, error) {
	s, err := a.connect()
	if err != nil {
		return nil, err
	}
	list, err := fetch[metav1.PartialObjectMetadataList](ctx, s.rest.Get().AbsPath("/api/v1/namespaces"), "")
	switch {
	case apierrors.IsForbidden(err):
		a.printNote("You may not list Rollouts in all namespaces. This is namespace %s. To list others, name them: -n a,b.", s.namespace)
		return strings.Split(s.namespace, ","), nil
	case err != nil:
		return nil, err
	}
	names := make([]string, 0, len(list.value.Items))
	for i := range list.value.Items {
		names = append(names, list.value.Items[i].Name)
	}
	a.printNote("You may not list Rollouts in all namespaces at once. These are the namespaces that you may read.")
	return names, nil
}

// printLists prints lists as one list.
func (l *listCommand) printLists(lists [][]byte) error {
	if len(lists) == 1 {
		return l.printObject(&l.terminal, lists[0])
	}
	merged := map[string]any{}
	var items []any
	for _, raw := range lists {
		if err := json.Unmarshal(raw, &merged); err != nil {
			return fmt.Errorf("reading the response: %w", err)
		}
		part, _ := merged["items"].([]any)
		items = append(items, part...)
	}
	merged["items"] = items
	raw, err := json.Marshal(merged)
	if err != nil {
		return err
	}
	return l.printObject(&l.terminal, raw)
}

func (l *listCommand) request(namespace string) *restclient.Request {
	r := l.server.rest.Get().NamespaceIfScoped(namespace, namespace != "").Resource("rollouts").Param("labelSelector", l.selector)
	if l.mine {
		r = r.Param("fieldSelector", "status.phase=Progressing,status.currentStepState=StepPaused")
	}
	return r
}

func (l *listCommand) tableRequest(namespace string) *restclient.Request {
	return l.request(namespace).Param("includeObject", "Metadata").SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
}

// watchTables prints a line for each change in the namespaces, until one of the watches ends.
func (l *listCommand) watchTables(ctx context.Context, namespaces []string, from []*metav1.Table) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, len(namespaces))
	for i, namespace := range namespaces {
		r := l.tableRequest(namespace).Param("watch", "true").Param("resourceVersion", from[i].ResourceVersion)
		go func() {
			ended <- followWatch(ctx, r, func(_ watch.EventType, object runtime.Object) error {
				if change, ok := object.(*metav1.Table); ok {
					return l.printTables(ctx, []*metav1.Table{change})
				}
				return nil
			})
		}()
	}
	err := <-ended
	stop()
	for range len(namespaces) - 1 {
		<-ended //nolint:errcheck // the other watches end because they were stopped
	}
	return err
}

// printTables prints the rows of tables, and the titles once.
func (l *listCommand) printTables(ctx context.Context, tables []*metav1.Table) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.columns == nil
	var rows []draw.ListRow
	for _, table := range tables {
		if len(table.ColumnDefinitions) > 0 {
			l.columns = nil
			for _, c := range table.ColumnDefinitions {
				l.columns = append(l.columns, strings.ToUpper(c.Name))
			}
		}
		selected, err := l.selectRows(ctx, table.Rows)
		if err != nil {
			return err
		}
		rows = append(rows, selected...)
	}
	draw.SortRows(rows)
	if first && len(rows) == 0 && !l.watch {
		l.printNote("%s", l.describeEmpty())
	}
	s := l.screen()
	_, err := fmt.Fprint(l.Out, s.Finish(l.drawing.Draw(s, rows)))
	return err
}

func (l *listCommand) describeEmpty() string {
	switch {
	case l.mine:
		return "Nothing needs your approval."
	case l.selector != "":
		return "No Rollouts match the labels."
	}
	return "No Rollouts found. Write one: kubectl weir init deployment/NAME"
}

// selectRows returns the rows that the user wants to see.
func (l *listCommand) selectRows(ctx context.Context, rows []metav1.TableRow) ([]draw.ListRow, error) {
	var wanted []draw.ListRow
	var targets []*target
	for _, row := range rows {
		meta := &metav1.PartialObjectMetadata{}
		if err := json.Unmarshal(row.Object.Raw, meta); err != nil {
			return nil, fmt.Errorf("reading the list: %w", err)
		}
		r := l.toRow(meta, row.Cells)
		if !l.mine || r.WaitsForPerson && l.mayPromote(ctx, meta.Namespace) {
			wanted, targets = append(wanted, r), append(targets, &target{&server{l.server.rest, meta.Namespace}, meta.Name})
		}
	}
	explainRows(ctx, wanted, targets, func(r *draw.ListRow) bool {
		return l.isWide() || r.Versions == "" || !slices.Contains(l.columns, "STATE")
	}, l.isWide())
	return wanted, nil
}

// maxExplained is the maximum number of Rollouts that are read one by one.
const maxExplained = 100

// explainRows sets what the server's table does not have for the rows that need it: the version of a Rollout before its
// first release, the commit in a wide list, and the state in the table of an older server. In a long list, Rollouts at
// rest stay as they are. If the user may not read the explanation of a Rollout, its row stays as it is.
func explainRows(ctx context.Context, rows []draw.ListRow, targets []*target, needs func(*draw.ListRow) bool, wide bool) {
	free := make(chan struct{}, maxReads)
	var wait sync.WaitGroup
	for i := range rows {
		if !needs(&rows[i]) || len(rows) > maxExplained && rows[i].State == "AtRest" {
			continue
		}
		free <- struct{}{}
		wait.Go(func() {
			explainRow(ctx, &rows[i], targets[i], wide)
			<-free
		})
	}
	wait.Wait()
}

func explainRow(ctx context.Context, r *draw.ListRow, t *target, wide bool) {
	why, err := read[v1beta1.RolloutWhy](ctx, t, "why")
	if err != nil {
		return
	}
	if r.State != string(v1beta1.PhaseDisabled) { // which is a phase, and at rest
		r.State = cmp.Or(draw.ShownState(&why.value), r.State)
	}
	if release := why.value.Release; release != nil {
		r.Versions = draw.Versions(release)
		if wide && release.Source != nil {
			r.Commit = draw.ShortCommit(release.Source.Commit)
		}
		return
	}
	past, err := read[v1beta1.RolloutReleases](ctx, t, "history")
	if err != nil {
		return
	}
	if len(past.value.Releases) > 0 {
		r.Versions = cmp.Or(draw.ServingVersion(past.value.Releases), r.Versions)
		return
	}
	// Before the first release, only the workload has the version.
	if tree, err := read[v1beta1.RolloutTree](ctx, t, "tree"); err == nil {
		r.Versions = cmp.Or(draw.WorkloadVersion(&tree.value), r.Versions)
	}
}

// toRow returns a row of the list. Columns that the server does not have stay empty.
func (l *listCommand) toRow(meta *metav1.PartialObjectMetadata, cells []any) draw.ListRow {
	cell := func(column string) string {
		at := slices.Index(l.columns, column)
		if at < 0 || at >= len(cells) || cells[at] == nil {
			return ""
		}
		return strings.TrimPrefix(draw.Plain(fmt.Sprint(cells[at])), "<none>")
	}
	r := draw.ListRow{
		Name: draw.Plain(meta.Name), State: cmp.Or(glossary.FindState(cell("STATE")).Name, stateOfPhase(cell("STATUS"), cell("CANARY_STATE"))), Versions: cell("VERSIONS"),
		Step: cell("STEP"), Traffic: cell("TRAFFIC"), WaitingFor: strings.TrimPrefix(cell("WAITING-FOR"), "nothing"), Since: cell("SINCE"),
	}
	r.WaitsForPerson = waitsForPerson(r.State, r.WaitingFor) || !slices.Contains(l.columns, "WAITING-FOR")
	if l.showsNamespaces {
		r.Namespace = draw.Plain(meta.Namespace)
	}
	if l.isWide() {
		r.New, r.By = cell("NEW"), cell("BY")
	}
	return r
}

// stateOfPhase returns the state of a Rollout for servers whose table has no states.
func stateOfPhase(phase, step string) string {
	switch {
	case phase == string(v1beta1.PhaseHealthy):
		return "AtRest"
	case phase == string(v1beta1.PhaseProgressing) && step == string(v1beta1.StepPaused):
		return "Waiting"
	case phase == string(v1beta1.PhaseProgressing), phase == string(v1beta1.PhaseInitial):
		return "Moving"
	case phase == "":
		return ""
	}
	return phase
}

// waitsForPerson reports whether a release waits for an approval.
func waitsForPerson(state, waitingFor string) bool {
	return (state == "Waiting" || state == "Failing" || state == "") && strings.Contains(strings.ToLower(waitingFor), "approval")
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
