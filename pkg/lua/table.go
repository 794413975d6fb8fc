// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"math"
	"math/bits"
	"reflect"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// The library does not tell how many entries a table has room for, nor how many
// names it remembers that are gone. It walks over both.
var arrayOf, keysOf, namesOf, othersOf = field("array"), field("keys"), field("strdict"), field("dict")

func field(name string) int {
	f, ok := reflect.TypeFor[lua.LTable]().FieldByName(name)
	if !ok {
		panic("a table has no " + name)
	}
	return f.Index[0]
}

// places is how many entries a table has room for as a list.
func places(t *lua.LTable) int { return reflect.ValueOf(t).Elem().Field(arrayOf).Len() }

// gone is how many names a table remembers that it has no more.
func gone(t *lua.LTable) int {
	v := reflect.ValueOf(t).Elem()
	return v.Field(keysOf).Len() - v.Field(namesOf).Len() - v.Field(othersOf).Len()
}

// walk counts entries that are walked over.
func (b *budget) walk(n int) error { return b.step(n / entriesOfStep) }

// room counts the room that an entry needs: a table has some for every number
// before it.
func (b *budget) room(t *lua.LTable, k lua.LValue) error {
	n, ok := k.(lua.LNumber)
	if !ok || float64(n) != math.Trunc(float64(n)) || n < 1 || n >= maxList {
		return nil
	}
	if more := int(n) - places(t); more > 0 {
		return b.take(more * sizeOfValue)
	}
	return nil
}

// sorting counts the comparisons of a table's entries.
func (b *budget) sorting(t *lua.LTable) error {
	n := places(t)
	work := n
	for i := 1; i <= n; i++ {
		if s, ok := t.RawGetInt(i).(lua.LString); ok {
			work += len(s) / bytesOfStep
		}
	}
	return b.step(work * bits.Len(uint(n)))
}

// next is the entry after another.
func next(l *lua.LState, b *budget) int {
	t := l.CheckTable(1)
	after := l.Get(2)
	k, v := t.Next(after)
	must(l, b.walk(passed(t, after, k)))
	if l.Push(k); k == lua.LNil {
		return 1
	}
	l.Push(v)
	return 2
}

// passed is how many entries there may be between two, which are gone.
func passed(t *lua.LTable, from, to lua.LValue) int {
	n, inList := from.(lua.LNumber)
	if from != lua.LNil && (!inList || int(n) > places(t)) {
		return gone(t)
	}
	if m, ok := to.(lua.LNumber); ok && int(m) <= places(t) {
		return int(m - n)
	}
	return places(t) - int(n) + gone(t)
}

// measured counts how far the end of a table is searched for.
func measured(l *lua.LState, b *budget, fn lua.LValue) int {
	t := l.CheckTable(1)
	must(l, b.walk(places(t)-t.Len()))
	return through(l, fn)
}

// tables is what replaces functions of the library of that name.
func tables(l *lua.LState, b *budget) map[string]lua.LGFunction {
	library := module(l.G.Global, lua.TabLibName)
	sort, remove, getn, maxn := library.RawGetString("sort"), library.RawGetString("remove"), library.RawGetString("getn"), library.RawGetString("maxn")
	return map[string]lua.LGFunction{
		"concat": func(l *lua.LState) int { return tableConcat(l, b) },
		"insert": func(l *lua.LState) int {
			t := l.CheckTable(1)
			switch l.GetTop() {
			case 2:
				must(l, b.take(sizeOfValue))
				must(l, b.walk(places(t)-t.Len()))
				t.Append(l.Get(2))
			case 3:
				must(l, b.take(sizeOfValue))
				must(l, b.room(t, l.Get(2)))
				must(l, b.walk(places(t)))
				t.Insert(l.CheckInt(2), l.Get(3))
			default:
				l.RaiseError("table.insert takes a table, a position and a value, or a table and a value")
			}
			return 0
		},
		"sort": func(l *lua.LState) int {
			must(l, b.sorting(l.CheckTable(1)))
			return through(l, sort)
		},
		"remove": func(l *lua.LState) int {
			if l.GetTop() > 1 {
				must(l, b.walk(places(l.CheckTable(1))))
			}
			return through(l, remove)
		},
		"getn": func(l *lua.LState) int { return measured(l, b, getn) },
		"maxn": func(l *lua.LState) int { return measured(l, b, maxn) },
	}
}

func tableConcat(l *lua.LState, b *budget) int {
	t, sep := l.CheckTable(1), l.OptString(2, "")
	var s strings.Builder
	must(l, b.walk(places(t)-t.Len()))
	from, to := l.OptInt(3, 1), l.OptInt(4, t.Len())
	for i := from; i <= to; i++ {
		v := t.RawGetInt(i)
		if !lua.LVCanConvToString(v) {
			l.RaiseError("entry %d of the table is a %s and cannot be joined", i, v.Type())
		}
		part := lua.LVAsString(v)
		must(l, b.step(1))
		must(l, b.text(len(part)+len(sep)))
		if s.Len()+len(part)+len(sep) > maxText {
			must(l, b.text(maxText+1))
		}
		s.WriteString(part)
		if i < to {
			s.WriteString(sep)
		}
	}
	l.Push(lua.LString(s.String()))
	return 1
}
