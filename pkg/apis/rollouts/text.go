// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of recorded text, in characters.
const (
	MaxReason    = 1024
	MaxRequestID = 63
	// MaxUser is enough for the name of any service account.
	MaxUser      = 512
	MaxUserAgent = 256
	// maxMessage limits messages of Weir, which may contain names that others chose.
	maxMessage = 4096
)

// Hidden returns the first character that a reader cannot see, or that changes how
// other characters look: control characters, line breaks, direction marks, invisible
// and unassigned characters, and too many marks on one letter. Joiners and emoji
// selectors are allowed, because scripts and emoji need them. A text that consists of
// blanks is hidden.
func Hidden(text string) (rune, bool) {
	if text != "" && isBlank(text) {
		r, _ := utf8.DecodeRuneInString(text)
		return r, true
	}
	isHidden := newHiddenCheck()
	for i, r := range text {
		if isHidden(r) || r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)) {
			return r, true
		}
	}
	return 0, false
}

// maxMarks is how many marks may be on one letter.
const maxMarks = 8

// newHiddenCheck returns a function that reports whether the next character of one text
// is hidden.
func newHiddenCheck() func(rune) bool {
	marks := 0
	return func(r rune) bool {
		if isJoiner(r) || unicode.Is(unicode.M, r) {
			marks++
		} else {
			marks = 0
		}
		return isHiddenRune(r) || marks > maxMarks
	}
}

// isJoiner reports whether the character is invisible and only changes how its neighbours look.
func isJoiner(r rune) bool {
	const nonJoiner, joiner, asText, asEmoji = '\u200c', '\u200d', '\ufe0e', '\ufe0f'
	return r == nonJoiner || r == joiner || r == asText || r == asEmoji
}

func isHiddenRune(r rune) bool {
	const emptyBraille = '\u2800'
	switch {
	case r >= ' ' && r <= '~' || isJoiner(r):
		return false
	case unicode.In(r, unicode.C, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
		return true
	default: // a character without a category is unassigned
		return r == emptyBraille || !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z)
	}
}

func isBlank(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return !unicode.IsSpace(r) && !isJoiner(r) }) < 0
}

// Clean returns the text as it may be recorded: a replacement character takes the place
// of each hidden one, so that different names stay different, and long text is cut.
func Clean(text string, most int) string {
	text, isCut := cut(text, most)
	isHidden, empty := newHiddenCheck(), isBlank(text)
	text = strings.Map(func(r rune) rune {
		if isHidden(r) || empty {
			return utf8.RuneError
		}
		return r // an invalid byte is utf8.RuneError already
	}, text)
	if isCut {
		text += "…"
	}
	return text
}

// cut shortens a text to at most most-1 characters if it has more than most, and reports whether it did. The caller adds
// one character as a mark. cut does not read the rest of a long text.
func cut(text string, most int) (head string, isCut bool) {
	n, end := 0, 0
	for i := range text {
		if n++; n == most {
			end = i
		}
		if n > most {
			return text[:end], true
		}
	}
	return text, false
}

// Clean cleans the messages and the conditions of the status.
func (s *RolloutStatus) Clean() {
	s.Message = Clean(s.Message, maxMessage)
	for _, p := range []*Progress{s.Canary, s.BlueGreen} {
		if p != nil {
			p.Message = Clean(p.Message, maxMessage)
		}
	}
	for i := range s.Conditions {
		c := &s.Conditions[i]
		c.Type = ConditionType(Clean(string(c.Type), maxMessage))
		c.Reason, c.Message = Clean(c.Reason, maxMessage), Clean(c.Message, maxMessage)
	}
}

// decisionFrame is the size of the field names, the numbers and the time of an encoded decision.
const decisionFrame = 192

// overriddenFrame is the size of the field names and the number of an encoded overridden check.
const overriddenFrame = 48

// Size estimates how many bytes the decision takes in storage. Text has no hidden
// characters by then, and JSON writes some others longer.
func (d *Decision) Size() int {
	size := decisionFrame
	for _, text := range [...]string{
		string(d.Verb), d.User, d.UID, d.UserAgent, d.Revision, d.UpdateTemplate, d.Reason, d.RequestID, string(d.Via), string(d.Outcome),
	} {
		size += encodedSize(text)
	}
	if d.ToStep != 0 {
		size += len(`,"toStep":100`)
	}
	if d.Full {
		size += len(`,"full":true`)
	}
	for _, c := range d.OverriddenChecks {
		size += overriddenFrame + len(c.Name) + len(c.Result)
	}
	return size
}

// encodedSize returns the length of a text in JSON, in which some characters are escaped.
func encodedSize(text string) int {
	size := len(text)
	for i := range len(text) {
		switch text[i] {
		case '<', '>', '&':
			size += len(`\u003c`) - 1
		case '"', '\\':
			size++
		}
	}
	return size
}
