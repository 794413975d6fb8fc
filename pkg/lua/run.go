// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package lua runs the scripts with which administrators add kinds of routers that are not built in. A
// script gets an object and returns another one. It has access to nothing else: no files, network, clock or
// random numbers, so it always computes the same route. Limits protect against mistakes, such as an endless
// loop. Most limits count work instead of time, so that a slow machine accepts the same scripts as a fast one.
package lua

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
)

// chunkName is the name of a script in error messages.
const chunkName = "script"

// Run runs a script with the global obj, and returns the table that the script returns. Whole
// numbers are returned as int64, others as float64.
func Run(script string, obj map[string]any) (out map[string]any, err error) {
	limitListLength()
	runtime.LockOSThread() // the budget measures the CPU time of one thread
	defer runtime.UnlockOSThread()
	state := lua.NewState(lua.Options{
		SkipOpenLibs: true, CallStackSize: maxDepth, MinimizeStackMemory: true,
		RegistrySize: 1024, RegistryMaxSize: maxRegisters, RegistryGrowStep: 1024,
	})
	defer state.Close()
	b := newBudget(state)
	defer b.cancel(nil)
	if out, err = b.runScript(script, obj); b.err() != nil {
		err = b.err()
	}
	if err != nil {
		return nil, userError(err)
	}
	return out, nil
}

func (b *budget) runScript(script string, obj map[string]any) (map[string]any, error) {
	if len(script) > maxScript {
		return nil, fmt.Errorf("%s is longer than %d KiB", chunkName, maxScript>>10)
	}
	fn, err := b.state.Load(strings.NewReader(script), chunkName)
	if err != nil {
		return nil, fmt.Errorf("reading the script: %w", err)
	}
	c := &converter{budget: b, lists: map[*lua.LTable]bool{}}
	c.openLibraries(b.state)
	in, err := c.toLua(obj, 0)
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
	return c.resultObject(result)
}

// userError returns a one-line error for users, with the message of the script and without a stack
// trace.
func userError(err error) error {
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

// limitListLength sets a global limit of the library: setting entry n of a table allocates all
// entries before it, up to this limit.
var limitListLength = sync.OnceFunc(func() { lua.MaxArrayIndex = maxList })
