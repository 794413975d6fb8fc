// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package lua runs the scripts by which users teach routing to kinds of routers
// that are not known here. A script is given an object and returns another. It
// must not know anything else: there is no file, network, clock or chance in
// it, so that the same route is computed each time, and it ends, whatever it
// does. What a script costs is counted and not timed; a slow machine refuses
// no script that a fast one runs.
package lua

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
)

// The name of a script in the messages of its errors.
const chunkName = "script"

// Run gives a script the global obj and returns the table that it returns. Whole
// numbers come back as int64, others as float64.
func Run(script string, obj map[string]any) (map[string]any, error) {
	return newBudget().run(script, obj)
}

func (b *budget) run(script string, obj map[string]any) (out map[string]any, err error) {
	limitLibrary()
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: %v", chunkName, r)
		}
	}()
	proto, err := scripts.compile(script)
	if err != nil {
		return nil, err
	}
	state := lua.NewState(lua.Options{
		SkipOpenLibs: true, CallStackSize: maxDepth, MinimizeStackMemory: true,
		RegistrySize: 1024, RegistryMaxSize: maxRegisters, RegistryGrowStep: 1024,
	})
	defer state.Close()
	state.SetContext(b)
	c := &converter{b: b, lists: map[*lua.LTable]bool{}}
	open(state, b, c)
	in, err := c.in(obj, "obj", 0)
	if err != nil {
		return nil, err
	}
	state.SetGlobal("obj", in)
	state.Push(state.NewFunctionFromProto(proto))
	err = state.PCall(0, lua.MultRet, nil)
	switch {
	case b.over != nil:
		return nil, b.over
	case err != nil:
		return nil, said(err)
	}
	result, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		return nil, fmt.Errorf("%s must return a table, and returns %s", chunkName, state.Get(-1).Type())
	}
	return c.table(result, "the result")
}

// said is an error of a script in its own words, without a trace of the stack.
func said(err error) error {
	var failed *lua.ApiError
	if !errors.As(err, &failed) {
		return err
	}
	if failed.Object == nil || failed.Object.Type() != lua.LTString && failed.Object.Type() != lua.LTNumber {
		return fmt.Errorf("%s raised an error that is no text", chunkName)
	}
	text := strings.ToValidUTF8(failed.Object.String(), "?")
	if len(text) > maxMessage {
		text = text[:maxMessage] + "…"
	}
	return errors.New(strings.TrimSpace(text))
}

// limitLibrary sets what the library keeps in variables of its own: a table
// whose entry n is set has room for all before it, a function with variable
// arguments keeps them twice, and one instruction may look through that many tables.
var limitLibrary = sync.OnceFunc(func() {
	lua.MaxArrayIndex = maxList
	lua.CompatVarArg = false
	lua.MaxTableGetLoop = 10
})
