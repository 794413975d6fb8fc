// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import lua "github.com/yuin/gopher-lua"

// charge has each call of a library's functions counted: by the values that it is
// given and returns, and by the length of its texts from an argument on. What comes
// before is counted by what is done with it.
func charge(b *budget, library *lua.LTable, texts int) {
	library.ForEach(func(name, v lua.LValue) {
		fn, ok := v.(*lua.LFunction)
		if !ok {
			return
		}
		run, from := fn.GFunction, texts
		if name == lua.LString(callConcat) {
			from = maxRegisters // they are counted as a text that is made
		}
		fn.GFunction = func(l *lua.LState) int {
			given := l.GetTop()
			must(l, b.step(stepsOfInstruction+given/valuesOfStep))
			for i := from; i <= given; i++ {
				must(l, b.read(l.Get(i)))
			}
			n := run(l)
			must(l, b.step(n/valuesOfStep))
			return n
		}
	})
}

// costly has a function counted by a number of steps more.
func costly(b *budget, library *lua.LTable, name string, steps int) {
	fn, ok := library.RawGetString(name).(*lua.LFunction)
	if !ok {
		panic("no function " + name)
	}
	run := fn.GFunction
	fn.GFunction = func(l *lua.LState) int {
		must(l, b.step(steps))
		return run(l)
	}
}

// read counts a value that may be a text.
func (b *budget) read(v lua.LValue) error {
	if s, ok := v.(lua.LString); ok {
		return b.look(len(s))
	}
	return nil
}

// instructions are the calls that a script was given.
func instructions(b *budget) map[string]lua.LGFunction {
	same := func(l *lua.LState) int { return l.GetTop() } // what it is given is counted
	return map[string]lua.LGFunction{
		callConcat: func(l *lua.LState) int { return concat(l, b) },
		callText:   same,
		callAll:    same,
		callTable: func(l *lua.LState) int {
			must(l, b.take(sizeOfTable+max(places(l.CheckTable(1)), l.CheckInt(2))*sizeOfValue))
			l.SetTop(1)
			return 1
		},
		callRoom: func(l *lua.LState) int {
			must(l, b.room(&lua.LTable{}, l.Get(1)))
			return 1
		},
		callPlace: func(l *lua.LState) int {
			if t, ok := l.Get(1).(*lua.LTable); ok {
				must(l, b.room(t, l.Get(2)))
			}
			b.place = l.Get(2)
			l.SetTop(1)
			return 1
		},
		callKey: func(l *lua.LState) int {
			l.Push(b.place)
			return 1
		},
		callLength: func(l *lua.LState) int {
			if t, ok := l.Get(1).(*lua.LTable); ok {
				must(l, b.walk(places(t)-t.Len()))
			}
			return 1
		},
		callMod: func(l *lua.LState) int {
			must(l, b.step(stepsOfMod))
			return 1
		},
		callMade: func(l *lua.LState) int {
			n := len(l.CheckFunction(1).Upvalues)
			b.captured = min(b.captured+n, maxRegisters)
			must(l, b.take((n+1)*sizeOfFunction))
			must(l, b.step(n*b.captured/capturesOfStep))
			return 1
		},
	}
}
