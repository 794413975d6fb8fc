// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package draw

import (
	"cmp"
	"slices"

	"github.com/charmbracelet/x/ansi"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/glossary"
)

// ListRow is a Rollout in a list.
type ListRow struct {
	// Namespace is empty if the list is about one namespace.
	Namespace, Name string
	// State is a state of the API. WaitsForPerson reports whether only a person can make the release continue.
	State          string
	WaitsForPerson bool
	// Versions, Step, Traffic, WaitingFor and Since are cells of the server's table.
	Versions, Step, Traffic, WaitingFor, Since string
	// New, Commit and By are the cells of a wide list: the ready new pods, the commit that is released, and the author of
	// the latest decision.
	New, Commit, By string
}

// rank returns how early the row is in a list. Rows that need attention come first, and then those that wait for a
// person.
func (r *ListRow) rank() int {
	if r.State == "Waiting" && !r.WaitsForPerson {
		return glossary.Severity("Moving")
	}
	return glossary.Severity(r.State)
}

// SortRows sorts rows so that those that need attention come first.
func SortRows(rows []ListRow) {
	slices.SortStableFunc(rows, func(a, b ListRow) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// ServingVersion returns the version that serves after the latest release, if the release is over; empty without a
// release.
func ServingVersion(releases []v1beta1.PastRelease) string {
	if len(releases) == 0 {
		return ""
	}
	latest := &releases[0]
	from, to := versions(&latest.ReleaseRef)
	if latest.Outcome == v1beta1.ReleaseSucceeded || latest.Outcome == "bypassed" {
		return to
	}
	return from
}

// WorkloadVersion returns the version of the workload; empty if it has several containers.
func WorkloadVersion(t *v1beta1.RolloutTree) string {
	for i := range t.Nodes {
		if n := &t.Nodes[i]; n.Role == "workload" && len(n.Images) == 1 {
			return glossary.ShortImage(n.Images[0])
		}
	}
	return ""
}

var listColumns = []column{
	{title: "NAMESPACE", keep: alwaysShown}, {title: "NAME", keep: alwaysShown}, {title: "STATE", keep: alwaysShown},
	{title: "VERSIONS", keep: 7}, {title: "COMMIT", keep: 2}, {title: "STEP", keep: 6}, {title: "NEW", keep: 2}, {title: "TRAFFIC", keep: 5, right: true},
	{title: "WAITING-FOR", keep: 8, flexible: true}, {title: "SINCE", keep: 4, right: true}, {title: "BY", keep: 2},
}

// List draws rows of a list that may grow. It keeps the columns and their widths.
type List struct {
	use, wide []int
}

// Draw draws rows. The first rows get titles.
func (l *List) Draw(s Screen, rows []ListRow) string {
	if len(rows) == 0 {
		return ""
	}
	cells := make([][]string, 0, len(rows)+1)
	for i := range rows {
		r := &rows[i]
		cells = append(cells, []string{
			r.Namespace, s.Paint(Bold, r.Name), s.formatState(r.State), r.Versions, r.Commit, r.Step, r.New, r.Traffic, r.WaitingFor, r.Since, r.By,
		})
	}
	if l.use != nil {
		for i := range listColumns {
			for _, row := range cells {
				if !listColumns[i].flexible || s.Width <= 0 {
					l.wide[i] = max(l.wide[i], ansi.StringWidth(row[i]))
				}
			}
		}
		return s.drawRows(listColumns, cells, l.use, l.wide)
	}
	titles := make([]string, len(listColumns))
	for i, c := range listColumns {
		titles[i] = s.Paint(dim, c.title)
	}
	l.use, l.wide = s.fitColumns(listColumns, cells)
	return s.drawRows(listColumns, append([][]string{titles}, cells...), l.use, l.wide)
}
