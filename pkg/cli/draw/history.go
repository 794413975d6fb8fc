// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package draw

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// History draws releases with their decisions, the newest first.
func (s Screen) History(h *v1beta1.RolloutReleases) string {
	if len(h.Releases) == 0 {
		return "No releases yet.\n"
	}
	rows := make([][]string, 0, len(h.Releases))
	for i := range h.Releases {
		r := &h.Releases[i]
		took := ""
		if r.StartTime != nil && r.EndTime != nil {
			took = duration.HumanDuration(r.EndTime.Sub(r.StartTime.Time))
		}
		outcome := cmp.Or(string(r.Outcome), "in progress")
		rows = append(rows, []string{
			strconv.FormatInt(r.Number, 10), s.Paint(outcomeColours[outcome], outcome), Versions(&r.ReleaseRef), s.formatAge(r.StartTime), took,
			numberOrEmpty(int32(len(r.Changes)) + r.MoreChanges), "",
		})
	}
	lines := strings.SplitAfter(s.drawTable([]column{
		{title: "RELEASE", keep: alwaysShown, right: true}, {title: "OUTCOME", keep: alwaysShown}, {title: "VERSIONS", keep: 8},
		{title: "AGE", keep: 7, right: true}, {title: "TOOK", keep: 5, right: true}, {title: "CHANGES", keep: 4, right: true}, {keep: 1},
	}, rows), "\n")
	var b strings.Builder
	b.WriteString(lines[0])
	for i := range h.Releases {
		b.WriteString(lines[i+1])
		if source := formatSource(&h.Releases[i].ReleaseRef); source != "" {
			b.WriteString("         " + s.Paint(dim, s.Wrap(source, "           ")) + "\n")
		}
		for j := range h.Releases[i].Decisions {
			d := &h.Releases[i].Decisions[j]
			about := s.formatDecision(d)
			if d.Step > 0 {
				about += s.Paint(dim, formatPlace(d))
			}
			b.WriteString("         " + s.Wrap(about+s.formatOverride(d), "           ") + "\n")
		}
	}
	return b.String() + s.Paint(dim, "Times: "+s.TimeZone()) + "\n"
}

// formatPlace names the step of the release when a user decided.
func formatPlace(d *v1beta1.Decision) string {
	if d.ToStep != 0 {
		return fmt.Sprintf(" (from step %d)", d.Step)
	}
	return fmt.Sprintf(" (step %d)", d.Step)
}

// outcomeColours maps outcomes to colours. The name of the outcome is drawn as well.
var outcomeColours = map[string]string{"succeeded": green, "in progress": cyan, "aborted": Red}

// Changes draws the changes of a release.
func (s Screen) Changes(r *v1beta1.PastRelease) string {
	if len(r.Changes) == 0 && r.MoreChanges == 0 {
		return "The pod template is unchanged.\n"
	}
	var b strings.Builder
	for _, c := range r.Changes {
		line := "~ " + c.Path + ": " + s.Paint(Red, c.From) + " → " + s.Paint(green, c.To)
		switch {
		case c.From == "":
			line = s.Paint(green, "+ "+c.Path+": "+c.To)
		case c.To == "":
			line = s.Paint(Red, "− "+c.Path+": "+c.From)
		}
		b.WriteString(s.Wrap(line, "  ") + "\n")
	}
	if r.MoreChanges > 0 {
		b.WriteString("and " + Count(r.MoreChanges, "more change") + "; --full shows all of them\n")
	}
	return b.String()
}
