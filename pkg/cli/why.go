// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

func newWhy(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "why NAME", Short: "Say what a Rollout waits for, since when, and what you can do",
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeNames,
	}
	o := addOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return show(cmd.Context(), a, o, args[0], "why", screen.why)
	}
	return cmd
}

// why draws what a Rollout waits for.
func (s screen) why(w *v1beta1.RolloutWhy) string {
	var b strings.Builder
	fmt.Fprintln(&b, s.paint(bold, s.wrap(w.Summary, "  ")))
	if w.Contact != "" {
		fmt.Fprintf(&b, "  ask: %s\n", w.Contact)
	}
	if line := s.release(w); line != "" {
		fmt.Fprintf(&b, "  %s\n", s.wrap(line, "  "))
	}
	for _, c := range w.Causes {
		if strings.Contains(w.Summary, strings.TrimSuffix(c.Message, ".")) && c.Advice == "" {
			continue
		}
		fmt.Fprintf(&b, "  %s\n", s.wrap(s.paint(red, c.About+": ")+c.Message, "    "))
		if c.Advice != "" {
			fmt.Fprintf(&b, "    %s\n", s.wrap("what helps: "+c.Advice, "    "))
		}
	}
	return b.String() + s.actions(w)
}

// release says which one is under way, and what the clocks say.
func (s screen) release(w *v1beta1.RolloutWhy) string {
	var parts []string
	if r := w.Release; r != nil {
		if r.Number > 0 {
			parts = append(parts, fmt.Sprintf("release %d", r.Number))
		}
		parts = append(parts, versions(r))
	}
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

// actions draws what can be done, then what cannot.
func (s screen) actions(w *v1beta1.RolloutWhy) string {
	var can, not [][]string
	for _, action := range w.Actions {
		name := action.Verb
		if isFull(&action) {
			name += " --full"
		}
		switch {
		case !action.Possible:
			not = append(not, []string{name, action.Reason})
		case !action.Allowed:
			not = append(not, []string{name, "you may not create rollouts/" + action.Verb + " in namespace " + w.Namespace})
		default:
			can = append(can, []string{s.paint(green, name), effect(&action), command(w, &action, name)})
		}
	}
	var b strings.Builder
	if len(can) > 0 {
		b.WriteString(s.below("you can:", []column{{keep: always}, {keep: always}, {keep: 1}}, can))
	}
	if len(not) > 0 {
		b.WriteString(s.below("not:", []column{{keep: always}, {keep: always}}, not))
	}
	return b.String()
}

// narrow is where texts get lines of their own.
const narrow = 70

// below draws a table without titles beside a word.
func (s screen) below(word string, columns []column, rows [][]string) string {
	if s.width > 0 && s.width < narrow {
		lines := []string{"  " + word}
		for _, row := range rows {
			lines = append(lines, "  "+s.wrap(row[0]+": "+row[1], "    "))
		}
		return strings.Join(lines, "\n") + "\n"
	}
	s.width = max(s.width-11, 0)
	lines := strings.Split(strings.TrimSuffix(s.table(columns, rows), "\n"), "\n")[1:]
	for i := range lines {
		lines[i] = fmt.Sprintf("  %-9s", word) + lines[i]
		word = ""
	}
	return strings.Join(lines, "\n") + "\n"
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
func command(w *v1beta1.RolloutWhy, a *v1beta1.Action, name string) string {
	verb, flags, _ := strings.Cut(name, " ")
	if slices.Contains(a.Needs, "step") {
		flags = "STEP"
	}
	return strings.TrimSpace("kubectl weir " + verb + " " + w.Name + " " + flags)
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
