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
// lines, a mark of direction, an invisible one. The two joiners stay, since
// scripts and emoji are written with them.
func Hidden(text string) (rune, bool) {
	for i, r := range text {
		if hidden(r) || r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)) {
			return r, true
		}
	}
	return 0, false
}

func hidden(r rune) bool {
	const nonJoiner, joiner = '\u200c', '\u200d'
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co) && r != nonJoiner && r != joiner
}

// Clean is the text as it may be recorded: what is hidden shows as a replacement
// character, so that two names do not become one, and what is too long is cut.
func Clean(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if hidden(r) {
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
