// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// pattern is a search by a pattern of Lua. It is written anew, since that of
// the library may take longer than anybody waits: each repetition in a pattern
// is another power of the length of the text. This one counts.
type pattern struct {
	l        *lua.LState
	b        *budget
	src, pat string
	captures []capture
	depth    int
}

// capture is a part of the text that the pattern names by its place.
type capture struct{ from, size int }

const (
	captureOpen     = -1
	capturePosition = -2
	maxCaptures     = 32
)

// find looks for the pattern from a place on. The pattern may begin with an anchor.
func (m *pattern) find(from int) (start, end int) {
	pat := m.pat
	anchored := strings.HasPrefix(pat, "^")
	if anchored {
		m.pat = pat[1:]
	}
	defer func() { m.pat = pat }()
	for start = from; start <= len(m.src); start++ {
		m.captures = m.captures[:0]
		if end = m.match(start, 0); end >= 0 {
			return start, end
		}
		if anchored {
			break
		}
	}
	return -1, -1
}

// match returns where a match of the pattern from p on ends that begins at s.
func (m *pattern) match(s, p int) int {
	m.depth++
	defer func() { m.depth-- }()
	if m.depth > maxNesting {
		m.l.RaiseError("the pattern is too complex")
	}
	for p < len(m.pat) {
		must(m.l, m.b.step(1))
		if p == len(m.pat)-1 && m.pat[p] == '$' {
			if s == len(m.src) {
				return s
			}
			return -1
		}
		if end, ok := m.special(&s, &p); ok {
			return end
		} else if end == 0 {
			continue
		}
		if end, ok := m.single(&s, &p); ok {
			return end
		}
	}
	return s
}

// single is one class of characters, with what tells how often. It is the end of
// the match if ok; otherwise it has moved the places. It does not match the rest by a
// call of its own if it need not: a long pattern would be nested too deep.
func (m *pattern) single(s, p *int) (end int, ok bool) {
	next := m.classEnd(*p)
	if next < len(m.pat) && strings.IndexByte("*+-", m.pat[next]) >= 0 {
		return m.repeat(*s, *p, next), true
	}
	optional := next < len(m.pat) && m.pat[next] == '?'
	found := m.one(*s, *p, next)
	switch {
	case optional && found:
		// Without it only if the rest does not match with it.
		end, *p = m.match(*s+1, next+1), next+1
		return end, end >= 0
	case optional:
		*p = next + 1
		return 0, false
	case found:
		*s, *p = *s+1, next
		return 0, false
	default:
		return -1, true
	}
}

// special is what in a pattern is no class of characters. It is the end of the
// match if ok; otherwise 0 tells to go on from the places that it has moved, and
// -1 that there is nothing special.
func (m *pattern) special(s, p *int) (end int, ok bool) {
	switch m.pat[*p] {
	case '(':
		if strings.HasPrefix(m.pat[*p+1:], ")") {
			return m.open(*s, *p+2, capturePosition), true
		}
		return m.open(*s, *p+1, captureOpen), true
	case ')':
		return m.close(*s, *p+1), true
	case '%':
		if *p+1 == len(m.pat) {
			m.l.RaiseError("the pattern ends with %%")
		}
		return m.escape(s, p)
	default:
		return -1, false
	}
}

func (m *pattern) escape(s, p *int) (end int, ok bool) {
	at := -1
	switch c := m.pat[*p+1]; {
	case c == 'b':
		at, *p = m.balanced(*s, *p+2), *p+4
	case c == 'f':
		next := m.classEnd(*p + 2)
		if m.frontier(*s, *p+2, next) {
			at = *s
		}
		*p = next
	case c >= '0' && c <= '9':
		at, *p = m.again(*s, int(c-'1')), *p+2
	default:
		return -1, false
	}
	if at < 0 {
		return -1, true
	}
	*s = at
	return 0, false
}

func (m *pattern) open(s, p, kind int) int {
	if len(m.captures) == maxCaptures {
		m.l.RaiseError("the pattern has too many captures")
	}
	m.captures = append(m.captures, capture{s, kind})
	n := len(m.captures)
	end := m.match(s, p)
	if end < 0 {
		m.captures = m.captures[:n-1]
	}
	return end
}

func (m *pattern) close(s, p int) int {
	for i := len(m.captures) - 1; i >= 0; i-- {
		if c := &m.captures[i]; c.size == captureOpen {
			c.size = s - c.from
			end := m.match(s, p)
			if end < 0 {
				m.captures[i].size = captureOpen
			}
			return end
		}
	}
	m.l.RaiseError("the pattern closes a capture that is not open")
	return -1
}

