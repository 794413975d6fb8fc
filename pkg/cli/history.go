// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

func newHistory(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "history NAME", Short: "List releases: who decided what, why, and how long it took",
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeNames,
	}
	o := addOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return show(cmd.Context(), a, o, args[0], "history", screen.history)
	}
	return cmd
}

// history draws releases, the newest first, each with its decisions.
func (s screen) history(h *v1beta1.RolloutReleases) string {
	if len(h.Releases) == 0 {
		return "No release is on record.\n"
	}
	rows := make([][]string, 0, len(h.Releases))
	for i := range h.Releases {
		r := &h.Releases[i]
		took := ""
		if r.StartTime != nil && r.EndTime != nil {
			took = duration.HumanDuration(r.EndTime.Sub(r.StartTime.Time))
		}
		outcome := cmp.Or(string(r.Outcome), "under way")
		rows = append(rows, []string{
			strconv.FormatInt(r.Number, 10), s.paint(outcomes[outcome], outcome), versions(&r.ReleaseRef), s.age(r.StartTime), took,
			changed(r), "",
		})
	}
	lines := strings.SplitAfter(s.table([]column{
		{"RELEASE", always, true}, {"OUTCOME", always, false}, {"VERSIONS", 8, false}, {"AGE", 7, true}, {"TOOK", 5, true},
		{"CHANGES", 4, true}, {"", 1, false},
	}, rows), "\n")
	var b strings.Builder
	b.WriteString(lines[0])
	for i := range h.Releases {
		b.WriteString(lines[i+1])
		for j := range h.Releases[i].Decisions {
			d := &h.Releases[i].Decisions[j]
			b.WriteString("         " + s.wrap(s.decision(d)+s.onStep(d), "           ") + "\n")
		}
	}
	return b.String()
}

// outcomes have a colour each, beside the word.
var outcomes = map[string]string{"succeeded": green, "under way": cyan, "aborted": red}

func (s screen) onStep(d *v1beta1.Decision) string {
	if d.Step == 0 {
		return ""
	}
	return s.paint(dim, fmt.Sprintf(" (step %d)", d.Step))
}

func changed(r *v1beta1.PastRelease) string {
	if n := int32(len(r.Changes)) + r.MoreChanges; n > 0 {
		return number(n)
	}
	return ""
}

func newDiff(a *app) *cobra.Command {
	var full bool
	cmd := &cobra.Command{
		Use: "diff NAME [RELEASE [RELEASE]]", Short: "Say what a release has changed, or how two differ", Args: cobra.RangeArgs(1, 3),
		ValidArgsFunction: completeReleases(a),
		Long: `Say what the latest release has changed in the template, or the one that is named, or
how two releases differ. --full compares whole templates, by the program that
KUBECTL_EXTERNAL_DIFF names, or else diff.`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.diff(cmd.Context(), args, full) },
	}
	cmd.Flags().BoolVar(&full, "full", false, "compare the whole templates")
	return cmd
}

func (a *app) diff(ctx context.Context, args []string, full bool) error {
	s, name, err := a.open(ctx, args[0])
	if err != nil {
		return err
	}
	history, err := read[v1beta1.RolloutReleases](ctx, s, name, "history")
	if err != nil {
		return err
	}
	all := history.it.Releases
	newest, err := pick(all, args, len(args)-1)
	if err != nil {
		return err
	}
	if len(args) < 3 && !full {
		c := a.screen()
		return c.write(a.Out, c.changes(newest))
	}
	oldest := before(all, newest)
	if len(args) == 3 {
		oldest, err = pick(all, args, 1)
	} else if oldest == nil {
		err = fmt.Errorf("the release before %d is not on record: name two", newest.Number)
	}
	if err != nil {
		return err
	}
	return a.templates(ctx, s, name, oldest, newest, full)
}

// templates compares those of two releases.
func (a *app) templates(ctx context.Context, s *server, name string, oldest, newest *v1beta1.PastRelease, full bool) error {
	from, err := s.template(ctx, name, oldest)
	if err != nil {
		return err
	}
	to, err := s.template(ctx, name, newest)
	if err != nil {
		return err
	}
	if full {
		return a.externalDiff(ctx, from, to)
	}
	c := a.screen()
	return c.write(a.Out, c.changes(compare(from, to)))
}

// pick is the release of an argument, or the newest one.
func pick(all []v1beta1.PastRelease, args []string, at int) (*v1beta1.PastRelease, error) {
	for i := range all {
		if at == 0 || args[at] == strconv.FormatInt(all[i].Number, 10) {
			return &all[i], nil
		}
	}
	if at == 0 {
		return nil, fmt.Errorf("no release of %s is on record", args[0])
	}
	return nil, fmt.Errorf("release %s is not on record", args[at])
}

