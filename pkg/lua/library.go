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

// removedFunctions are functions of the libraries that scripts must not use: functions with side
// effects, and functions whose result differs between calls. A route must depend on the object
// alone.
var removedFunctions = strings.Fields(`require module load loadstring loadfile dofile setfenv getfenv newproxy collectgarbage
	_printregs math.random math.randomseed string.dump`)

// openLibraries adds the libraries that scripts may use: base, table, string, math and json.
func (c *converter) openLibraries(l *lua.LState) {
	for _, lib := range []lua.LGFunction{lua.OpenBase, lua.OpenTable, lua.OpenMath, lua.OpenString} {
		l.Push(l.NewFunction(lib))
		l.Call(0, 0)
	}
	for _, name := range removedFunctions {
		setFunction(l, name, lua.LNil)
	}
	l.SetGlobal("json", l.NewTable())
	for name, fn := range map[string]lua.LGFunction{
		"json.encode": c.encodeJSON,
		"json.decode": c.decodeJSON,
		"print":       func(*lua.LState) int { return 0 },
		"tostring":    toString,
	} {
		setFunction(l, name, l.NewFunction(fn))
	}
	c.chargeLibraries(l)
}

// chargeLibraries wraps library functions that do more work than one instruction. The wrapper
// counts the work before the function runs, because a running library function cannot be
// interrupted.
func (c *converter) chargeLibraries(l *lua.LState) {
	checkBefore(l, "string.rep", func() error {
		size := float64(len(l.CheckString(1))) * float64(l.CheckNumber(2))
		return c.checkTextLength(int(min(max(size, 0), maxText+1)))
	})
	for _, name := range []string{"string.find", "string.match", "string.gmatch", "string.gsub"} {
		checkBefore(l, name, func() error { return c.chargeSearch(l.CheckString(1)) })
		checkAfter(l, name, func(lua.LValue) error { return c.checkSearchTime() })
	}
	wrapFunction(l, "string.gsub", func(l *lua.LState, run lua.LGFunction) int {
		size := len(l.CheckString(1))
		n := run(l)
		replaced := int(lua.LVAsNumber(l.Get(-1)))
		raiseError(l, c.useSteps(replaced*size/bytesOfReplacement)) // each replacement copies the text
		return n
	})
	for _, name := range []string{"pcall", "xpcall"} {
		checkAfter(l, name, func(worked lua.LValue) error {
			if worked == lua.LTrue {
				return nil
			}
			return c.useSteps(stepsOfError)
		})
	}
	checkBefore(l, "unpack", func() error {
		list := l.CheckTable(1)
		size := l.OptInt(3, list.Len()) - l.OptInt(2, 1)
		return c.useSteps(min(max(size, 0), maxRegisters) / valuesOfMove)
	})
	for _, name := range []string{"table.insert", "table.remove"} {
		checkBefore(l, name, func() error { return c.useSteps(l.CheckTable(1).Len() / valuesOfMove) })
	}
	checkBefore(l, "table.sort", func() error {
		values, bytes := c.measureList(l.CheckTable(1))
		rounds := bits.Len(uint(values))
		return c.useSteps(rounds * (values/valuesOfComparison + bytes/bytesOfStep))
	})
	checkBefore(l, "table.concat", func() error {
		list := l.CheckTable(1)
		values, bytes := c.measureList(list)
		if l.GetTop() < 3 { // of the whole list
			bytes += max(values-1, 0) * len(l.OptString(2, ""))
			if err := c.checkTextLength(min(bytes, maxText+1)); err != nil {
				return err
			}
		}
		return c.useSteps(values/valuesOfConcat + bytes/bytesOfStep)
	})
}

// These constants convert work to steps: one step is the work of moving, joining or comparing this
// number of values, or of searching or copying this number of bytes.
const (
	valuesOfMove, valuesOfConcat, valuesOfComparison = 64, 16, 4
	bytesOfSearch, bytesOfReplacement                = 16, 4 << 10
)

// chargeSearch counts the steps of a pattern search in s, and refuses a text that is too long.
func (c *converter) chargeSearch(s string) error {
	if len(s) > maxSearched {
		return fmt.Errorf("a text of more than %d KiB cannot be searched", maxSearched>>10)
	}
	return c.useSteps(len(s) / bytesOfSearch)
}

