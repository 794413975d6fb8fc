// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"sigs.k8s.io/yaml"

	"github.com/weir-rollouts/weir/internal/golden"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/cli/draw"
)

// now is the time at which the screens are drawn.
var now = time.Date(2026, 1, 5, 10, 21, 0, 0, time.UTC)

// recorded decodes a recorded response as the commands do.
func recorded[T any](t *testing.T, name string) *T {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("draw/testdata", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := yaml.YAMLToJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decode[T](raw)
	if err != nil {
		t.Fatal(err)
	}
	return &got.value
}

// viewing returns a live view without a server.
type viewing struct {
	*liveView
	sent []string
}

func newViewing(t *testing.T, width, height int) *viewing {
	t.Helper()
	v := &viewing{liveView: &liveView{screen: draw.Screen{Now: now}}}
	v.more = func(*v1beta1.RolloutTree) tea.Cmd { return nil }
	v.doubt = func(v1beta1.Action) tea.Cmd { return nil }
	v.send = func(a v1beta1.Action, d *dialog) tea.Cmd {
		v.sent = append(v.sent, a.Verb+" "+d.fieldValue("reason")+d.fieldValue("step"))
		return nil
	}
	history := recorded[v1beta1.RolloutReleases](t, "history")
	v.Update(tea.WindowSizeMsg{Width: width, Height: height})
	v.Update(treeMessage{recorded[v1beta1.RolloutTree](t, "tree")})
	v.Update(pictureMessage{&draw.Picture{Plan: recorded[v1beta1.RolloutPlan](t, "plan"), Release: &history.Releases[0]}})
	return v
}

// press sends keys: names of keys, or text.
func (v *viewing) press(keys ...string) (quit bool) {
	for _, k := range keys {
		message := tea.KeyPressMsg{Text: k}
		if code, special := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "backspace": tea.KeyBackspace, "down": tea.KeyDown, "pgdown": tea.KeyPgDown, "home": tea.KeyHome}[k]; special {
			message = tea.KeyPressMsg{Code: code}
		} else if k == "ctrl+c" {
			message = tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
		}
		if _, cmd := v.Update(message); cmd != nil {
			_, quit = cmd().(tea.QuitMsg)
		}
	}
	return quit
}

// The view fits into the terminal at every size, with and without a dialog.
func TestLiveSizes(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{30, 12}, {40, 20}, {80, 24}, {160, 50}} {
		for name, keys := range map[string][]string{"live": nil, "live-dialog": {"p", "error rate is fine"}, "live-help": {"?"}, "live-scrolled": {"pgdown", "down"}} {
			v := newViewing(t, size[0], size[1])
			v.press(keys...)
			got := v.drawView()
			if lines := strings.Count(got, "\n") + 1; lines > size[1] && name != "live-help" && size[1] > 12 {
				t.Errorf("%s at %v has %d lines", name, size, lines)
			}
			for line := range strings.Lines(got) {
				if ansi.StringWidth(strings.TrimSuffix(line, "\n")) > size[0] {
					t.Errorf("%s at %v has a wider line: %s", name, size, line)
				}
			}
			golden.File(t, fmt.Sprintf("%s-%d.txt", name, size[0]), got)
		}
	}
}

// A key has an effect only after a confirmation, only if the server permits the action, and only while the
// action on the screen is still possible.
func TestLiveActs(t *testing.T) {
	t.Parallel()
	v := newViewing(t, 80, 24)
	v.press("p", "why not", "backspace", "enter")
	if len(v.sent) != 1 || v.sent[0] != "promote why no" {
		t.Errorf("sent %q", v.sent)
	}
	if v.press("b", "enter", "r", "enter", "a", "esc", "p", "esc"); len(v.sent) != 1 {
		t.Errorf("sent what is not possible, not allowed or not confirmed: %q", v.sent)
	}
	v.press("p")
	moved := recorded[v1beta1.RolloutTree](t, "tree")
	moved.Why.Actions[0].Body.Raw = []byte(`{"expect":{"step":3}}`)
	moved.Why.Summary = "Step 3 of 3 of v8 waits for its pods."
	v.Update(treeMessage{moved})
	if v.press("enter"); len(v.sent) != 1 || !strings.Contains(v.drawView(), "the release has moved on: Step 3") {
		t.Errorf("sent %q after the release had moved on:\n%s", v.sent, v.drawView())
	}
	v.Update(sentMessage{"promote", errors.New("conflict")})
	v.Update(lostMessage{errors.New("connection refused")})
	for _, want := range []string{"promote: conflict", "connection lost, reconnecting: ", "connection refused"} {
		if !strings.Contains(v.drawView(), want) {
			t.Errorf("the view lacks %q:\n%s", want, v.drawView())
		}
	}
	v.Update(treeMessage{moved})
	if strings.Contains(v.drawView(), "connection refused") {
		t.Error("the connection is back, and the view does not say so")
	}
	v.Update(treeMessage{recorded[v1beta1.RolloutTree](t, "tree")})
	if v.Update(tickMessage(now.Add(time.Minute))); !strings.Contains(v.drawView(), "waiting for approval for 15m.") {
		t.Errorf("the time on the screen stands still:\n%s", v.drawView())
	}
	if v.press("esc") || v.press("?", "esc") {
		t.Error("esc, which closes a dialog, quits where there is none")
	}
	if !v.press("q") || !v.press("ctrl+c") {
		t.Error("neither q nor ctrl+c quits")
	}
}

// The dialog asks for the fields that a verb needs before the verb is sent.
func TestLiveNeeds(t *testing.T) {
	t.Parallel()
	v := newViewing(t, 80, 24)
	tree := recorded[v1beta1.RolloutTree](t, "tree")
	tree.Why.Actions = []v1beta1.Action{
		{Verb: "jump", Title: "Jump", Possible: true, Allowed: true, Needs: []string{"step"}},
		{Verb: "dance", Title: "Dance", Possible: true, Allowed: true, Needs: []string{"reason", "override"}},
	}
	v.Update(treeMessage{tree})
	v.press("j", "enter", "2", "enter", "enter")
	v.press("2", "enter", "because", "enter")
	if len(v.sent) != 2 || v.sent[0] != "jump 2" || v.sent[1] != "dance because" {
		t.Errorf("sent %q", v.sent)
	}
	v.press("2")
	v.Update(doubtsMessage{recorded[v1beta1.RolloutPlan](t, "plan")})
	if text := v.drawView(); !strings.Contains(text, "overrides the checks") || !strings.Contains(text, "ERROR") {
		t.Errorf("the dialog is\n%s", text)
	}
}
