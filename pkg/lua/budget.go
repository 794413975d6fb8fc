// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"context"
	"fmt"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// What a script may use. The scripts of users need less than a hundredth of it.
const (
	maxScript = 64 << 10
	// maxSteps are instructions and other work: each table that is converted, and each
	// bytesOfStep of texts and valuesOfStep of values on the stack of an instruction.
	maxSteps, stepsOfTable, bytesOfStep, valuesOfStep = 200_000, 16, 1 << 10, 256
	// stepsOfError is the cost of an error that the script catches, because the interpreter
	// formats a stack trace for each error.
	stepsOfError = 100
	// maxSearchTime limits the CPU time of scripts that search by patterns. The work of a pattern
	// search cannot be bounded by the length of the text. CPU time, unlike elapsed time, does not
	// depend on the load of the machine.
	maxSearchTime = time.Minute
	// maxText is the length of one text: that of all annotations of an object.
	maxText = 256 << 10
	// maxSearched is the length of a text that is searched by a pattern.
	maxSearched = 16 << 10
	// maxList is the length of a list, less one.
	maxList = 1 << 14
	// maxDepth is of calls in calls, and of tables in tables.
	maxDepth = 200
	// maxRegisters are the values on the stack.
	maxRegisters = 1 << 16
	// maxMessage is the length of an error.
	maxMessage = 512
)

// budget counts what a script uses. The interpreter calls Done of its context before
// each instruction, which counts the instruction.
type budget struct {
	context.Context //nolint:containedctx // it is one
	end             context.CancelCauseFunc
	state           *lua.LState
	steps           int
	// searchTime is maxSearchTime except in tests. began is the CPU time of this thread when
	// the script started.
	searchTime, began time.Duration
}

// newBudget starts a budget. The caller must lock the goroutine to its thread, run the script
// there, and call end.
func newBudget(state *lua.LState) *budget {
	//nolint:forbidigo // A route is computed by pure functions, which have no context.
	ctx, end := context.WithCancelCause(context.Background())
	return &budget{Context: ctx, end: end, state: state, searchTime: maxSearchTime, began: threadTime()}
}

// Done implements context.Context. It counts an instruction by the values and texts on
// the stack of its function. The result of the instruction before is among them.
func (b *budget) Done() <-chan struct{} {
	size := 0
	for i := range b.state.GetTop() {
		if s, ok := b.state.Get(i + 1).(lua.LString); ok {
			size += len(s)
			_ = b.text(len(s)) // the channel says it
		}
	}
	_ = b.step(1 + b.state.GetTop()/valuesOfStep + size/bytesOfStep) // the channel says it
	return b.Context.Done()
}

// over returns why a script was ended. A script that catches the error gets it again.
func (b *budget) over() error { return context.Cause(b.Context) }

func (b *budget) step(n int) error {
	if b.steps += n; b.steps > maxSteps {
		b.end(fmt.Errorf("%s takes more than %d instructions; it may never end", chunkName, maxSteps))
	}
	return b.over()
}

func (b *budget) text(n int) error {
	if n > maxText {
		b.end(fmt.Errorf("%s makes a text of more than %d KiB", chunkName, maxText>>10))
		return b.over()
	}
	return nil
}

// searched ends the script, after a pattern search, if the CPU time is used up.
func (b *budget) searched() error {
	if threadTime()-b.began > b.searchTime {
		b.end(fmt.Errorf("%s searches texts by patterns for more than %s of CPU time", chunkName, b.searchTime))
	}
	return b.over()
}
