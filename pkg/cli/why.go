// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

func newWhy(a *app) *cobra.Command {
	return newShow(a, "why", "Say what a Rollout waits for, since when, and what you can do", screen.why)
}

// newShow is a command that draws, or prints, what the server says of a Rollout.
func newShow[T any](a *app, sub, short string, drawing func(screen, *T) string) *cobra.Command {
	var o *output
	cmd := a.about(sub+" NAME", short, cobra.ExactArgs(1), func(ctx context.Context, t *target, _ []string) error {
		got, err := read[T](ctx, t, sub)
		if err != nil {
			return err
		}
		return a.show(o, got.raw, func(s screen) string { return drawing(s, &got.it) })
	})
	o = addOutput(cmd)
	return cmd
}

// why draws what a Rollout waits for.
func (s screen) why(w *v1beta1.RolloutWhy) string {
	var b strings.Builder
	b.WriteString(s.paint(bold, s.wrap(w.Summary, "  ")) + "\n")
	if w.Contact != "" {
		b.WriteString("  ask: " + w.Contact + "\n")
	}
	if line := s.release(w); line != "" {
		b.WriteString("  " + s.wrap(line, "  ") + "\n")
	}
	for _, c := range w.Causes {
		if strings.Contains(w.Summary, strings.TrimSuffix(c.Message, ".")) && c.Advice == "" {
			continue
		}
		b.WriteString("  " + s.wrap(s.paint(red, c.About+": ")+c.Message, "    ") + "\n")
		if c.Advice != "" {
			b.WriteString("    " + s.wrap("what helps: "+c.Advice, "    ") + "\n")
		}
	}
	return b.String() + s.actions(w)
}

// release says which one is under way, and what the clocks say.
func (s screen) release(w *v1beta1.RolloutWhy) string {
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
		return []string{fmt.Sprintf("release %d", r.Number), versions(r)}
	}
	return []string{versions(r)}
}

// actions draws what can be done, then what cannot.
func (s screen) actions(w *v1beta1.RolloutWhy) string {
	var can, not [][]string
	for i := range w.Actions {
		a := &w.Actions[i]
		switch {
		case !a.Possible:
			not = append(not, []string{nameOf(a), a.Reason})
		case !a.Allowed:
			not = append(not, []string{nameOf(a), "you may not create rollouts/" + a.Verb + " in namespace " + w.Namespace})
		default:
			can = append(can, []string{s.paint(green, nameOf(a)), effect(a), command(w.Name, a)})
		}
	}
	return s.below("you can:", []column{{keep: always}, {keep: always}, {keep: 1}}, can) +
		s.below("not:", []column{{keep: always}, {keep: always}}, not)
}

// narrow is where texts get lines of their own.
const narrow = 70

func (s screen) isNarrow() bool { return s.width > 0 && s.width < narrow }

// below draws a table beside a word, or nothing where it has no rows.
func (s screen) below(word string, columns []column, rows [][]string) string {
	if len(rows) == 0 {
		return ""
	}
	var b strings.Builder
	if s.isNarrow() {
		b.WriteString("  " + word + "\n")
		for _, row := range rows {
			b.WriteString("  " + s.wrap(row[0]+": "+row[1], "    ") + "\n")
		}
		return b.String()
	}
	s.width = max(s.width-11, 0)
	for line := range strings.Lines(s.table(columns, rows)) {
		fmt.Fprintf(&b, "  %-9s%s", word, line)
		word = ""
	}
	return b.String()
}

// isFull reports whether an action is about all further steps.
func isFull(a *v1beta1.Action) bool {
	var body struct {
		Full bool `json:"full"`
	}
	return json.Unmarshal(a.Body.Raw, &body) == nil && body.Full
}

// nameOf is the verb of an action, with its flag.
func nameOf(a *v1beta1.Action) string {
	if isFull(a) {
		return a.Verb + " --full"
	}
	return a.Verb
}

// effect is what happens, and how many approvals are there.
func effect(a *v1beta1.Action) string {
	if a.Approvals == nil {
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
	text := "kubectl weir " + a.Verb + " " + name + strings.TrimPrefix(nameOf(a), a.Verb)
	if slices.Contains(a.Needs, "step") {
		text += " STEP"
	}
	return text
}

// versions says what a release changes: the tag of an image where there is one, or else
// the revision.
func versions(r *v1beta1.ReleaseRef) string {
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