// before is the release that has brought the stable version of another.
func before(all []v1beta1.PastRelease, r *v1beta1.PastRelease) *v1beta1.PastRelease {
	for i := range all {
		if all[i].Number < r.Number && all[i].Revision == r.Stable {
			return &all[i]
		}
	}
	return nil
}

// template is that of a release.
func (s *server) template(ctx context.Context, name string, of *v1beta1.PastRelease) (map[string]any, error) {
	patch, err := s.restore(ctx, name, of.Number)
	if err != nil {
		return nil, err
	}
	var object map[string]any
	err = json.Unmarshal(patch, &object)
	spec, _ := object["spec"].(map[string]any)
	template, _ := spec["template"].(map[string]any)
	return template, err
}

// restore is the patch that sets the template of a release again.
func (s *server) restore(ctx context.Context, name string, number int64) ([]byte, error) {
	past, err := read[v1beta1.RolloutReleases](ctx, s, name, "history", "release", strconv.FormatInt(number, 10))
	if err != nil {
		return nil, err
	}
	var asIs v1beta1.RolloutReleases // not cleaned: it is written, not drawn
	if err := json.Unmarshal(past.raw, &asIs); err != nil {
		return nil, err
	}
	for i := range asIs.Releases {
		if r := &asIs.Releases[i]; r.Number == number && len(r.Restore.Raw) > 0 {
			return r.Restore.Raw, nil
		}
	}
	return nil, fmt.Errorf("the template of release %d is not on record any more", number)
}

// changes draws what a release has changed.
func (s screen) changes(r *v1beta1.PastRelease) string {
	var b strings.Builder
	for _, c := range r.Changes {
		switch {
		case c.From == "":
			b.WriteString(s.wrap(s.paint(green, "+ "+c.Path+": "+c.To), "  "))
		case c.To == "":
			b.WriteString(s.wrap(s.paint(red, "− "+c.Path+": "+c.From), "  "))
		default:
			b.WriteString(s.wrap("~ "+c.Path+": "+s.paint(red, c.From)+" → "+s.paint(green, c.To), "  "))
		}
		b.WriteString("\n")
	}
	if r.MoreChanges > 0 {
		fmt.Fprintf(&b, "and %s; --full shows all\n", count(r.MoreChanges, "more change"))
	}
	if b.Len() == 0 {
		return "Nothing in the template differs.\n"
	}
	return b.String()
}

// compare finds what differs between two templates.
func compare(from, to map[string]any) *v1beta1.PastRelease {
	was, is := map[string]string{}, map[string]string{}
	flatten("", from, was)
	flatten("", to, is)
	all := maps.Clone(was)
	maps.Copy(all, is)
	out := &v1beta1.PastRelease{}
	for _, path := range sortedKeys(all) {
		if was[path] != is[path] {
			out.Changes = append(out.Changes, v1beta1.Change{Path: path, From: was[path], To: is[path]})
		}
	}
	return out
}

// flatten writes each value with its path. Items of lists go by their names, where they
// have some.
func flatten(path string, value any, into map[string]string) {
	switch v := value.(type) {
	case nil:
	case map[string]any:
		for key, field := range v {
			flatten(strings.TrimPrefix(path+"."+plain(key), "."), field, into)
		}
	case []any:
		for i, item := range v {
			key := strconv.Itoa(i)
			if object, ok := item.(map[string]any); ok && object["name"] != nil {
				key = plain(fmt.Sprint(object["name"]))
			}
			flatten(path+"["+key+"]", item, into)
		}
	default:
		text, _ := json.Marshal(cleaned(v)) // of a value that was read as JSON
		into[path] = string(text)
	}
}

// externalDiff compares templates as kubectl diff does.
func (a *app) externalDiff(ctx context.Context, from, to map[string]any) error {
	dir, err := os.MkdirTemp("", "kubectl-weir-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // of copies
	var files []string
	for name, template := range map[string]any{"1-before.yaml": from, "2-after.yaml": to} {
		text, err := yaml.Marshal(template)
		if err != nil {
			return err
		}
		files = append(files, filepath.Join(dir, name))
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return err
		}
	}
	slices.Sort(files)
	command := strings.Fields(cmp.Or(a.env("KUBECTL_EXTERNAL_DIFF"), "diff -u -N"))
	cmd := exec.CommandContext(ctx, command[0], append(command[1:], files...)...)
	cmd.Stdout, cmd.Stderr = a.Out, a.ErrOut
	if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() != 1 { // 1: they differ
		return fmt.Errorf("running %s: %w", command[0], err)
	}
	return nil
}
