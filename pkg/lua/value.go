// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"unicode/utf8"

	lua "github.com/yuin/gopher-lua"
)

// converter turns values into values of scripts and back. Lua has one kind of empty
// table. A table that came in as a list or as an object leaves as such. An empty table
// that the script made is left out, as in OpenKruise, whose scripts remove fields by it.
//
// Errors begin with the path to the value: each caller puts a name before it.
type converter struct {
	*budget
	// lists has every table that came in, and whether it was a list.
	lists map[*lua.LTable]bool
}

// exact is the first whole number that a script may change by reading it.
const exact = 1 << 53

var errDeep = errors.New(" is nested too deep, or contains itself")

// in turns a value into a value of scripts.
func (c *converter) in(v any, depth int) (lua.LValue, error) {
	if err := c.enter(depth); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case nil:
		return lua.LNil, nil
	case bool:
		return lua.LBool(v), nil
	case string:
		return lua.LString(v), c.text(len(v))
	case int64:
		return number(v)
	case float64:
		return lua.LNumber(v), nil
	case []any:
		if len(v) >= maxList {
			return nil, fmt.Errorf(" has more than %d entries", maxList-1)
		}
		return c.table(true, len(v), depth, func(i int) (lua.LValue, any) { return lua.LNumber(i + 1), v[i] })
	case map[string]any:
		// A script goes through a table in the order in which it was filled.
		names := slices.Sorted(maps.Keys(v))
		return c.table(false, len(v), depth, func(i int) (lua.LValue, any) { return lua.LString(names[i]), v[names[i]] })
	}
	return nil, fmt.Errorf(" is a %T", v)
}

func number(n int64) (lua.LValue, error) {
	if n >= exact || n <= -exact {
		return nil, errors.New(" is a number too large for a script")
	}
	return lua.LNumber(n), nil
}

// enter counts a value.
func (c *converter) enter(depth int) error {
	if depth > maxDepth {
		return errDeep
	}
	return c.step(1)
}

// at puts a key before an error, except where there would be too many.
func at(key lua.LValue, err error) error {
	if errors.Is(err, errDeep) {
		return err
	}
	if n, ok := key.(lua.LNumber); ok {
		return fmt.Errorf("[%d]%w", int(n)-1, err)
	}
	return fmt.Errorf(".%s%w", key, err)
}

// table is a list or an object as a table.
func (c *converter) table(list bool, size, depth int, entry func(i int) (lua.LValue, any)) (lua.LValue, error) {
	t := &lua.LTable{Metatable: lua.LNil}
	c.lists[t] = list
	for i := range size {
		key, value := entry(i)
		v, err := c.in(value, depth+1)
		if err != nil {
			return nil, at(key, err)
		}
		if list {
			t.Append(v)
		} else if v != lua.LNil {
			t.RawSet(key, v)
		}
	}
	return t, c.step(stepsOfTable)
}

// result is the object that a script returns.
func (c *converter) result(t *lua.LTable) (map[string]any, error) {
	v, err := c.out(t, 0)
	if list, ok := v.([]any); ok && len(list) > 0 {
		err = errors.New(" is a list and must have names")
	}
	if err != nil {
		return nil, fmt.Errorf("the result%w", err)
	}
	object, _ := v.(map[string]any)
	if object == nil {
		object = map[string]any{}
	}
	return object, nil
}

// out turns a value of a script back.
func (c *converter) out(v lua.LValue, depth int) (any, error) {
	if err := c.enter(depth); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case *lua.LNilType:
		return nil, nil
	case lua.LBool:
		return bool(v), nil
	case lua.LString:
		if !utf8.ValidString(string(v)) {
			return nil, errors.New(" is no valid text")
		}
		return string(v), c.step(len(v) / bytesOfStep)
	case lua.LNumber:
		return whole(float64(v))
	case *lua.LTable:
		return c.entries(v, depth)
	}
	return nil, fmt.Errorf(" is a %s", v.Type())
}

func whole(n float64) (any, error) {
	switch {
	case math.IsNaN(n) || math.IsInf(n, 0):
		return nil, errors.New(" is no number")
	case n == math.Trunc(n) && math.Abs(n) < exact:
		return int64(n), nil
	default:
		return n, nil
	}
}

// entries is a table as a list or an object; nil if it is empty and was neither.
func (c *converter) entries(t *lua.LTable, depth int) (any, error) {
	if err := c.step(stepsOfTable); err != nil {
		return nil, err
	}
	names, numbers, err := keys(t)
	list, known := c.lists[t]
	switch {
	case err != nil:
		return nil, err
	case numbers > 0 || len(names) == 0 && list:
		return c.listOf(t, numbers, depth)
	case len(names) > 0 || known:
		return c.objectOf(t, names, depth)
	}
	return nil, nil
}

func (c *converter) listOf(t *lua.LTable, size, depth int) (any, error) {
	list := make([]any, size)
	for i := range list {
		entry, err := c.out(t.RawGetInt(i+1), depth+1)
		if err != nil {
			return nil, at(lua.LNumber(i+1), err)
		}
		// Without an entry those after it would move.
		if entry == nil {
			entry = map[string]any{}
		}
		list[i] = entry
	}
	return list, nil
}

func (c *converter) objectOf(t *lua.LTable, names []string, depth int) (any, error) {
	object := make(map[string]any, len(names))
	for _, name := range names {
		v, err := c.out(t.RawGetString(name), depth+1)
		if err != nil {
			return nil, at(lua.LString(name), err)
		}
		if v != nil {
			object[name] = v
		}
	}
	return object, nil
}

// keys are the names in a table, or how many entries it has as a list.
func keys(t *lua.LTable) (names []string, numbers int, err error) {
	others := 0
	t.ForEach(func(k, _ lua.LValue) {
		if name, ok := k.(lua.LString); ok && utf8.ValidString(string(name)) {
			names = append(names, string(name))
		} else {
			others++
		}
	})
	numbers = t.MaxN()
	if others != numbers || others > 0 && len(names) > 0 {
		err = errors.New(" has keys that are neither all names nor all numbers from 1 without a gap")
	}
	slices.Sort(names)
	return names, numbers, err
}
