// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/cli/draw"
)

// What happens to the live view, besides keys and sizes.
type (
	treeCame  struct{ tree *v1beta1.RolloutTree }
	moreCame  struct{ picture *draw.Picture }
	wasLost   struct{ err error }
	timeCame  time.Time
	doubtCame struct{ plan *v1beta1.RolloutPlan }
	wasSent   struct {
		verb string
		err  error
	}
)

// live is the live view. Update and View have no effects: these are commands.
type live struct {
	effects
	screen draw.Screen
	height int
	// top is the first line that is drawn.
	top     int
	picture draw.Picture
	// said is the last thing that happened, and lost is why there is no answer.
	said, lost string
	// help reports whether all keys are drawn.
	help   bool
	dialog *dialog
}

// effects are what the view asks of the server.
type effects struct {
	more  func(*v1beta1.RolloutTree) tea.Cmd
	send  func(v1beta1.Action, *dialog) tea.Cmd
	doubt func(v1beta1.Action) tea.Cmd
}

// verbKeys are those of the verbs; others get numbers.
var verbKeys = map[string]string{
	"promote": "p", "promote --full": "f", "abort": "a", "rollback": "b", "retry": "r", "pause": "z", "resume": "u", "jump": "j",
}

// keyOf is the key of an action, by its place among those that are possible.
func keyOf(a *v1beta1.Action, at int) string {
	return cmp.Or(verbKeys[draw.NameOf(a)], strconv.Itoa(at+1))
}

// possible are the actions that have a key.
func (m *live) possible() []v1beta1.Action {
	if m.picture.Tree == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(m.picture.Tree.Why.Actions), func(a v1beta1.Action) bool { return !a.Possible || !a.Allowed })
}

func tick() tea.Cmd { return tea.Tick(time.Second, func(t time.Time) tea.Msg { return timeCame(t) }) }

// Init implements tea.Model.
func (m *live) Init() tea.Cmd { return tick() }

// Update implements tea.Model.
func (m *live) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch v := message.(type) {
	case tea.WindowSizeMsg:
		m.screen.Width, m.height = v.Width, v.Height
	case timeCame:
		m.screen.Now = time.Time(v).In(m.screen.Now.Location())
		return m, tick()
	case tea.KeyPressMsg:
		return m, m.press(v)
	case treeCame:
		return m, m.took(v.tree)
	default:
		m.hear(message)
	}
	return m, nil
}

// hear takes what the server has answered, and what is pasted.
func (m *live) hear(message tea.Msg) {
	switch v := message.(type) {
	case moreCame:
		m.picture.Plan, m.picture.Release = v.picture.Plan, v.picture.Release
	case wasLost:
		m.lost = said(v.err)
	case wasSent:
		m.said = v.verb + " accepted"
		if v.err != nil {
			m.said = v.verb + ": " + said(v.err)
		}
	case doubtCame:
		if m.dialog != nil && draw.HasErrors(v.plan) {
			m.dialog.doubts = v.plan
		}
	case tea.PasteMsg:
		if m.dialog != nil {
			m.dialog.enterText(v.Content)
		}
	}
}

// took takes a new state. A dialog about what is no longer so is closed.
func (m *live) took(t *v1beta1.RolloutTree) tea.Cmd {
	m.picture.Tree, m.lost = t, ""
	m.picture.Sample()
	if d := m.dialog; d != nil && !slices.ContainsFunc(m.possible(), d.isAbout) {
		m.dialog, m.said = nil, "the release has moved on meanwhile: "+t.Why.Summary
	}
	return m.more(t)
}

func (m *live) press(k tea.KeyPressMsg) tea.Cmd {
	switch {
	case k.String() == "ctrl+c":
		return tea.Quit
	case k.String() == "ctrl+z":
		return tea.Suspend
	case m.dialog != nil:
		return m.answer(k)
	}
	switch k.String() {
	case "q":
		return tea.Quit
	case "t":
		m.picture.Wide = !m.picture.Wide
	case "?":
		m.help = !m.help
	default:
		page := m.height - 2
		m.top += map[string]int{"up": -1, "down": 1, "pgup": -page, "pgdown": page, "home": -m.top}[k.String()]
		return m.open(k.String())
	}
	return nil
}

// open opens the dialog of the action that has a key.
func (m *live) open(pressed string) tea.Cmd {
	for at, a := range m.possible() {
		if keyOf(&a, at) == pressed {
			m.dialog, m.said = newDialog(a), ""
			return m.doubt(a)
		}
	}
	return nil
}

