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
	"github.com/weir-rollouts/weir/pkg/glossary"
)

// These are the messages of the live view, other than those of the terminal.
type (
	treeMessage    struct{ tree *v1beta1.RolloutTree }
	pictureMessage struct{ picture *draw.Picture }
	lostMessage    struct{ err error }
	tickMessage    time.Time
	doubtsMessage  struct{ plan *v1beta1.RolloutPlan }
	sentMessage    struct {
		verb string
		err  error
	}
)

// liveView is the model of the live view. Update and View have no side effects; commands have.
type liveView struct {
	effects
	screen draw.Screen
	height int
	// top is the index of the first visible line.
	top     int
	picture draw.Picture
	// status describes the last event, and lost why the server does not answer.
	status, lostReason string
	// help reports whether all keys are shown.
	help   bool
	dialog *dialog
}

// effects are the commands that send requests to the server.
type effects struct {
	more  func(*v1beta1.RolloutTree) tea.Cmd
	send  func(v1beta1.Action, *dialog) tea.Cmd
	doubt func(v1beta1.Action) tea.Cmd
}

// keyForAction returns the key of an action with the given index among the possible actions. An action that the
// glossary does not have gets its number.
func keyForAction(a *v1beta1.Action, at int) string {
	known, _ := glossary.FindAction(draw.ActionName(a))
	return cmp.Or(known.Key, strconv.Itoa(at+1))
}

// possibleActions returns the actions that have a key.
func (m *liveView) possibleActions() []v1beta1.Action {
	if m.picture.Tree == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(m.picture.Tree.Why.Actions), func(a v1beta1.Action) bool { return !a.Possible || !a.Allowed })
}

func tick() tea.Cmd {
	return tea.Tick(time.Second, func(t time.Time) tea.Msg { return tickMessage(t) })
}

// Init implements tea.Model.
func (m *liveView) Init() tea.Cmd { return tick() }

// Update implements tea.Model.
func (m *liveView) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch v := message.(type) {
	case tea.WindowSizeMsg:
		m.screen.Width, m.height = v.Width, v.Height
	case tickMessage:
		m.screen.Now = time.Time(v).In(m.screen.Now.Location())
		return m, tick()
	case tea.KeyPressMsg:
		return m, m.handleKey(v)
	case treeMessage:
		return m, m.handleTree(v.tree)
	default:
		m.handleResponse(message)
	}
	return m, nil
}

// handleResponse processes responses of the server, and pasted text.
func (m *liveView) handleResponse(message tea.Msg) {
	switch v := message.(type) {
	case pictureMessage:
		m.picture.Plan, m.picture.Release = v.picture.Plan, v.picture.Release
	case lostMessage:
		m.lostReason = errorText(v.err)
	case sentMessage:
		m.status = v.verb + " accepted"
		if v.err != nil {
			m.status = v.verb + ": " + errorText(v.err)
		}
	case doubtsMessage:
		if m.dialog != nil && draw.HasErrors(v.plan) {
			m.dialog.doubts = v.plan
		}
	case tea.PasteMsg:
		if m.dialog != nil {
			m.dialog.enterText(v.Content)
		}
	}
}

// handleTree processes a new state. It closes the dialog if its action is no longer possible.
func (m *liveView) handleTree(t *v1beta1.RolloutTree) tea.Cmd {
	m.picture.Tree, m.lostReason = t, ""
	m.picture.Sample()
	if d := m.dialog; d != nil && !slices.ContainsFunc(m.possibleActions(), d.isAbout) {
		m.dialog, m.status = nil, "the release has moved on: "+t.Why.Summary
	}
	return m.more(t)
}

func (m *liveView) handleKey(k tea.KeyPressMsg) tea.Cmd {
	switch {
	case k.String() == "ctrl+c":
		return tea.Quit
	case k.String() == "ctrl+z":
		return tea.Suspend
	case m.dialog != nil:
		return m.handleDialogKey(k)
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
		return m.openDialog(k.String())
	}
	return nil
}

// openDialog opens the dialog of the action with the pressed key.
func (m *liveView) openDialog(pressed string) tea.Cmd {
	for at, a := range m.possibleActions() {
		if keyForAction(&a, at) == pressed {
			m.dialog, m.status = newDialog(a), ""
			return m.doubt(a)
		}
	}
	return nil
}

