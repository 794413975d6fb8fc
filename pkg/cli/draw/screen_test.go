// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package draw

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/weir-rollouts/weir/internal/golden"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// now is the time at which the screens are drawn.
var now = time.Date(2026, 1, 5, 10, 21, 0, 0, time.UTC)

// recorded decodes a recorded response as the commands do.
func recorded[T any](t *testing.T, name string) *T {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := yaml.YAMLToJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		t.Fatal(err)
	}
	harmless, err := json.Marshal(Clean(value))
	if err != nil {
		t.Fatal(err)
	}
	var got T
	if err := json.Unmarshal(harmless, &got); err != nil {
		t.Fatal(err)
	}
	return &got
}

// drawings are the drawings of the same release.
func drawings(t *testing.T) map[string]func(Screen) string {
	t.Helper()
	why, plan := recorded[v1beta1.RolloutWhy](t, "why"), recorded[v1beta1.RolloutPlan](t, "plan")
	history := recorded[v1beta1.RolloutReleases](t, "history")
	p := &Picture{
		Tree: recorded[v1beta1.RolloutTree](t, "tree"), Plan: plan, Release: &history.Releases[0],
		ready: map[string][]int32{"s2": {0, 1, 1, 3, 4}, "s1": {10, 9, 9, 7, 5}},
	}
	wide := *p
	wide.Wide = true
	failing := recorded[v1beta1.RolloutWhy](t, "failing")
	abPlan := *plan.DeepCopy()
	abPlan.Status.Steps[1].Traffic, abPlan.Status.Steps[1].Match, abPlan.Status.Steps[1].PerPod = nil, "x-canary: yes", ""
	abPlan.Status.Steps[1].Then.Checks = []string{"successRate", "jvm"}
	abPlan.Status.Findings = append(abPlan.Status.Findings, v1beta1.Finding{Severity: "Info", Code: "release", Message: "Supersedes release 3 (v2)"})
	ab := *p
	ab.Plan = &abPlan
	return map[string]func(Screen) string{
		"why":       func(s Screen) string { return s.Why(why) },
		"failing":   func(s Screen) string { s.Flags = []string{"--context=prod"}; return s.Why(failing) },
		"get-ab":    ab.Draw,
		"plan-ab":   func(s Screen) string { return s.Plan(&abPlan) },
		"list":      func(s Screen) string { return (&List{}).Draw(s, listRows()) },
		"decisions": func(s Screen) string { return s.Decisions(decisions()) },
		"terms":     Screen.Terms,
		"plan":      func(s Screen) string { return s.Plan(plan) },
		"get":       p.Draw,
		"history":   func(s Screen) string { return s.History(history) },
		"diff":      func(s Screen) string { return s.Changes(&history.Releases[0]) },
		"get-wide":  wide.Draw,
	}
}

// listRows are Rollouts in all states.
func listRows() []ListRow {
	rows := []ListRow{
		{Namespace: "bank", Name: "cash", State: "AtRest", Versions: "v4", Since: "3d"},
		{Namespace: "pay", Name: "ledger", State: "Moving", Versions: "v8 → v9", Step: "1/3", WaitingFor: "pods of step 1/3", Since: "40s"},
		{Namespace: "pay", Name: "mail", State: "Waiting", Versions: "v1 → v2", Step: "1/2", Traffic: "x-canary: yes", WaitingFor: "the end of its pause", Since: "2m"},
		{Namespace: "shop", Name: "web", State: "Waiting", WaitsForPerson: true, Versions: "v7 → v8", Step: "2/3", Traffic: "50%", WaitingFor: "approval of step 2/3", Since: "14m"},
		{Namespace: "pay", Name: "api", State: "Failing", Versions: "v3 → v4", Step: "1/3", WaitingFor: "pods of step 1/3: 1 of 1 new pods: container app: ImagePullBackOff (not found)", Since: "9m"},
		{Namespace: "pay", Name: "moon", State: "Waxing", Since: "1m"},
	}
	SortRows(rows)
	return rows
}

// decisions are decisions of two Rollouts.
func decisions() []Decided {
	at := metav1.NewTime(now.Add(-time.Hour))
	return []Decided{
		{
			Namespace: "shop", Rollout: "web", Release: 12, Version: "registry.example.com/shop/web:v8",
			Decision: v1beta1.Decision{Verb: "promote", Full: true, User: "alice", Time: at, Step: 1, Reason: "hotfix, all at once", Outcome: "applied"},
		},
		{
			Namespace: "pay", Rollout: "ledger", Release: 3, Version: "77aa",
			Decision: v1beta1.Decision{Verb: "jump", ToStep: 3, User: "bob", Time: at, Step: 1, Reason: "known issue, see the incident of last night", Overrode: []string{"analysis"}},
		},
	}
}

// A drawing is stable at each width, and no line is too wide.
func TestWidths(t *testing.T) {
	t.Parallel()
	for name, draw := range drawings(t) {
		for _, width := range []int{0, 30, 40, 80, 160} {
			s := Screen{Width: width, Now: now}
			got := s.Finish(draw(s))
			for line := range strings.Lines(got) {
				if width > 0 && ansi.StringWidth(strings.TrimSuffix(line, "\n")) > width {
					t.Errorf("%s at %d columns has a line of %d: %s", name, width, ansi.StringWidth(line), line)
				}
			}
			golden.File(t, fmt.Sprintf("%s-%d.txt", name, width), got)
		}
	}
}

// Colours add no information: the text without them is the same. Texts of other users cannot contain
// control sequences.
func TestColours(t *testing.T) {
	t.Parallel()
	for name, draw := range drawings(t) {
		plain, colour := Screen{Width: 80, Now: now}, Screen{Width: 80, Now: now, Colour: true}
		if got, want := ansi.Strip(colour.Finish(draw(colour))), plain.Finish(draw(plain)); got != want {
			t.Errorf("%s with colours has another text (-without +with):\n%s", name, cmp.Diff(want, got))
		}
		if text := plain.Finish(draw(plain)); strings.Contains(text, "\x1b") {
			t.Errorf("%s without colours has an escape sequence:\n%q", name, text)
		}
	}
	golden.File(t, "why-colour.txt", Screen{Width: 80, Now: now, Colour: true}.Finish(drawings(t)["why"](Screen{Width: 80, Now: now, Colour: true})))
}

func TestASCII(t *testing.T) {
	t.Parallel()
	for name, draw := range drawings(t) {
		s := Screen{Width: 80, Now: now, ASCII: true}
		got := s.Finish(draw(s))
		for _, r := range got {
			if r > 127 {
				t.Errorf("%s has %q", name, r)
			}
		}
		golden.File(t, name+"-ascii.txt", got)
	}
}