// answer takes a key of the dialog.
func (m *live) answer(k tea.KeyPressMsg) tea.Cmd {
	d := m.dialog
	switch k.String() {
	case "esc":
		m.dialog, m.said = nil, "nothing was changed"
	case "backspace":
		d.erase()
	case "enter":
		if !d.next() {
			return nil
		}
		m.dialog, m.said = nil, d.action.Verb+" is sent"
		return m.send(d.action, d)
	default:
		d.enterText(k.Text)
	}
	return nil
}

// View implements tea.Model.
func (m *live) View() tea.View {
	v := tea.NewView(m.draw())
	v.AltScreen = true
	return v
}

// draw has the release above, and the dialog or the keys at the bottom.
func (m *live) draw() string {
	above := "…"
	if m.picture.Tree != nil {
		above = m.screen.Finish(m.picture.Draw(m.screen))
	}
	below := m.keys()
	if m.dialog != nil {
		below = m.dialog.draw(m.screen)
	}
	for _, text := range []string{m.said, m.lost} {
		if text != "" {
			below = m.screen.Wrap(text, "  ") + "\n" + below
		}
	}
	if m.lost != "" {
		below = m.screen.Paint(draw.Red, "trying again: ") + below
	}
	below = m.screen.Finish(below)
	lines := strings.Split(strings.TrimRight(above, "\n"), "\n")
	room := len(lines)
	if m.height > 0 {
		room = max(m.height-strings.Count(below, "\n")-1, 1)
	}
	m.top = max(min(m.top, len(lines)-room), 0)
	lines = lines[m.top:min(m.top+room, len(lines))]
	return strings.Join(lines, "\n") + "\n" + below
}

// keys are those that do something now.
func (m *live) keys() string {
	var parts []string
	for at, a := range m.possible() {
		name := draw.NameOf(&a)
		if m.help {
			name += ": " + draw.Effect(&a) + "\n"
		}
		parts = append(parts, m.screen.Paint(draw.Bold, keyOf(&a, at))+" "+name)
	}
	parts = append(parts, m.screen.Paint(draw.Bold, "t")+" pods", m.screen.Paint(draw.Bold, "?")+" all keys", m.screen.Paint(draw.Bold, "q")+" quit")
	if m.help {
		parts = append(parts, "arrows, page up and down, home: move", "ctrl+z: suspend")
	}
	return m.screen.Wrap(strings.ReplaceAll(strings.Join(parts, "  "), "\n  ", "\n"), "")
}

// watch runs the live view, or prints lines where there is no terminal.
func (a *app) watch(ctx context.Context, t *target, wide bool) error {
	if !a.asks() || os.Getenv("TERM") == "dumb" {
		return a.lines(ctx, t)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	m := &live{effects: a.effects(ctx, t), screen: a.screen(), picture: draw.Picture{Wide: wide}}
	program := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(a.In), tea.WithOutput(a.Out), tea.WithoutSignalHandler())
	ended := make(chan error, 1)
	go func() {
		ended <- a.trees(ctx, t, func(tree *v1beta1.RolloutTree) { program.Send(treeCame{tree}) }, func(err error) { program.Send(wasLost{err}) })
		program.Quit()
	}()
	_, err := program.Run()
	stop()
	if gone := <-ended; !errors.Is(gone, context.Canceled) {
		return gone
	}
	if errors.Is(err, tea.ErrProgramKilled) {
		return context.Canceled
	}
	return err
}

// effects ask the server. What is asked beside the tree is asked once for each state.
func (a *app) effects(ctx context.Context, t *target) effects {
	seen := ""
	return effects{
		more: func(tree *v1beta1.RolloutTree) tea.Cmd {
			key := tree.ResourceVersion + tree.Why.ResourceVersion + tree.Why.WaitingFor.What
			if key == seen && key != "" {
				return nil
			}
			seen = key
			return func() tea.Msg {
				p := &draw.Picture{Tree: tree}
				complete(ctx, t, p)
				return moreCame{p}
			}
		},
		doubt: func(action v1beta1.Action) tea.Cmd {
			return func() tea.Msg {
				plan, err := t.forecast(ctx, v1beta1.PlanSpec{After: &v1beta1.AfterVerb{Verb: action.Verb, Full: draw.IsFull(&action)}})
				if err != nil {
					return nil // the plan is a courtesy
				}
				return doubtCame{&plan.it}
			}
		},
		send: func(action v1beta1.Action, d *dialog) tea.Cmd {
			quiet := *a
			quiet.ErrOut = io.Discard
			decide := &decision{app: &quiet, reason: d.value("reason"), override: d.has("override")}
			step := d.value("step")
			return func() tea.Msg {
				if step != "" {
					if err := decide.parseStep(step); err != nil {
						return wasSent{action.Verb, err}
					}
				}
				_, err := decide.send(ctx, t, &action)
				return wasSent{action.Verb, err}
			}
		},
	}
}
