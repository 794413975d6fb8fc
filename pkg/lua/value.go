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

// converter converts Go values into Lua values and back. Lua does not distinguish an empty list
// from an empty object. A table that was converted from a list or an object is converted back to
// the same type. An empty table that the script created is left out, as in OpenKruise, because
// scripts remove fields in this way.
//
// Errors begin with the path to the value: each caller prepends a key.
type converter struct {
	*budget
	// lists has every table that was converted from Go, and whether it was a list.
	lists map[*lua.LTable]bool
}

// maxExactInt is the first whole number that a float64 of Lua may not represent exactly.
const maxExactInt = 1 << 53

var errTooDeep = errors.New(" is nested too deep, or contains itself")

// toLua converts a Go value into a Lua value.
func (c *converter) toLua(v any, depth int) (lua.LValue, error) {
	if err := c.countValue(depth); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case nil:
		return lua.LNil, nil
	case bool:
		return lua.LBool(v), nil
	case string:
		return lua.LString(v), c.checkTextLength(len(v))
	case int64:
		return integerToLua(v)
	case float64:
		return lua.LNumber(v), nil
	case []any:
		if len(v) >= maxList {
			return nil, fmt.Errorf(" has more than %d entries", maxList-1)
		}
		return c.newTable(true, len(v), depth, func(i int) (lua.LValue, any) { return lua.LNumber(i + 1), v[i] })
	case map[string]any:
		// Lua iterates over a table in the order in which the entries were added.
		names := slices.Sorted(maps.Keys(v))
		return c.newTable(false, len(v), depth, func(i int) (lua.LValue, any) { return lua.LString(names[i]), v[names[i]] })
	}
	return nil, fmt.Errorf(" is a %T", v)
}

func integerToLua(n int64) (lua.LValue, error) {
	if n >= maxExactInt || n <= -maxExactInt {
		return nil, errors.New(" is a number too large for a script")
	}
	return lua.LNumber(n), nil
}

// countValue counts a value, and checks the depth.
func (c *converter) countValue(depth int) error {
	if depth > maxDepth {
		return errTooDeep
	}
	return c.useSteps(1)
}

// prefixPath prepends a key to the path of an error, unless the path would be too long.
func prefixPath(key lua.LValue, err error) error {
	if errors.Is(err, errTooDeep) {
		return err
	}
	if n, ok := key.(lua.LNumber); ok {
		return fmt.Errorf("[%d]%w", int(n)-1, err)
	}
	return fmt.Errorf(".%s%w", key, err)
}

// newTable converts a list or an object into a table.
func (c *converter) newTable(list bool, size, depth int, entry func(i int) (lua.LValue, any)) (lua.LValue, error) {
	t := &lua.LTable{Metatable: lua.LNil}
	c.lists[t] = list
	for i := range size {
		key, value := entry(i)
		v, err := c.toLua(value, depth+1)
		if err != nil {
			return nil, prefixPath(key, err)
		}
		if list {
			t.Append(v)
		} else if v != lua.LNil {
			t.RawSet(key, v)
		}
	}
	return t, c.useSteps(stepsOfTable)
}

// resultObject returns the object that a script returns.
func (c *converter) resultObject(t *lua.LTable) (map[string]any, error) {
	v, err := c.fromLua(t, 0)
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

// fromLua converts a Lua value into a Go value.
func (c *converter) fromLua(v lua.LValue, depth int) (any, error) {
	if err := c.countValue(depth); err != nil {
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
		return string(v), c.useSteps(len(v) / bytesOfStep)
	case lua.LNumber:
		return numberFromLua(float64(v))
	case *lua.LTable:
		return c.tableFromLua(v, depth)
	}
	return nil, fmt.Errorf(" is a %s", v.Type())
}

func numberFromLua(n float64) (any, error) {
	switch {
	case math.IsNaN(n) || math.IsInf(n, 0):
		return nil, errors.New(" is no number")
	case n == math.Trunc(n) && math.Abs(n) < maxExactInt:
		return int64(n), nil
	default:
		return n, nil
	}
}

// tableFromLua returns a table as a list or an object; nil if the table is empty and was neither.
func (c *converter) tableFromLua(t *lua.LTable, depth int) (any, error) {
	if err := c.useSteps(stepsOfTable); err != nil {
		return nil, err
	}
	names, numbers, err := tableKeys(t)
	list, known := c.lists[t]
	switch {
	case err != nil:
		return nil, err
	case numbers > 0 || len(names) == 0 && list:
		return c.listFromLua(t, numbers, depth)
	case len(names) > 0 || known:
		return c.objectFromLua(t, names, depth)
	}
	return nil, nil
}

func (c *converter) listFromLua(t *lua.LTable, size, depth int) (any, error) {
	list := make([]any, size)
	for i := range list {
		entry, err := c.fromLua(t.RawGetInt(i+1), depth+1)
		if err != nil {
			return nil, prefixPath(lua.LNumber(i+1), err)
		}
		// A missing entry would move the entries after it.
		if entry == nil {
			entry = map[string]any{}
		}
		list[i] = entry
	}
	return list, nil
}

func (c *converter) objectFromLua(t *lua.LTable, names []string, depth int) (any, error) {
	object := make(map[string]any, len(names))
	for _, name := range names {
		v, err := c.fromLua(t.RawGetString(name), depth+1)
		if err != nil {
			return nil, prefixPath(lua.LString(name), err)
		}
		if v != nil {
			object[name] = v
		}
	}
	return object, nil
}

// tableKeys returns the names in a table, or the number of its entries if it is a list.
func tableKeys(t *lua.LTable) (names []string, numbers int, err error) {
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
