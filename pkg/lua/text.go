// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"fmt"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// texts is what replaces functions of the library string.
func texts(l *lua.LState, b *budget) map[string]lua.LGFunction {
	all := map[string]lua.LGFunction{
		"find":   func(l *lua.LState) int { return find(l, b, true) },
		"match":  func(l *lua.LState) int { return find(l, b, false) },
		"gmatch": func(l *lua.LState) int { return gmatch(l, b) },
		"gfind":  func(l *lua.LState) int { return gmatch(l, b) },
		"gsub":   func(l *lua.LState) int { return gsub(l, b) },
		"format": func(l *lua.LState) int { return format(l, b) },
		"rep": func(l *lua.LState) int {
			s, n := l.CheckString(1), times(l, 2)
			must(l, b.text(len(s)*n))
			l.Push(lua.LString(strings.Repeat(s, n)))
			return 1
		},
		"char": func(l *lua.LState) int {
			text := make([]byte, l.GetTop())
			for i := range text {
				text[i] = byte(l.CheckInt(i + 1))
			}
			must(l, b.text(len(text)))
			l.Push(lua.LString(text))
			return 1
		},
	}
	library := module(l.G.Global, lua.StringLibName)
	bytes := library.RawGetString("byte")
	all["byte"] = func(l *lua.LState) int {
		n := through(l, bytes)
		must(l, b.step(n)) // each is made
		return n
	}
	for _, name := range []string{"lower", "upper", "reverse"} {
		fn := library.RawGetString(name)
		all[name] = func(l *lua.LState) int {
			must(l, b.text(len(l.CheckString(1))))
			return through(l, fn)
		}
	}
	return all
}

// times is how often something is to be done: a number that is none, or less than
// nothing, is 0, and more than fits into a text is one more than that. The
// conversion alone would make a negative number of some.
func times(l *lua.LState, arg int) int {
	n := l.CheckNumber(arg)
	if !(n > 0) {
		return 0
	}
	return int(min(n, maxText+1))
}

// from is where a search begins, counted from 0; past the end if nowhere.
func from(l *lua.LState, arg int, s string) int {
	at := l.OptInt(arg, 1)
	switch {
	case at > 0:
		return min(at-1, len(s)+1)
	case at < 0:
		return max(len(s)+at, 0)
	default:
		return 0
	}
}

// find returns where a pattern is found and what it captures; as match, what is
// found there.
func find(l *lua.LState, b *budget, where bool) int {
	s, pat := l.CheckString(1), l.CheckString(2)
	at := from(l, 3, s)
	if at > len(s) {
		l.Push(lua.LNil)
		return 1
	}
	if where && (l.ToBool(4) || plain(pat)) {
		must(l, b.look(len(s)-at))
		start := strings.Index(s[at:], pat)
		if start < 0 {
			l.Push(lua.LNil)
			return 1
		}
		l.Push(lua.LNumber(at + start + 1))
		l.Push(lua.LNumber(at + start + len(pat)))
		return 2
	}
	m := &pattern{l: l, b: b, src: s, pat: pat}
	start, end := m.find(at)
	if start < 0 {
		l.Push(lua.LNil)
		return 1
	}
	if !where {
		return m.push(start, end)
	}
	l.Push(lua.LNumber(start + 1))
	l.Push(lua.LNumber(end))
	if len(m.captures) == 0 {
		return 2
	}
	return 2 + m.push(start, end)
}

// push pushes what was captured, or else all that was found.
func (m *pattern) push(start, end int) int {
	if len(m.captures) == 0 {
		m.l.Push(lua.LString(m.src[start:end]))
		return 1
	}
	for i := range m.captures {
		m.l.Push(m.captured(i))
	}
	return len(m.captures)
}

func (m *pattern) captured(i int) lua.LValue {
	switch c := m.captures[i]; c.size {
	case capturePosition:
		return lua.LNumber(c.from + 1)
	case captureOpen:
		m.l.RaiseError("the pattern has a ( without )")
		return lua.LNil
	default:
		return lua.LString(m.src[c.from : c.from+c.size])
	}
}

func gmatch(l *lua.LState, b *budget) int {
	m := &pattern{l: l, b: b, src: l.CheckString(1), pat: l.CheckString(2)}
	at := 0
	l.Push(l.NewFunction(func(l *lua.LState) int {
		m.l = l
		if at > len(m.src) || at > 0 && strings.HasPrefix(m.pat, "^") {
			return 0
		}
		start, end := m.find(at)
		if start < 0 {
			at = len(m.src) + 1
			return 0
		}
		if at = end; end == start {
			at++
		}
		return m.push(start, end)
	}))
	return 1
}

func gsub(l *lua.LState, b *budget) int {
	m := &pattern{l: l, b: b, src: l.CheckString(1), pat: l.CheckString(2)}
	l.CheckTypes(3, lua.LTString, lua.LTNumber, lua.LTTable, lua.LTFunction)
	with, most := l.Get(3), l.OptInt(4, len(m.src)+1)
	var s strings.Builder
	add := func(part string) {
		if s.Len()+len(part) > maxText {
			must(l, b.text(maxText+1))
		}
		s.WriteString(part)
	}
	at, n := 0, 0
	for n < most && at <= len(m.src) {
		start, end := m.find(at)
		if start < 0 {
			break
		}
		n++
		add(m.src[at:start])
		add(m.replacement(with, start, end))
		if at = end; end == start {
			if at < len(m.src) {
				add(m.src[at : at+1])
			}
			at++
		}
		if strings.HasPrefix(m.pat, "^") {
			break
		}
	}
	if at < len(m.src) {
		add(m.src[at:])
	}
	must(l, b.text(s.Len()))
	l.Push(lua.LString(s.String()))
	l.Push(lua.LNumber(n))
	return 2
}

