// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"encoding/json"
	"fmt"

	lua "github.com/yuin/gopher-lua"
)

// encode is json.encode. It has the names of an object in order. A table that is
// empty and never was a list or an object is null.
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

// answer returns nil and a message for what cannot be done, so that a script may
// go on.
func (c *converter) answer(l *lua.LState, v lua.LValue, err error) int {
	must(l, c.b.over())
	if err != nil {
		l.Push(lua.LNil)
		l.Push(lua.LString(err.Error()))
		return 2
	}
	l.Push(v)
	return 1
}
