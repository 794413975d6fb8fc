// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// jsonLibrary is the module json. Both functions return nil and a message for
// what they cannot do, so that a script may go on.
func jsonLibrary(c *converter) map[string]lua.LGFunction {
	return map[string]lua.LGFunction{
		"encode": func(l *lua.LState) int {
			text, err := c.encode(l.CheckAny(1))
			return answer(l, c.b, lua.LString(text), err)
		},
		"decode": func(l *lua.LState) int {
			v, err := c.decode(l.CheckString(1))
			return answer(l, c.b, v, err)
		},
	}
}

func answer(l *lua.LState, b *budget, v lua.LValue, err error) int {
	if b.over != nil {
		must(l, b.over)
	}
	if err != nil {
		l.Push(lua.LNil)
		l.Push(lua.LString(err.Error()))
		return 2
	}
	l.Push(v)
	return 1
}

// encode has the names of an object in order. A table that is empty and never
// was a list or an object is null.
func (c *converter) encode(v lua.LValue) (string, error) {
	c.texts = 0
	value, err := c.out(v, "value", nil)
	if err == nil {
		err = c.b.text(c.texts)
	}
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	return string(text), c.b.text(len(text))
}

func (c *converter) decode(text string) (lua.LValue, error) {
	if err := c.b.text(len(text)); err != nil {
		return nil, err
	}
	d := json.NewDecoder(strings.NewReader(text))
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("reading JSON: %w", err)
	}
	if rest := bytes.TrimSpace([]byte(text[d.InputOffset():])); len(rest) > 0 {
		return nil, fmt.Errorf("reading JSON: more after its end, from byte %d", d.InputOffset())
	}
	return c.in(v, "value", 0)
}
