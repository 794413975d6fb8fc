// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package lua runs the scripts by which administrators add kinds of routers that
// are not built in. A script is given an object and returns another. It has nothing
// else: no file, network, clock or random numbers, so it computes the same route each
// time. Limits are against mistakes, such as a loop without end. Most are counted, so
// that a slow machine refuses no script that a fast one runs.
package lua

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
)

// The name of a script in the messages of its errors.
const chunkName = "script"

// Run gives a script the global obj and returns the table that it returns. Whole
// numbers come back as int64, others as float64.
func Run(script string, obj map[string]any) (out map[string]any, err error) {
	limitLists()
	runtime.LockOSThread() // the budget measures the CPU time of one thread
	defer runtime.UnlockOSThread()
	state := lua.NewState(lua.Options{
		SkipOpenLibs: true, CallStackSize: maxDepth, MinimizeStackMemory: true,
		RegistrySize: 1024, RegistryMaxSize: maxRegisters, RegistryGrowStep: 1024,
	})
	defer state.Close()
	b := newBudget(state)
	defer b.end(nil)
	if out, err = b.run(script, obj); b.over() != nil {
		err = b.over()
	}
	if err != nil {
		return nil, oneLine(err)
	}
	return out, nil
}

func (b *budget) run(script string, obj map[string]any) (map[string]any, error) {
	if len(script) > maxScript {
		return nil, fmt.Errorf("%s is longer than %d KiB", chunkName, maxScript>>10)
	}
	fn, err := b.state.Load(strings.NewReader(script), chunkName)
	if err != nil {
		return nil, fmt.Errorf("reading the script: %w", err)
	}
	c := &converter{budget: b, lists: map[*lua.LTable]bool{}}
	c.open(b.state)
	in, err := c.in(obj, 0)
	if err != nil {
		return nil, fmt.Errorf("obj%w", err)
	}
	b.state.SetGlobal("obj", in)
	b.state.SetContext(b)
	b.state.Push(fn)
	if err := b.state.PCall(0, lua.MultRet, nil); err != nil {
		return nil, err
	}
	result, ok := b.state.Get(-1).(*lua.LTable)
	if !ok {
		return nil, fmt.Errorf("%s must return a table, and returns %s", chunkName, b.state.Get(-1).Type())
	}
	return c.result(result)
}

// oneLine is an error in one line for people, with the script's own text and without a
// trace of the stack.
func oneLine(err error) error {
	text := err.Error()
	if failed := (*lua.ApiError)(nil); errors.As(err, &failed) {
		switch {
		case failed.Type == lua.ApiErrorSyntax || failed.Type == lua.ApiErrorFile:
		case lua.LVCanConvToString(failed.Object):
			text = failed.Object.String()
		default:
			text = chunkName + " raised an error that is no text"
		}
	}
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return errors.New(text)
}

// limitLists sets a global limit of the library: a table whose entry n is set has room
// for all entries before it, up to this limit.
var limitLists = sync.OnceFunc(func() { lua.MaxArrayIndex = maxList })
