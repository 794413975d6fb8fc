// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package draw

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/glossary"
)

// Why draws what a Rollout waits for.
func (s Screen) Why(w *v1beta1.RolloutWhy) string {
	var b strings.Builder
	head := s.Paint(Bold, w.Summary)
	if state := ShownState(w); state != "AtRest" {
		head = s.formatState(state) + "  " + head
	}
	b.WriteString(s.Wrap(head, "  ") + "\n")
	if w.State == "Failing" {
		b.WriteString(s.drawCauses(w))
	}
	if w.Contact != "" {
		b.WriteString("  ask: " + w.Contact + "\n")
	}
	if line := s.drawRelease(w); line != "" {
		b.WriteString("  " + s.Wrap(line, "  ") + "\n")
	}
	if source := formatSource(w.Release); source != "" {
		b.WriteString("  " + s.Wrap(source, "    ") + "\n")
	}
	if w.State != "Failing" {
		b.WriteString(s.drawCauses(w))
	}
	return b.String() + s.drawActions(w)
}

// drawCauses draws what keeps a release where it is, with fixes. It omits a cause that the summary or an earlier
// cause contains.
func (s Screen) drawCauses(w *v1beta1.RolloutWhy) string {
	var b strings.Builder
	said := w.Summary
	for _, c := range w.Causes {
		message := strings.TrimSuffix(c.Message, ".")
		isKnown := strings.Contains(said, message)
		said += "\n" + message
		if isKnown && (c.Advice == "" || strings.Contains(said, c.Advice)) {
			continue
		}
		if !isKnown {
			b.WriteString("  " + s.Wrap(s.Paint(Red, c.About+": ")+c.Message, "    ") + "\n")
		}
		if c.Advice != "" {
			b.WriteString("    " + s.Wrap("fix: "+c.Advice, "    ") + "\n")
			said += "\n" + c.Advice
		}
	}
	return b.String()
}

