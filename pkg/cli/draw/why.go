// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package draw

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/json"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// Why draws what a Rollout waits for.
func (s Screen) Why(w *v1beta1.RolloutWhy) string {
	var b strings.Builder
	b.WriteString(s.Paint(Bold, s.Wrap(w.Summary, "  ")) + "\n")
	if w.Contact != "" {
		b.WriteString("  ask: " + w.Contact + "\n")
	}
	if line := s.drawRelease(w); line != "" {
		b.WriteString("  " + s.Wrap(line, "  ") + "\n")
	}
	for _, c := range w.Causes {
		if strings.Contains(w.Summary, strings.TrimSuffix(c.Message, ".")) && c.Advice == "" {
			continue
		}
		b.WriteString("  " + s.Wrap(s.Paint(Red, c.About+": ")+c.Message, "    ") + "\n")
		if c.Advice != "" {
			b.WriteString("    " + s.Wrap("what helps: "+c.Advice, "    ") + "\n")
		}
	}
	return b.String() + s.drawActions(w)
}

// drawRelease describes the current release and its deadlines.
func (s Screen) drawRelease(w *v1beta1.RolloutWhy) string {
	parts := formatRelease(w.Release)
	f := w.WaitingFor
	if f.Since != nil {
		parts = append(parts, "since "+s.formatTime(*f.Since))
	}
	if f.Until != nil {
		parts = append(parts, "goes on at "+s.formatTime(*f.Until))
	}
	switch {
	case f.Deadline != nil:
		parts = append(parts, "deadline at "+s.formatTime(*f.Deadline))
	case w.Release != nil:
		parts = append(parts, "no deadline runs")
	}
	if w.Workload.Seen < w.Workload.Generation {
		parts = append(parts, "Weir has not seen the latest change of the workload yet")
	}
	return strings.Join(parts, " · ")
}

// formatRelease returns the number of a release, if it has one, and its versions.
func formatRelease(r *v1beta1.ReleaseRef) []string {
	switch {
	case r == nil:
		return nil
	case r.Number > 0:
		return []string{fmt.Sprintf("release %d", r.Number), Versions(r)}
	}
	return []string{Versions(r)}
}

// drawActions draws the possible actions, then the others.
func (s Screen) drawActions(w *v1beta1.RolloutWhy) string {
	var can, not [][]string
	for i := range w.Actions {
		a := &w.Actions[i]
		switch {
		case !a.Possible:
			not = append(not, []string{ActionName(a), a.Reason})
		case !a.Allowed:
			not = append(not, []string{ActionName(a), Forbidden(a, w.Namespace)})
		default:
			can = append(can, []string{s.Paint(green, ActionName(a)), Effect(a), formatCommand(w.Name, a)})
		}
	}
	return s.drawSection("you can:", []column{{keep: alwaysShown}, {keep: alwaysShown}, {keep: 1}}, can) +
		s.drawSection("not:", []column{{keep: alwaysShown}, {keep: alwaysShown}}, not)
}

// maxNarrowWidth is the maximum width of a narrow screen, on which long texts get lines of their own.
const maxNarrowWidth = 70

func (s Screen) isNarrow() bool { return s.Width > 0 && s.Width < maxNarrowWidth }

// drawSection draws a table next to a word; nothing if there are no rows.
func (s Screen) drawSection(word string, columns []column, rows [][]string) string {
	if len(rows) == 0 {
		return ""
	}
	var b strings.Builder
	if s.isNarrow() {
		b.WriteString("  " + word + "\n")
		for _, row := range rows {
			b.WriteString("  " + s.Wrap(row[0]+": "+row[1], "    ") + "\n")
		}
		return b.String()
	}
	s.Width = max(s.Width-11, 0)
	for line := range strings.Lines(s.drawTable(columns, rows)) {
		fmt.Fprintf(&b, "  %-9s%s", word, line)
		word = ""
	}
	return b.String()
}

// IsFull reports whether an action promotes all further steps.
func IsFull(a *v1beta1.Action) bool {
	var body struct {
		Full bool `json:"full"`
	}
	return json.Unmarshal(a.Body.Raw, &body) == nil && body.Full
}

// ActionName returns the verb of an action, with its flag.
func ActionName(a *v1beta1.Action) string {
	if IsFull(a) {
		return a.Verb + " --full"
	}
	return a.Verb
}

// Forbidden returns the permissions that the user lacks for an action. Servers of earlier versions do not
// report which of two permissions is missing.
func Forbidden(a *v1beta1.Action, namespace string) string {
	need := strings.Join(a.Missing, " and ")
	if need == "" {
		need = "rollouts/" + a.Verb
		if slices.Contains(a.Needs, "override") {
			need = "both " + need + " and rollouts/override"
		}
	}
	return "you may not create " + need + " in namespace " + namespace
}

// Effect describes what an action does, from which step on a jump overrides checks, and how many approvals
// exist.
func Effect(a *v1beta1.Action) string {
	switch {
	case a.OverrideFrom > 0 && slices.Contains(a.Missing, "rollouts/override"):
		return fmt.Sprintf("%s; from step %d on it takes permission to create rollouts/override", a.Reason, a.OverrideFrom)
	case a.OverrideFrom > 0:
		return fmt.Sprintf("%s; from step %d on it takes --override and --reason", a.Reason, a.OverrideFrom)
	case a.Approvals == nil:
		return a.Reason
	}
	text := fmt.Sprintf("%s (%d of %d approvals", a.Reason, a.Approvals.Have, a.Approvals.Of)
	if len(a.Approvals.By) > 0 {
		text += ": " + strings.Join(a.Approvals.By, ", ")
	}
	return text + ")"
}

// formatCommand returns the command line for an action.
func formatCommand(name string, a *v1beta1.Action) string {
	text := "kubectl weir " + a.Verb + " " + name + strings.TrimPrefix(ActionName(a), a.Verb)
	if slices.Contains(a.Needs, "step") {
		text += " STEP"
	}
	if slices.Contains(a.Needs, "override") {
		text += " --override --reason=…"
	}
	return text
}

// Versions describes the versions of a release: the tag of its image, or else its revision.
func Versions(r *v1beta1.ReleaseRef) string {
	from, to := r.Stable, r.Revision
	if len(r.Images) == 1 && r.Images[0].To != "" {
		from, to = shortImage(r.Images[0].From), shortImage(r.Images[0].To)
	}
	if from == "" {
		return to
	}
	return from + " → " + to
}

// shortImage returns the tag of an image, or else its name without the registry.
func shortImage(image string) string {
	name := image[strings.LastIndex(image, "/")+1:]
	if name, digest, ok := strings.Cut(name, "@"); ok {
		_, digest, _ = strings.Cut(digest, ":")
		return name + "@" + digest[:min(len(digest), 7)]
	}
	if _, tag, ok := strings.Cut(name, ":"); ok {
		return tag
	}
	return name
}
