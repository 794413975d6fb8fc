// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"context"
	"fmt"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// The limits of a script. Known scripts of users need less than a hundredth of them.
const (
	maxScript = 64 << 10
	// maxSteps is the maximum number of steps. Each instruction is a step. Each converted table
	// costs stepsOfTable. An instruction costs one more step for each bytesOfStep of texts and
	// valuesOfStep of values on its stack.
	maxSteps, stepsOfTable, bytesOfStep, valuesOfStep = 200_000, 16, 1 << 10, 256
	// stepsOfError is the cost of an error that the script catches, because the interpreter
	// formats a stack trace for each error.
	stepsOfError = 100
	// maxSearchTime limits the CPU time of scripts that search by patterns. The work of a pattern
	// search cannot be bounded by the length of the text. CPU time, unlike elapsed time, does not
	// depend on the load of the machine.
	maxSearchTime = time.Minute
	// maxText is the maximum length of a text, equal to the limit of all annotations of an object.
	maxText = 256 << 10
	// maxSearched is the maximum length of a text that is searched with a pattern.
	maxSearched = 16 << 10
	// maxList is the maximum length of a list, plus one.
	maxList = 1 << 14
	// maxDepth is the maximum depth of nested calls, and of nested tables.
	maxDepth = 200
	// maxRegisters is the maximum number of values on the stack.
	maxRegisters = 1 << 16
	// maxMessage is the maximum length of an error.
	maxMessage = 512
)

// budget counts the work of a script. The interpreter calls Done of its context before each
// instruction, which counts the instruction.
type budget struct {
	context.Context //nolint:containedctx // it is one
	cancel          context.CancelCauseFunc
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
	return &budget{Context: ctx, cancel: end, state: state, searchTime: maxSearchTime, began: threadTime()}
}

// Done implements context.Context. It counts an instruction by the values and texts on the stack of
// its function, which include the result of the previous instruction.
func (b *budget) Done() <-chan struct{} {
	size := 0
	for i := range b.state.GetTop() {
		if s, ok := b.state.Get(i + 1).(lua.LString); ok {
			size += len(s)
			_ = b.checkTextLength(len(s)) // the channel says it
		}
	}
	_ = b.useSteps(1 + b.state.GetTop()/valuesOfStep + size/bytesOfStep) // the channel says it
	return b.Context.Done()
}

// err returns why a script was stopped. A script that catches the error gets the error again.
func (b *budget) err() error { return context.Cause(b.Context) }

func (b *budget) useSteps(n int) error {
	if b.steps += n; b.steps > maxSteps {
		b.cancel(fmt.Errorf("%s takes more than %d instructions; it may never end", chunkName, maxSteps))
	}
	return b.err()
}

func (b *budget) checkTextLength(n int) error {
	if n > maxText {
		b.cancel(fmt.Errorf("%s makes a text of more than %d KiB", chunkName, maxText>>10))
		return b.err()
	}
	return nil
}

// checkSearchTime stops the script after a pattern search if the CPU time is used up.
func (b *budget) checkSearchTime() error {
	if threadTime()-b.began > b.searchTime {
		b.cancel(fmt.Errorf("%s searches texts by patterns for more than %s of CPU time", chunkName, b.searchTime))
	}
	return b.err()
}
