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
	if line := s.release(w); line != "" {
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
	return b.String() + s.actions(w)
}

// release says which one is under way, and what the clocks say.
func (s Screen) release(w *v1beta1.RolloutWhy) string {
	parts := named(w.Release)
	f := w.WaitingFor
	if f.Since != nil {
		parts = append(parts, "since "+s.at(*f.Since))
	}
	if f.Until != nil {
		parts = append(parts, "goes on at "+s.at(*f.Until))
	}
	switch {
	case f.Deadline != nil:
		parts = append(parts, "deadline at "+s.at(*f.Deadline))
	case w.Release != nil:
		parts = append(parts, "no deadline runs")
	}
	if w.Workload.Seen < w.Workload.Generation {
		parts = append(parts, "Weir has not seen the latest change of the workload yet")
	}
	return strings.Join(parts, " · ")
}

// named is the number of a release, if it has one, and what it changes.
func named(r *v1beta1.ReleaseRef) []string {
	switch {
	case r == nil:
		return nil
	case r.Number > 0:
		return []string{fmt.Sprintf("release %d", r.Number), Versions(r)}
	}
	return []string{Versions(r)}
}

// actions draws what can be done, then what cannot.
func (s Screen) actions(w *v1beta1.RolloutWhy) string {
	var can, not [][]string
	for i := range w.Actions {
		a := &w.Actions[i]
		switch {
		case !a.Possible:
			not = append(not, []string{NameOf(a), a.Reason})
		case !a.Allowed:
			not = append(not, []string{NameOf(a), Forbidden(a, w.Namespace)})
		default:
			can = append(can, []string{s.Paint(green, NameOf(a)), Effect(a), command(w.Name, a)})
		}
	}
	return s.below("you can:", []column{{keep: always}, {keep: always}, {keep: 1}}, can) +
		s.below("not:", []column{{keep: always}, {keep: always}}, not)
}

// narrow is where texts get lines of their own.
const narrow = 70

func (s Screen) isNarrow() bool { return s.Width > 0 && s.Width < narrow }

// below draws a table beside a word, or nothing where it has no rows.
func (s Screen) below(word string, columns []column, rows [][]string) string {
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
	for line := range strings.Lines(s.table(columns, rows)) {
		fmt.Fprintf(&b, "  %-9s%s", word, line)
		word = ""
	}
	return b.String()
}

// IsFull reports whether an action is about all further steps.
func IsFull(a *v1beta1.Action) bool {
	var body struct {
		Full bool `json:"full"`
	}
	return json.Unmarshal(a.Body.Raw, &body) == nil && body.Full
}

// NameOf is the verb of an action, with its flag.
func NameOf(a *v1beta1.Action) string {
	if IsFull(a) {
		return a.Verb + " --full"
	}
	return a.Verb
}

// Forbidden says which permissions an action needs that its user does not have. A server of an earlier
// version does not say which of two permissions is missing.
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

// Effect is what happens, from which step on a jump goes past checks, and how many approvals are there.
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

// command is what to type for an action.
func command(name string, a *v1beta1.Action) string {
	text := "kubectl weir " + a.Verb + " " + name + strings.TrimPrefix(NameOf(a), a.Verb)
	if slices.Contains(a.Needs, "step") {
		text += " STEP"
	}
	if slices.Contains(a.Needs, "override") {
		text += " --override --reason=…"
	}
	return text
}

// Versions says what a release changes: the tag of an image where there is one, or else
// the revision.
func Versions(r *v1beta1.ReleaseRef) string {
	from, to := r.Stable, r.Revision
	if len(r.Images) == 1 && r.Images[0].To != "" {
		from, to = short(r.Images[0].From), short(r.Images[0].To)
	}
	if from == "" {
		return to
	}
	return from + " → " + to
}

// short is the tag of an image, or else its name without the registry.
func short(image string) string {
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
