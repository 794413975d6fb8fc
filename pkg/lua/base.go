// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"math"
	"math/bits"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// open gives a state the libraries that scripts may use: base, table, string,
// math and json.
func open(l *lua.LState, b *budget, c *converter) {
	for _, lib := range []struct {
		name string
		open lua.LGFunction
	}{{lua.BaseLibName, lua.OpenBase}, {lua.TabLibName, lua.OpenTable}, {lua.MathLibName, lua.OpenMath}, {lua.StringLibName, lua.OpenString}} {
		l.Push(l.NewFunction(lib.open))
		l.Push(lua.LString(lib.name))
		l.Call(1, 0)
	}
	global := l.G.Global
	global.RawSetString("print", l.NewFunction(func(*lua.LState) int { return 0 }))
	global.RawSetString("json", l.SetFuncs(l.NewTable(), jsonLibrary(c)))
	l.SetFuncs(global, counted(l, b))
	l.SetFuncs(module(global, lua.TabLibName), tables(l, b))
	l.SetFuncs(module(global, lua.StringLibName), texts(l, b))
	without(l, global, "", "collectgarbage", "dofile", "getfenv", "load", "loadfile", "loadstring", "module", "newproxy", "require", "setfenv")
	without(l, module(global, lua.MathLibName), "math.", "random", "randomseed")
	without(l, module(global, lua.StringLibName), "string.", "dump")
	global.RawSetString("_printregs", lua.LNil)
	for _, name := range []string{"os", "io", "debug", "package", "coroutine", "channel"} {
		global.RawSetString(name, absent(l, name))
	}
}

func module(global *lua.LTable, name string) *lua.LTable {
	m, ok := global.RawGetString(name).(*lua.LTable)
	if !ok {
		panic("no library " + name)
	}
	return m
}

// without replaces functions by their absence. A route is the same each time
// that it is computed, and comes from the object alone.
func without(l *lua.LState, from *lua.LTable, prefix string, names ...string) {
	for _, name := range names {
		from.RawSetString(name, l.NewFunction(func(l *lua.LState) int {
			l.RaiseError("%s%s is not available to scripts", prefix, name)
			return 0
		}))
	}
}

// absent is a library that says that it is not there.
func absent(l *lua.LState, name string) *lua.LTable {
	mt := l.NewTable()
	mt.RawSetString("__index", l.NewFunction(func(l *lua.LState) int {
		l.RaiseError("%s is not available to scripts", name)
		return 0
	}))
	t := l.NewTable()
	t.Metatable = mt
	return t
}

// counted are functions of the base library that could make much out of little,
// or tell an address, and the calls that a script was given.
func counted(l *lua.LState, b *budget) map[string]lua.LGFunction {
	pcall, next := l.G.Global.RawGetString("pcall"), l.G.Global.RawGetString("next")
	return map[string]lua.LGFunction{
		callConcat: func(l *lua.LState) int { return concat(l, b) },
		callTable: func(l *lua.LState) int {
			t := l.CheckTable(1)
			must(l, b.take(sizeOfTable+max(t.Len(), l.CheckInt(2))*sizeOfValue))
			l.SetTop(1)
			return 1
		},
		callKey: func(l *lua.LState) int {
			must(l, b.key(l.Get(1)))
			l.SetTop(1)
			return 1
		},
		"rawset": func(l *lua.LState) int {
			must(l, b.key(l.CheckAny(2)))
			l.RawSet(l.CheckTable(1), l.CheckAny(2), l.CheckAny(3))
			return 0
		},
		"tostring": func(l *lua.LState) int {
			text := shown(l, l.CheckAny(1))
			must(l, b.text(len(text)))
			l.Push(lua.LString(text))
			return 1
		},
		"next": func(l *lua.LState) int {
			// It may have to pass over many that are gone.
			must(l, b.step(10*stepsOfInstruction))
			return through(l, next)
		},
		"error": func(l *lua.LState) int {
			if s, ok := l.Get(1).(lua.LString); ok {
				must(l, b.text(len(s)))
			}
			l.Error(l.CheckAny(1), l.OptInt(2, 1))
			return 0
		},
		"pcall": func(l *lua.LState) int { return caught(l, b, pcall) },
		"xpcall": func(l *lua.LState) int {
			handler := l.CheckFunction(2)
			l.SetTop(1)
			if n := caught(l, b, pcall); l.Get(1) != lua.LFalse {
				return n
			}
			message := l.Get(-1)
			l.Push(lua.LFalse)
			l.Push(handler)
			l.Push(message)
			l.Call(1, 1)
			return 2
		},
	}
}