// measureList returns the number of entries of a list and the total length of its texts.
func (c *converter) measureList(list *lua.LTable) (values, bytes int) {
	values = list.Len()
	for i := range values {
		if s, ok := list.RawGetInt(i + 1).(lua.LString); ok {
			bytes += len(s)
		}
	}
	return values, bytes
}

// checkBefore wraps a library function: check runs first, and its error is raised instead of the
// call.
func checkBefore(l *lua.LState, name string, check func() error) {
	wrapFunction(l, name, func(l *lua.LState, run lua.LGFunction) int {
		raiseError(l, check())
		return run(l)
	})
}

// checkAfter wraps a library function: check gets the first returned value, and its error is
// raised.
func checkAfter(l *lua.LState, name string, check func(first lua.LValue) error) {
	wrapFunction(l, name, func(l *lua.LState, run lua.LGFunction) int {
		n := run(l)
		raiseError(l, check(l.Get(-max(n, 1))))
		return n
	})
}

// wrapFunction replaces a library or global function with one that calls with. The parameter run is
// the original function.
func wrapFunction(l *lua.LState, name string, with func(l *lua.LState, run lua.LGFunction) int) {
	value := l.GetGlobal(name)
	if library, key, ok := strings.Cut(name, "."); ok {
		value = l.GetField(l.GetGlobal(library), key)
	}
	fn, _ := value.(*lua.LFunction)
	run := fn.GFunction
	fn.GFunction = func(l *lua.LState) int { return with(l, run) }
}

// setFunction sets a function of a library, or a global function.
func setFunction(l *lua.LState, name string, to lua.LValue) {
	if library, key, ok := strings.Cut(name, "."); ok {
		l.SetField(l.GetGlobal(library), key, to)
		return
	}
	l.SetGlobal(name, to)
}

// toString implements tostring. It returns the type instead of an address, because addresses differ
// between runs.
func toString(l *lua.LState) int {
	v := l.ToStringMeta(l.CheckAny(1))
	if kind := l.Get(1).Type(); (kind == lua.LTTable || kind == lua.LTFunction) && v == lua.LString(l.Get(1).String()) {
		v = lua.LString(kind.String())
	}
	l.Push(v)
	return 1
}

// raiseError stops a script that has used up its budget.
func raiseError(l *lua.LState, err error) {
	if err != nil {
		l.RaiseError("%s", err.Error())
	}
}

// encodeJSON implements json.encode. The keys of an object are sorted. An empty table that was
// neither a list nor an object before is null.
func (c *converter) encodeJSON(l *lua.LState) int {
	value, err := c.fromLua(l.CheckAny(1), 0)
	if err != nil {
		return c.pushResult(l, lua.LNil, fmt.Errorf("value%w", err))
	}
	raiseError(l, c.checkTextLength(textLength(value))) // count now: a value that contains one table many times costs only one table until it is encoded
	text, err := json.Marshal(value)
	return c.pushResult(l, lua.LString(text), err)
}

// textLength returns the total length of the texts in a value, a lower bound of the length of its
// JSON.
func textLength(v any) (n int) {
	switch v := v.(type) {
	case string:
		return len(v)
	case []any:
		for _, entry := range v {
			n += textLength(entry)
		}
	case map[string]any:
		for name, entry := range v {
			n += len(name) + textLength(entry)
		}
	}
	return n
}

// decodeJSON implements json.decode.
func (c *converter) decodeJSON(l *lua.LState) int {
	var v any
	if err := json.Unmarshal([]byte(l.CheckString(1)), &v); err != nil {
		return c.pushResult(l, lua.LNil, fmt.Errorf("reading JSON: %w", err))
	}
	value, err := c.toLua(v, 0)
	if err != nil {
		err = fmt.Errorf("value%w", err)
	}
	return c.pushResult(l, value, err)
}

// pushResult returns nil and a message to the script if there is an error, so that the script may
// continue.
func (c *converter) pushResult(l *lua.LState, v lua.LValue, err error) int {
	raiseError(l, c.err())
	if err != nil {
		l.Push(lua.LNil)
		l.Push(lua.LString(err.Error()))
		return 2
	}
	l.Push(v)
	return 1
}
