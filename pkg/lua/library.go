// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"encoding/json"
	"fmt"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// absent are the names of these libraries that scripts do not have: functions that
// reach out, and functions with another result each time. A route comes from the object
// alone.
var absent = strings.Fields(`require module load loadstring loadfile dofile setfenv getfenv newproxy collectgarbage
	_printregs math.random math.randomseed string.dump`)

// open gives a state the libraries that scripts may use: base, table, string,
// math and json.
func (c *converter) open(l *lua.LState) {
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
		"tostring":    toString,
	} {
		set(l, name, l.NewFunction(fn))
	}
	guard(l, "rep", func(s string) error {
		size := float64(len(s)) * float64(l.CheckNumber(2))
		return c.text(int(min(max(size, 0), maxText+1)))
	})
	for _, name := range []string{"find", "match", "gmatch", "gsub"} {
		guard(l, name, func(s string) error {
			if len(s) > maxSearched {
				return fmt.Errorf("a text of more than %d KiB cannot be searched", maxSearched>>10)
			}
			return nil
		})
	}
}

// guard makes a function of the library string check the text that it is given.
// Nothing ends the function once it runs.
func guard(l *lua.LState, name string, check func(s string) error) {
	fn, _ := l.GetField(l.GetGlobal(lua.StringLibName), name).(*lua.LFunction)
	run := fn.GFunction
	fn.GFunction = func(l *lua.LState) int {
		must(l, check(l.CheckString(1)))
		return run(l)
	}
}

// set sets a name of a library, or a global name.
func set(l *lua.LState, name string, to lua.LValue) {
	if library, key, ok := strings.Cut(name, "."); ok {
		l.SetField(l.GetGlobal(library), key, to)
		return
	}
	l.SetGlobal(name, to)
}

// toString is tostring. Where the library would return an address, which differs
// each time, it returns the kind.
func toString(l *lua.LState) int {
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

// encode is json.encode. The names of an object are in order. An empty table that
// never was a list or an object is null.
func (c *converter) encode(l *lua.LState) int {
	value, err := c.out(l.CheckAny(1), 0)
	if err != nil {
		return c.answer(l, lua.LNil, fmt.Errorf("value%w", err))
	}
	text, err := json.Marshal(value)
	return c.answer(l, lua.LString(text), err)
}

// decode is json.decode.
func (c *converter) decode(l *lua.LState) int {
	var v any
	if err := json.Unmarshal([]byte(l.CheckString(1)), &v); err != nil {
		return c.answer(l, lua.LNil, fmt.Errorf("reading JSON: %w", err))
	}
	value, err := c.in(v, 0)
	if err != nil {
		err = fmt.Errorf("value%w", err)
	}
	return c.answer(l, value, err)
}

// answer returns nil and a message for an error, so that a script may go on.
func (c *converter) answer(l *lua.LState, v lua.LValue, err error) int {
	must(l, c.over())
	if err != nil {
		l.Push(lua.LNil)
		l.Push(lua.LString(err.Error()))
		return 2
	}
	l.Push(v)
	return 1
}
