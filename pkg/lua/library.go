// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"encoding/json"
	"fmt"
	"math/bits"
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
	c.charge(l)
}

// charge wraps library functions that do more work than one instruction. The wrapper counts
// the work before the function runs, because a running library function cannot be interrupted.
func (c *converter) charge(l *lua.LState) {
	before(l, "string.rep", func() error {
		size := float64(len(l.CheckString(1))) * float64(l.CheckNumber(2))
		return c.text(int(min(max(size, 0), maxText+1)))
	})
	for _, name := range []string{"string.find", "string.match", "string.gmatch", "string.gsub"} {
		before(l, name, func() error { return c.search(l.CheckString(1)) })
		after(l, name, func(lua.LValue) error { return c.searched() })
	}
	wrap(l, "string.gsub", func(l *lua.LState, run lua.LGFunction) int {
		size := len(l.CheckString(1))
		n := run(l)
		replaced := int(lua.LVAsNumber(l.Get(-1)))
		must(l, c.step(replaced*size/bytesOfReplacement)) // each replacement copies the text
		return n
	})
	for _, name := range []string{"pcall", "xpcall"} {
		after(l, name, func(worked lua.LValue) error {
			if worked == lua.LTrue {
				return nil
			}
			return c.step(stepsOfError)
		})
	}
	before(l, "unpack", func() error {
		list := l.CheckTable(1)
		size := l.OptInt(3, list.Len()) - l.OptInt(2, 1)
		return c.step(min(max(size, 0), maxRegisters) / valuesOfMove)
	})
	for _, name := range []string{"table.insert", "table.remove"} {
		before(l, name, func() error { return c.step(l.CheckTable(1).Len() / valuesOfMove) })
	}
	before(l, "table.sort", func() error {
		values, bytes := c.measure(l.CheckTable(1))
		rounds := bits.Len(uint(values))
		return c.step(rounds * (values/valuesOfComparison + bytes/bytesOfStep))
	})
	before(l, "table.concat", func() error {
		list := l.CheckTable(1)
		values, bytes := c.measure(list)
		if l.GetTop() < 3 { // of the whole list
			bytes += max(values-1, 0) * len(l.OptString(2, ""))
			if err := c.text(min(bytes, maxText+1)); err != nil {
				return err
			}
		}
		return c.step(values/valuesOfConcat + bytes/bytesOfStep)
	})
}

// These constants convert work to steps: one step is the work of moving, joining or comparing this
// number of values, or of searching or copying this number of bytes.
const (
	valuesOfMove, valuesOfConcat, valuesOfComparison = 64, 16, 4
	bytesOfSearch, bytesOfReplacement                = 16, 4 << 10
)

// search counts the steps of a pattern search in s, and refuses a text that is too long.
func (c *converter) search(s string) error {
	if len(s) > maxSearched {
		return fmt.Errorf("a text of more than %d KiB cannot be searched", maxSearched>>10)
	}
	return c.step(len(s) / bytesOfSearch)
}

// measure returns the number of entries of a list and the total length of those that are texts.
func (c *converter) measure(list *lua.LTable) (values, bytes int) {
	values = list.Len()
	for i := range values {
		if s, ok := list.RawGetInt(i + 1).(lua.LString); ok {
			bytes += len(s)
		}
	}
	return values, bytes
}

// before wraps a library function: check runs first, and its error is raised instead of the call.
func before(l *lua.LState, name string, check func() error) {
	wrap(l, name, func(l *lua.LState, run lua.LGFunction) int {
		must(l, check())
		return run(l)
	})
}

// after wraps a library function: check gets the first returned value, and its error is raised.
func after(l *lua.LState, name string, check func(first lua.LValue) error) {
	wrap(l, name, func(l *lua.LState, run lua.LGFunction) int {
		n := run(l)
		must(l, check(l.Get(-max(n, 1))))
		return n
	})
}

// wrap replaces a library or global function with one that calls with. The parameter run is
// the original function.
func wrap(l *lua.LState, name string, with func(l *lua.LState, run lua.LGFunction) int) {
	value := l.GetGlobal(name)
	if library, key, ok := strings.Cut(name, "."); ok {
		value = l.GetField(l.GetGlobal(library), key)
	}
	fn, _ := value.(*lua.LFunction)
	run := fn.GFunction
	fn.GFunction = func(l *lua.LState) int { return with(l, run) }
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
	must(l, c.text(lengthOf(value))) // count now: a value that contains one table many times costs only one table until it is encoded
	text, err := json.Marshal(value)
	return c.answer(l, lua.LString(text), err)
}

// lengthOf returns the total length of the texts in a value, a lower bound of the length of
// its JSON.
func lengthOf(v any) (n int) {
	switch v := v.(type) {
	case string:
		return len(v)
	case []any:
		for _, entry := range v {
			n += lengthOf(entry)
		}
	case map[string]any:
		for name, entry := range v {
			n += len(name) + lengthOf(entry)
		}
	}
	return n
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
