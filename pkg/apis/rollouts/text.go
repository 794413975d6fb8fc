// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"
)

// How long text of others may be that is kept, in characters.
const (
	MaxReason    = 1024
	MaxRequestID = 63
	// MaxUser fits the name of every service account.
	MaxUser      = 512
	MaxUserAgent = 256
	// MaxMessage is about what Weir itself says, which may name others.
	MaxMessage = 4096
)

// Hidden is the first character of the text that a reader does not see, or that
// changes what the reader sees of the others: a control character, a break of
// lines, a mark of direction, an invisible one, one that no script has, a mark on too
// many others. The two joiners and the selectors of emoji stay, since scripts and emoji
// are written with them. A text of nothing but blanks is hidden.
func Hidden(text string) (rune, bool) {
	if text != "" && blank(text) {
		r, _ := utf8.DecodeRuneInString(text)
		return r, true
	}
	hides := hider()
	for i, r := range text {
		if hides(r) || r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)) {
			return r, true
		}
	}
	return 0, false
}

// maxMarks is how many marks may be on one letter.
const maxMarks = 8

// hider judges the characters of one text in their order.
func hider() func(rune) bool {
	marks := 0
	return func(r rune) bool {
		if joins(r) || unicode.Is(unicode.M, r) {
			marks++
		} else {
			marks = 0
		}
		return hidden(r) || marks > maxMarks
	}
}

// joins is of what is not seen itself, and has a part in how its neighbours look.
func joins(r rune) bool {
	const nonJoiner, joiner, asText, asEmoji = '\u200c', '\u200d', '\ufe0e', '\ufe0f'
	return r == nonJoiner || r == joiner || r == asText || r == asEmoji
}

func hidden(r rune) bool {
	const emptyBraille = '\u2800'
	switch {
	case r >= ' ' && r <= '~' || joins(r):
		return false
	case unicode.In(r, unicode.C, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
		return true
	default: // what is of no category is unassigned
		return r == emptyBraille || !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z)
	}
}

func blank(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return !unicode.IsSpace(r) && !joins(r) }) < 0
}

// Clean is the text as it may be recorded: what is hidden shows as a replacement
// character, so that two names do not become one, and what is too long is cut.
func Clean(text string, most int) string {
	hides, empty := hider(), blank(text)
	text = strings.Map(func(r rune) rune {
		if hides(r) || empty {
			return utf8.RuneError
		}
		return r // and the same for a byte that is no character
	}, text)
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

// Clean makes what the status says fit to be read. What is fit stays as it is.
func (s *RolloutStatus) Clean() {
	s.Message = Clean(s.Message, MaxMessage)
	for _, p := range []*Progress{s.Canary, s.BlueGreen} {
		if p != nil {
			p.Message = Clean(p.Message, MaxMessage)
		}
	}
	for i := range s.Conditions {
		c := &s.Conditions[i]
		c.Type = ConditionType(Clean(string(c.Type), MaxMessage))
		c.Reason, c.Message = Clean(c.Reason, MaxMessage), Clean(c.Message, MaxMessage)
	}
}

// Size is about how many bytes the decision takes in storage.
func (d *Decision) Size() int {
	encoded, err := json.Marshal(d)
	if err != nil {
		return 0 // it has texts, numbers and a time
	}
	return len(encoded)
}
