// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
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
	l.SetFuncs(global, instructions(b))
	l.SetFuncs(module(global, lua.TabLibName), tables(l, b))
	l.SetFuncs(module(global, lua.StringLibName), texts(l, b))
	without(l, global, "", "collectgarbage", "dofile", "getfenv", "load", "loadfile", "loadstring", "module", "newproxy", "require", "setfenv")
	without(l, module(global, lua.MathLibName), "math.", "random", "randomseed")
	without(l, module(global, lua.StringLibName), "string.", "dump")
	global.RawSetString("_printregs", lua.LNil)
	for _, name := range []string{"os", "io", "debug", "package", "coroutine", "channel"} {
		global.RawSetString(name, absent(l, name))
	}
	costly(b, module(global, lua.MathLibName), "fmod", stepsOfMod)
	costly(b, module(global, lua.MathLibName), "mod", stepsOfMod)
	charge(b, global, 1)
	charge(b, module(global, lua.TabLibName), 1)
	charge(b, module(global, lua.MathLibName), 1)
	charge(b, module(global, lua.StringLibName), 2)
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
// or tell an address.
func counted(l *lua.LState, b *budget) map[string]lua.LGFunction {
	pcall, next := l.G.Global.RawGetString("pcall"), l.NewFunction(func(l *lua.LState) int { return next(l, b) })
	return map[string]lua.LGFunction{
		"rawset": func(l *lua.LState) int {
			must(l, b.room(l.CheckTable(1), l.CheckAny(2)))
			l.RawSet(l.CheckTable(1), l.CheckAny(2), l.CheckAny(3))
			return 0
		},
		"tostring": func(l *lua.LState) int {
			text := shown(l, l.CheckAny(1))
			must(l, b.text(len(text)))
			l.Push(lua.LString(text))
			return 1
		},
		"next": next.GFunction,
		"pairs": func(l *lua.LState) int {
			t := l.CheckTable(1)
			l.Push(next)
			l.Push(t)
			l.Push(lua.LNil)
			return 3
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

// concat joins texts and numbers.
func concat(l *lua.LState, b *budget) int {
	n, size := l.GetTop(), 0
	for i := 1; i <= n; i++ {
		if !lua.LVCanConvToString(l.Get(i)) {
			return concatOther(l, b, n)
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
func concatOther(l *lua.LState, b *budget, n int) int {
	sum := l.Get(n)
	for i := n - 1; i >= 1; i-- {
		left := l.Get(i)
		if lua.LVCanConvToString(left) && lua.LVCanConvToString(sum) {
			l.Push(l.NewFunction(func(l *lua.LState) int { return concat(l, b) }))
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
