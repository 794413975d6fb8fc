// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package draw

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/glossary"
)

// Decided is a decision with its release.
type Decided struct {
	v1beta1.Decision
	Namespace string `json:"-"`
	Rollout   string `json:"-"`
	Release   int64  `json:"-"`
	// Version has the images of the release, or else its revision.
	Version string `json:"-"`
}

var decisionColumns = []column{
	{title: "TIME (UTC)", keep: alwaysShown}, {title: "NAMESPACE", keep: 7}, {title: "ROLLOUT", keep: alwaysShown}, {title: "RELEASE", keep: 5, right: true},
	{title: "VERSION", keep: 4}, {title: "USER", keep: alwaysShown}, {title: "DECISION", keep: alwaysShown}, {title: "STEP", keep: 6, right: true},
	{title: "REASON", keep: 8, flexible: true}, {title: "OUTCOME", keep: 3},
}

// Decisions draws the decisions of several Rollouts.
func (s Screen) Decisions(all []Decided) string {
	rows := make([][]string, 0, len(all))
	for i := range all {
		d := &all[i]
		verb, step, release := string(d.Verb), numberOrEmpty(d.Step), ""
		if d.Release > 0 {
			release = strconv.FormatInt(d.Release, 10)
		}
		if d.Full {
			verb += " --full"
		}
		if d.ToStep > 0 {
			step += " → " + Number(d.ToStep)
		}
		version := d.Version
		if !strings.Contains(version, " ") {
			version = glossary.ShortImage(version)
		}
		rows = append(rows, []string{
			d.Time.UTC().Format("2006-01-02 15:04:05"), d.Namespace, d.Rollout, release, version, d.User, verb, step, strings.TrimPrefix(d.Reason+s.formatOverride(&d.Decision), "; "),
			string(d.Outcome),
		})
	}
	return s.drawTable(decisionColumns, rows)
}

// Overridden names the checks that a decision overrode, with their results; empty if it overrode none.
func Overridden(d *v1beta1.Decision) string {
	if len(d.Overrode) == 0 {
		return ""
	}
	var names []string
	for _, c := range d.OverriddenChecks {
		result := strings.ToLower(string(c.Result))
		if result == "" {
			result = "not measured"
		}
		names = append(names, fmt.Sprintf("%s (%s, step %d)", c.Name, result, c.Step))
	}
	if len(names) == 0 {
		return "the checks"
	}
	return strings.Join(names, ", ")
}