// repeat matches as many as there are, or with - as few as will do.
func (m *pattern) repeat(s, p, next int) int {
	if m.pat[next] == '-' {
		for {
			if end := m.match(s, next+1); end >= 0 {
				return end
			}
			if !m.one(s, p, next) {
				return -1
			}
			s++
		}
	}
	n := 0
	for m.one(s+n, p, next) {
		n++
	}
	least := 0
	if m.pat[next] == '+' {
		least = 1
	}
	for ; n >= least; n-- {
		if end := m.match(s+n, next+1); end >= 0 {
			return end
		}
	}
	return -1
}

// balanced is %b: a text between two characters that are as often in it.
func (m *pattern) balanced(s, p int) int {
	if p+1 >= len(m.pat) {
		m.l.RaiseError("the pattern names not both characters of %%b")
	}
	if s >= len(m.src) || m.src[s] != m.pat[p] {
		return -1
	}
	open := 1
	for i := s + 1; i < len(m.src); i++ {
		must(m.l, m.b.step(1))
		switch m.src[i] {
		case m.pat[p+1]:
			if open--; open == 0 {
				return i + 1
			}
		case m.pat[p]:
			open++
		}
	}
	return -1
}

// frontier is %f: the set begins here.
func (m *pattern) frontier(s, p, next int) bool {
	if p >= len(m.pat) || m.pat[p] != '[' {
		m.l.RaiseError("the pattern names no set after %%f")
	}
	must(m.l, m.b.step(next-p))
	before, here := byte(0), byte(0)
	if s > 0 {
		before = m.src[s-1]
	}
	if s < len(m.src) {
		here = m.src[s]
	}
	return !inSet(before, m.pat[p+1:next-1]) && inSet(here, m.pat[p+1:next-1])
}

// again is %1: the same text as a capture before.
func (m *pattern) again(s, i int) int {
	if i < 0 || i >= len(m.captures) || m.captures[i].size < 0 {
		m.l.RaiseError("the pattern names a capture that it does not have")
	}
	c := m.captures[i]
	must(m.l, m.b.look(c.size))
	if !strings.HasPrefix(m.src[s:], m.src[c.from:c.from+c.size]) {
		return -1
	}
	return s + c.size
}

// classEnd is where the class of characters at p ends.
func (m *pattern) classEnd(p int) int {
	if p >= len(m.pat) {
		m.l.RaiseError("the pattern ends too early")
	}
	switch m.pat[p] {
	case '%':
		if p+1 == len(m.pat) {
			m.l.RaiseError("the pattern ends with %%")
		}
		return p + 2
	case '[':
		return m.setEnd(p + 1)
	default:
		return p + 1
	}
}

func (m *pattern) setEnd(p int) int {
	from := p
	if strings.HasPrefix(m.pat[p:], "^") {
		p++
	}
	for first := true; ; first = false {
		if p >= len(m.pat) {
			m.l.RaiseError("the pattern has a [ without ]")
		}
		switch {
		case m.pat[p] == ']' && !first:
			must(m.l, m.b.look(p-from))
			return p + 1
		case m.pat[p] == '%':
			p += 2
		default:
			p++
		}
	}
}

// one tells that the character at s is of the class from p to next.
func (m *pattern) one(s, p, next int) bool {
	if s >= len(m.src) {
		return false
	}
	must(m.l, m.b.step(1))
	switch c := m.src[s]; m.pat[p] {
	case '.':
		return true
	case '%':
		return inClass(c, m.pat[p+1])
	case '[':
		must(m.l, m.b.look(next-p))
		return inSet(c, m.pat[p+1:next-1])
	default:
		return c == m.pat[p]
	}
}

func inSet(c byte, set string) bool {
	if others, not := strings.CutPrefix(set, "^"); not {
		return !listed(c, others)
	}
	return listed(c, set)
}

// listed tells that a character is among the characters, ranges and classes of a set.
func listed(c byte, set string) bool {
	for i := 0; i < len(set); i++ {
		switch {
		case set[i] == '%' && i+1 < len(set):
			i++
			if inClass(c, set[i]) {
				return true
			}
		case i+2 < len(set) && set[i+1] == '-':
			if set[i] <= c && c <= set[i+2] {
				return true
			}
			i += 2
		case set[i] == c:
			return true
		}
	}
	return false
}

// classes are the characters of each class, as ranges.
var classes = map[byte]string{
	'a': "azAZ", 'c': "\x00\x1f\x7f\x7f", 'd': "09", 'l': "az", 'p': "!/:@[`{~", 's': "\t\r  ", 'u': "AZ", 'w': "azAZ09", 'x': "09afAF", 'z': "\x00\x00",
}

func inClass(c, class byte) bool {
	lower := class | 0x20
	ranges, ok := classes[lower]
	if !ok || (class < 'A' || class > 'Z') && (class < 'a' || class > 'z') {
		return c == class
	}
	in := false
	for i := 0; i < len(ranges); i += 2 {
		in = in || ranges[i] <= c && c <= ranges[i+1]
	}
	return in == (class == lower)
}

// plain tells that a pattern stands for itself.
func plain(pat string) bool { return !strings.ContainsAny(pat, "^$*+?.()[%-") }
