// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"fmt"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// absent is what scripts do not have of these libraries: what reaches out, and what
// is another each time. A route comes from the object alone.
var absent = strings.Fields(`require module load loadstring loadfile dofile setfenv getfenv newproxy collectgarbage
	_printregs math.random math.randomseed string.dump`)

// open gives a state the libraries that scripts may use: base, table, string,
// math and json.
func open(l *lua.LState, b *budget, c *converter) {
	for _, lib := range []lua.LGFunction{lua.OpenBase, lua.OpenTable, lua.OpenMath, lua.OpenString} {
		l.Push(l.NewFunction(lib))
		l.Call(0, 0)
	}
	for _, name := range absent {
		set(l, name, lua.LNil)
	}
	l.SetGlobal("json", l.NewTable())
	for name, fn := range map[string]lua.LGFunction{
		"json.encode": c.encode,
		"json.decode": c.decode,
		"print":       func(*lua.LState) int { return 0 },
		"tostring":    shown,
	} {
		set(l, name, l.NewFunction(fn))
	}
	first(l, "rep", func(s string) error {
		size := float64(len(s)) * float64(l.CheckNumber(2))
		return b.text(int(min(max(size, 0), maxText+1)))
	})
	for _, name := range []string{"find", "match", "gmatch", "gsub"} {
		first(l, name, func(s string) error {
			if len(s) > maxSearched {
				return fmt.Errorf("a text of more than %d KiB cannot be searched", maxSearched>>10)
			}
			return nil
		})
	}
}

// first has a function of the library string look first at the text it is given.
// Nothing ends it once it runs.
func first(l *lua.LState, name string, look func(s string) error) {
	fn, _ := l.GetField(l.GetGlobal(lua.StringLibName), name).(*lua.LFunction)
	run := fn.GFunction
	fn.GFunction = func(l *lua.LState) int {
		must(l, look(l.CheckString(1)))
		return run(l)
	}
}

// set sets a name of a library, or one that is global.
func set(l *lua.LState, name string, to lua.LValue) {
	if library, key, ok := strings.Cut(name, "."); ok {
		l.SetField(l.GetGlobal(library), key, to)
		return
	}
	l.SetGlobal(name, to)
}

// shown is tostring. Where the library would tell an address, which is another
// each time, it tells the kind.
func shown(l *lua.LState) int {
	v := l.ToStringMeta(l.CheckAny(1))
	if kind := l.Get(1).Type(); (kind == lua.LTTable || kind == lua.LTFunction) && v == lua.LString(l.Get(1).String()) {
		v = lua.LString(kind.String())
	}
	l.Push(v)
	return 1
}

// must ends a script that has used up its budget.
func must(l *lua.LState, err error) {
	if err != nil {
		l.RaiseError("%s", err.Error())
	}
}