// through calls a function of the library with the arguments that were given.
func through(l *lua.LState, fn lua.LValue) int {
	n := l.GetTop()
	l.Insert(fn, 1)
	l.Call(n, lua.MultRet)
	return l.GetTop()
}

// caught counts an error that was caught: its message, which is a text that was
// made, and the way back through all calls.
func caught(l *lua.LState, b *budget, pcall lua.LValue) int {
	n := through(l, pcall)
	if l.Get(1) == lua.LFalse {
		must(l, b.step(stepsOfCatch))
		must(l, b.take(len(lua.LVAsString(l.Get(-1)))))
	}
	return n
}

// key counts the room that an entry needs: a table has some for every number
// before it.
func (b *budget) key(k lua.LValue) error {
	b.assigned++
	n, ok := k.(lua.LNumber)
	if !ok || float64(n) != math.Trunc(float64(n)) || n < 1 || n >= maxList || int(n) <= b.assigned {
		return nil
	}
	return b.take((int(n) - b.assigned) * sizeOfValue)
}

// concat joins texts and numbers.
func concat(l *lua.LState, b *budget) int {
	n, size := l.GetTop(), 0
	for i := 1; i <= n; i++ {
		if !lua.LVCanConvToString(l.Get(i)) {
			return concatOther(l, n)
		}
		size += len(lua.LVAsString(l.Get(i)))
	}
	must(l, b.text(size))
	var s strings.Builder
	for i := 1; i <= n; i++ {
		s.WriteString(lua.LVAsString(l.Get(i)))
	}
	l.Push(lua.LString(s.String()))
	return 1
}

// concatOther joins what says itself how, from the right.
func concatOther(l *lua.LState, n int) int {
	sum := l.Get(n)
	for i := n - 1; i >= 1; i-- {
		left := l.Get(i)
		if lua.LVCanConvToString(left) && lua.LVCanConvToString(sum) {
			l.Push(l.GetGlobal(callConcat))
		} else {
			op := l.GetMetaField(left, "__concat")
			if op == lua.LNil {
				op = l.GetMetaField(sum, "__concat")
			}
			if op == lua.LNil {
				l.RaiseError("a %s and a %s cannot be joined by ..", left.Type(), sum.Type())
			}
			l.Push(op)
		}
		l.Push(left)
		l.Push(sum)
		l.Call(2, 1)
		sum = l.Get(-1)
	}
	l.Push(sum)
	return 1
}

// shown is a value as text; where the library would tell an address, its kind.
func shown(l *lua.LState, v lua.LValue) string {
	if op := l.GetMetaField(v, "__tostring"); op != lua.LNil {
		l.Push(op)
		l.Push(v)
		l.Call(1, 1)
		v = l.Get(-1)
		l.Pop(1)
	}
	switch v.Type() {
	case lua.LTString, lua.LTNumber, lua.LTNil, lua.LTBool:
		return v.String()
	default:
		return v.Type().String()
	}
}

// tables is what replaces functions of the library of that name.
func tables(l *lua.LState, b *budget) map[string]lua.LGFunction {
	sort := module(l.G.Global, lua.TabLibName).RawGetString("sort")
	return map[string]lua.LGFunction{
		"concat": func(l *lua.LState) int { return tableConcat(l, b) },
		"insert": func(l *lua.LState) int {
			t := l.CheckTable(1)
			switch l.GetTop() {
			case 2:
				must(l, b.take(sizeOfValue))
				t.Append(l.Get(2))
			case 3:
				must(l, b.key(l.Get(2)))
				must(l, b.step(t.Len()/16))
				t.Insert(l.CheckInt(2), l.Get(3))
			default:
				l.RaiseError("table.insert takes a table, a position and a value, or a table and a value")
			}
			return 0
		},
		"sort": func(l *lua.LState) int {
			t := l.CheckTable(1)
			must(l, b.step(t.Len()*bits.Len(uint(t.Len()))))
			return through(l, sort)
		},
	}
}

func tableConcat(l *lua.LState, b *budget) int {
	t, sep := l.CheckTable(1), l.OptString(2, "")
	var s strings.Builder
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