// handleDialogKey processes a key in the dialog.
func (m *liveView) handleDialogKey(k tea.KeyPressMsg) tea.Cmd {
	d := m.dialog
	switch k.String() {
	case "esc":
		m.dialog, m.status = nil, "nothing was changed"
	case "backspace":
		d.eraseCharacter()
	case "enter":
		if !d.nextField() {
			return nil
		}
		m.dialog, m.status = nil, "sending "+d.action.Verb+"…"
		return m.send(d.action, d)
	default:
		d.enterText(k.Text)
	}
	return nil
}

// View implements tea.Model.
func (m *liveView) View() tea.View {
	v := tea.NewView(m.drawView())
	v.AltScreen = true
	return v
}

// drawView draws the release, and below it the dialog or the keys.
func (m *liveView) drawView() string {
	above := "…"
	if m.picture.Tree != nil {
		above = m.screen.Finish(m.picture.Draw(m.screen))
	}
	below := m.describeKeys()
	if m.dialog != nil {
		below = m.dialog.drawDialog(m.screen)
	}
	for _, text := range []string{m.status, m.lostReason} {
		if text != "" {
			below = m.screen.Wrap(text, "  ") + "\n" + below
		}
	}
	if m.lostReason != "" {
		below = m.screen.Paint(draw.Red, "connection lost, reconnecting: ") + below
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

// describeKeys describes the keys that have an effect now.
func (m *liveView) describeKeys() string {
	var parts []string
	for at, a := range m.possibleActions() {
		name := draw.ActionName(&a)
		if m.help {
			name += ": " + draw.Effect(&a) + "\n"
		}
		parts = append(parts, m.screen.Paint(draw.Bold, keyForAction(&a, at))+" "+name)
	}
	parts = append(parts, m.screen.Paint(draw.Bold, "t")+" pods", m.screen.Paint(draw.Bold, "?")+" all keys", m.screen.Paint(draw.Bold, "q")+" quit")
	if m.help {
		parts = append(parts, "arrows, page up, page down, home: scroll", "ctrl+z: suspend")
	}
	return m.screen.Wrap(strings.ReplaceAll(strings.Join(parts, "  "), "\n  ", "\n"), "")
}

// watchLive runs the live view. Without a terminal it prints a line for each change.
func (a *app) watchLive(ctx context.Context, t *target, wide bool) error {
	if !a.canAsk() || os.Getenv("TERM") == "dumb" {
		return a.printChanges(ctx, t)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	m := &liveView{effects: a.newEffects(ctx, t), screen: a.screen(), picture: draw.Picture{Wide: wide}}
	program := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(a.In), tea.WithOutput(a.Out), tea.WithoutSignalHandler())
	ended := make(chan error, 1)
	go func() {
		ended <- a.followTree(ctx, t, func(tree *v1beta1.RolloutTree) { program.Send(treeMessage{tree}) }, func(err error) { program.Send(lostMessage{err}) })
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

// newEffects returns the commands that send requests to the server. Plan and history are requested once for
// each state.
func (a *app) newEffects(ctx context.Context, t *target) effects {
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
				completePicture(ctx, t, p)
				return pictureMessage{p}
			}
		},
		doubt: func(action v1beta1.Action) tea.Cmd {
			return func() tea.Msg {
				plan, err := t.requestPlan(ctx, v1beta1.PlanSpec{After: &v1beta1.AfterVerb{Verb: action.Verb, Full: draw.IsFull(&action)}})
				if err != nil {
					return nil // the dialog works without the plan
				}
				return doubtsMessage{&plan.value}
			}
		},
		send: func(action v1beta1.Action, d *dialog) tea.Cmd {
			quiet := *a
			quiet.ErrOut = io.Discard
			decide := &verbCommand{app: &quiet, reason: d.fieldValue("reason"), override: d.needsField("override")}
			step := d.fieldValue("step")
			return func() tea.Msg {
				if step != "" {
					if err := decide.parseStep(step); err != nil {
						return sentMessage{action.Verb, err}
					}
				}
				_, err := decide.sendVerb(ctx, t, &action)
				return sentMessage{action.Verb, err}
			}
		},
	}
}
