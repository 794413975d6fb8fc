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
	return map[string]func(Screen) string{
		"why":      func(s Screen) string { return s.Why(why) },
		"plan":     func(s Screen) string { return s.Plan(plan) },
		"get":      p.Draw,
		"history":  func(s Screen) string { return s.History(history) },
		"diff":     func(s Screen) string { return s.Changes(&history.Releases[0]) },
		"get-wide": wide.Draw,
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