// replacement is what replaces a part of the text.
func (m *pattern) replacement(with lua.LValue, start, end int) string {
	found := m.src[start:end]
	var v lua.LValue
	switch with := with.(type) {
	case *lua.LTable:
		m.push(start, end)
		key := m.l.Get(-max(len(m.captures), 1))
		m.l.Pop(max(len(m.captures), 1))
		v = m.l.GetTable(with, key)
	case *lua.LFunction:
		captures := m.captures
		m.l.Push(with)
		n := m.push(start, end)
		m.l.Call(n, 1)
		v, m.captures = m.l.Get(-1), captures
		m.l.Pop(1)
	default:
		return m.spelled(lua.LVAsString(with), found)
	}
	switch {
	case lua.LVIsFalse(v):
		return found
	case !lua.LVCanConvToString(v):
		m.l.RaiseError("a %s cannot replace a part of a text", v.Type())
	}
	return lua.LVAsString(v)
}

// spelled is a replacement with %1 and the like for what was captured.
func (m *pattern) spelled(with, found string) string {
	if !strings.Contains(with, "%") {
		return with
	}
	var s strings.Builder
	for i := 0; i < len(with); i++ {
		must(m.l, m.b.step(1))
		if s.Len() > maxText {
			must(m.l, m.b.text(s.Len()))
		}
		if with[i] != '%' || i+1 == len(with) {
			s.WriteByte(with[i])
			continue
		}
		i++
		s.WriteString(m.reference(with[i], found))
	}
	return s.String()
}

// reference is what a percent sign and a character stand for in a replacement.
func (m *pattern) reference(c byte, found string) string {
	switch {
	case c == '%':
		return "%"
	case c == '0' || c == '1' && len(m.captures) == 0:
		return found
	case c < '1' || c > '9':
		return string([]byte{'%', c}) // a byte, which need not be a character
	case int(c-'1') >= len(m.captures):
		m.l.RaiseError("the replacement names capture %%%c, which the pattern does not have", c)
	}
	return lua.LVAsString(m.captured(int(c - '1')))
}

// format spells its arguments as its first says.
func format(l *lua.LState, b *budget) int {
	f := l.CheckString(1)
	var s strings.Builder
	arg := 1
	for i := 0; i < len(f); i++ {
		if s.Len() > maxText {
			must(l, b.text(s.Len()))
		}
		must(l, b.step(1))
		if f[i] != '%' {
			s.WriteByte(f[i])
			continue
		}
		if strings.HasPrefix(f[i+1:], "%") {
			s.WriteByte('%')
			i++
			continue
		}
		how := directive(f[i+1:])
		if how == "" {
			l.RaiseError("string.format does not know what follows %% in %q", f[i:min(len(f), i+8)])
		}
		i += len(how)
		arg++
		must(l, b.step(stepsOfFormat))
		piece := formatted(l, arg, how[:len(how)-1], how[len(how)-1])
		must(l, b.take(len(piece)))
		s.WriteString(piece)
	}
	must(l, b.text(s.Len()))
	l.Push(lua.LString(s.String()))
	return 1
}

// directive is the part of a format after a percent sign: flags, a width and a
// precision of two digits at most, and what to make of the argument.
func directive(f string) string {
	const digits = "0123456789"
	i := leading(f, "-+ #0", 5)
	i += leading(f[i:], digits, 2)
	if strings.HasPrefix(f[i:], ".") {
		i++
		i += leading(f[i:], digits, 2)
	}
	if i < len(f) && strings.IndexByte("cdiouxXeEfgGqs", f[i]) >= 0 {
		return f[:i+1]
	}
	return ""
}

// leading is how many of some characters a text begins with, up to most.
func leading(f, of string, most int) int {
	n := 0
	for n < min(len(f), most) && strings.IndexByte(of, f[n]) >= 0 {
		n++
	}
	return n
}

func formatted(l *lua.LState, arg int, flags string, verb byte) string {
	switch verb {
	case 'd', 'i', 'u':
		return fmt.Sprintf("%"+flags+"d", int64(l.CheckNumber(arg)))
	case 'o', 'x', 'X':
		return fmt.Sprintf("%"+flags+string(verb), int64(l.CheckNumber(arg)))
	case 'c':
		return fmt.Sprintf("%"+flags+"s", string([]byte{byte(l.CheckInt(arg))}))
	case 'q':
		quote := strings.NewReplacer(`"`, `\"`, `\`, `\\`, "\n", "\\\n", "\r", `\r`, "\x00", `\000`)
		return `"` + quote.Replace(l.CheckString(arg)) + `"`
	case 's':
		return fmt.Sprintf("%"+strings.NewReplacer("#", "", "+", "", " ", "").Replace(flags)+"s", shown(l, l.CheckAny(arg)))
	default:
		return fmt.Sprintf("%"+flags+string(verb), float64(l.CheckNumber(arg)))
	}
}