// drawRelease describes the current release and its deadlines.
func (s Screen) drawRelease(w *v1beta1.RolloutWhy) string {
	parts := formatRelease(w.Release)
	f := w.WaitingFor
	if f.Since != nil {
		parts = append(parts, "since "+s.formatTime(*f.Since))
	}
	if f.Until != nil {
		parts = append(parts, "continues at "+s.formatTime(*f.Until))
	}
	switch {
	case f.Deadline != nil:
		parts = append(parts, "deadline at "+s.formatTime(*f.Deadline))
	case w.Release != nil:
		parts = append(parts, "no deadline")
	}
	if w.Workload.Seen < w.Workload.Generation && len(w.Causes) == 0 {
		parts = append(parts, "Weir is processing the latest change of the workload")
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

// drawActions draws the commands of the possible actions, then the reasons why others are not possible.
func (s Screen) drawActions(w *v1beta1.RolloutWhy) string {
	var can []command
	var reasons []string
	names := map[string][]string{}
	for i := range w.Actions {
		a := &w.Actions[i]
		reason := ""
		switch {
		case !a.Possible:
			reason = a.Reason
		case !a.Allowed:
			reason = Forbidden(a, w.Namespace)
		default:
			can = append(can, command{s.commandWords(w, a), Effect(a)})
			continue
		}
		if names[reason] == nil {
			reasons = append(reasons, reason)
		}
		names[reason] = append(names[reason], ActionName(a))
	}
	if w.Release == nil && len(can) == 0 && len(reasons) == 1 {
		return "" // nothing is possible because there is no release, as the summary says
	}
	var b strings.Builder
	b.WriteString(s.drawCommands(can))
	for i, reason := range reasons {
		if i == 0 {
			b.WriteString("  not now:\n")
		}
		b.WriteString("    " + s.Wrap(strings.Join(names[reason], ", ")+": "+reason, "      ") + "\n")
	}
	return b.String()
}

// command is a command line with its effect.
type command struct {
	words  []string
	effect string
}

// drawCommands draws commands with their effects. A command is never cut, so that it can be copied. If the effects
// do not fit beside the commands, each gets lines of its own.
func (s Screen) drawCommands(can []command) string {
	if len(can) == 0 {
		return ""
	}
	var rows [][]string
	line, effect := 0, 0
	for _, c := range can {
		text := strings.Join(c.words, " ")
		line, effect = max(line, ansi.StringWidth(text)), max(effect, ansi.StringWidth(c.effect))
		rows = append(rows, []string{s.Paint(green, text), c.effect})
	}
	var b strings.Builder
	b.WriteString("  you can:\n")
	if s.Width <= 0 || line+effect+6 <= s.Width {
		for line := range strings.Lines(s.drawTable([]column{{keep: alwaysShown}, {keep: alwaysShown}}, rows)) {
			b.WriteString("    " + line)
		}
		return b.String()
	}
	for _, c := range can {
		b.WriteString("    " + s.Paint(green, s.wrapCommand(c.words)) + "\n")
		if c.effect != "" {
			b.WriteString("      " + s.Wrap(c.effect, "      ") + "\n")
		}
	}
	return b.String()
}

// wrapCommand breaks a command into lines that a shell reads as one.
func (s Screen) wrapCommand(words []string) string {
	const indent, end = 6, 2
	text, width := words[0], ansi.StringWidth(words[0])
	for _, word := range words[1:] {
		if width += 1 + ansi.StringWidth(word); width+indent+end > s.Width {
			text, width = text+" \\\n      "+word, ansi.StringWidth(word)
			continue
		}
		text += " " + word
	}
	return text
}

// maxNarrowWidth is the maximum width of a narrow screen, on which long texts get lines of their own.
const maxNarrowWidth = 70

func (s Screen) isNarrow() bool { return s.Width > 0 && s.Width < maxNarrowWidth }

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
	return "you need permission to create " + need + " in namespace " + namespace
}

// Effect describes what an action does, from which step on a jump overrides checks, and how many approvals
// exist.
func Effect(a *v1beta1.Action) string {
	switch {
	case a.OverrideFrom > 0 && slices.Contains(a.Missing, "rollouts/override"):
		return fmt.Sprintf("%s; from step %d on, you need permission to create rollouts/override", a.Reason, a.OverrideFrom)
	case a.OverrideFrom > 0:
		return fmt.Sprintf("%s; from step %d on, add --override --reason '…'", a.Reason, a.OverrideFrom)
	case a.Approvals == nil:
		return a.Reason
	}
	text := fmt.Sprintf("%s (%d of %d approvals", a.Reason, a.Approvals.Have, a.Approvals.Of)
	if len(a.Approvals.By) > 0 {
		text += ": " + strings.Join(a.Approvals.By, ", ")
	}
	return text + ")"
}

// commandWords returns the words of the command for an action, with the namespace and the global flags.
func (s Screen) commandWords(w *v1beta1.RolloutWhy, a *v1beta1.Action) []string {
	words := []string{"kubectl weir", a.Verb, w.Name}
	if slices.Contains(a.Needs, "step") {
		words = append(words, "STEP")
	}
	if w.Namespace != "" {
		words = append(words, "-n "+w.Namespace)
	}
	words = append(words, s.Flags...)
	if IsFull(a) {
		words = append(words, "--full")
	}
	if slices.Contains(a.Needs, "override") {
		words = append(words, "--override")
	}
	if slices.Contains(a.Needs, "override") || slices.Contains(a.Needs, "reason") {
		words = append(words, "--reason '…'")
	}
	return words
}

// formatSource describes what was built into a release; empty if that is not known.
func formatSource(r *v1beta1.ReleaseRef) string {
	if r == nil || r.Source == nil {
		return ""
	}
	from := r.Source
	var parts []string
	if from.Version != "" {
		parts = append(parts, "version "+from.Version)
	}
	if from.Commit != "" {
		parts = append(parts, "commit "+ShortCommit(from.Commit))
	}
	if from.Author != "" {
		parts = append(parts, "by "+from.Author)
	}
	if address := cmp.Or(from.Link, from.Repository); address != "" {
		parts = append(parts, address)
	}
	if len(parts) == 0 {
		return ""
	}
	return "built from " + strings.Join(parts, " · ")
}

// shortCommitLength is the number of digits of a commit that are shown.
const shortCommitLength = 12

// ShortCommit returns the first digits of a commit.
func ShortCommit(commit string) string {
	runes := []rune(commit)
	return string(runes[:min(len(runes), shortCommitLength)])
}

// Versions describes the versions of a release: the tag of its image, or else its revision.
func Versions(r *v1beta1.ReleaseRef) string {
	from, to := versions(r)
	if from == "" {
		return to
	}
	return from + " → " + to
}

// versions returns the versions before and after a release.
func versions(r *v1beta1.ReleaseRef) (from, to string) {
	if len(r.Images) == 1 && r.Images[0].To != "" {
		return glossary.ShortImage(r.Images[0].From), glossary.ShortImage(r.Images[0].To)
	}
	return r.Stable, r.Revision
}
