// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package draw

import (
	"strings"

	"github.com/weir-rollouts/weir/pkg/glossary"
)

// Terms draws the glossary.
func (s Screen) Terms() string {
	var states, actions, terms [][2]string
	for _, state := range glossary.States {
		states = append(states, [2]string{s.formatState(state.Name), state.Meaning})
	}
	for _, action := range glossary.Actions {
		actions = append(actions, [2]string{action.Name, action.Meaning + "."})
	}
	for _, term := range glossary.Terms {
		terms = append(terms, [2]string{term.Name, term.Meaning})
	}
	return s.drawTerms("States, those that need attention first:", states) + "\n" + s.drawTerms("Verbs:", actions) + "\n" +
		s.drawTerms("Terms:", terms)
}

// drawTerms draws words with their meanings.
func (s Screen) drawTerms(title string, terms [][2]string) string {
	var text strings.Builder
	text.WriteString(s.Paint(Bold, title) + "\n")
	for _, term := range terms {
		text.WriteString("  " + s.Wrap(s.Paint(Bold, term[0])+"  "+term[1], "    ") + "\n")
	}
	return text.String()
}
