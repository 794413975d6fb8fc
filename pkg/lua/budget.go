// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"context"
	"fmt"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// What a script may use. OpenKruise gives one a second; the scripts that users
// bring need less than a hundredth of this.
const (
	// maxScript and maxNesting are for the text of a script.
	maxScript  = 256 << 10
	maxNesting = 200
	// maxSteps are instructions, times stepsOfInstruction, and what else takes time.
	maxSteps           = 1_000_000
	stepsOfInstruction = 5
	stepsOfCatch       = 2000
	// stepsOfFormat is for one argument of string.format, stepsOfMod for a remainder.
	stepsOfFormat = 500
	stepsOfMod    = 500
	// A step looks at so many bytes of a text, passes so many values, walks over so
	// many entries of a table, or looks up so many captured variables.
	bytesOfStep, valuesOfStep, entriesOfStep, capturesOfStep = 8, 4, 4, 8
	// maxMemory is what is made in all; nothing is ever given back.
	maxMemory = 32 << 20
	// maxText is the length of one text, as much as all annotations of an object.
	maxText = 256 << 10
	// maxList is the length of a list, less one.
	maxList = 1 << 14
	// maxDepth is of calls, maxValues of tables in tables.
	maxDepth  = 200
	maxValues = 200
	// maxRegisters are the values on the stack.
	maxRegisters = 1 << 13
	// maxMessage is how much of an error is passed on.
	maxMessage = 512

	sizeOfTable = 2560
	sizeOfValue = 16
	// sizeOfFunction is of a function, and of each variable that it captures.
	sizeOfFunction = 64
)

// budget counts what a script has used. The interpreter asks a context whether
// it is done before each instruction, and so has it counted.
type budget struct {
	steps, memory int
	// place is the key of the assignment under way.
	place lua.LValue
	// captured are the variables that functions were made with, which the
	// interpreter keeps in one list, no longer than there are registers.
	captured int
	over     error
	done     chan struct{}
}

var _ context.Context = (*budget)(nil)

func newBudget() *budget { return &budget{done: make(chan struct{})} }

// Deadline implements context.Context.
func (b *budget) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value implements context.Context.
func (b *budget) Value(any) any { return nil }

// Err implements context.Context.
func (b *budget) Err() error { return b.over }

// Done implements context.Context.
func (b *budget) Done() <-chan struct{} {
	_ = b.step(stepsOfInstruction) // the channel says it
	return b.done
}

// end is final: a script that catches the error meets it again at once.
func (b *budget) end(format string, args ...any) error {
	if b.over == nil {
		b.over = fmt.Errorf(chunkName+" "+format, args...)
		close(b.done)
	}
	return b.over
}

// step counts what takes time. A negative number is one that overflowed, here and
// below: nobody gives anything back.
func (b *budget) step(n int) error {
	if n < 0 || n > maxSteps-b.steps || b.over != nil {
		return b.end("takes more than %d instructions; it may never end", maxSteps/stepsOfInstruction)
	}
	b.steps += n
	return nil
}

// take counts what takes memory.
func (b *budget) take(n int) error {
	if n < 0 || n > maxMemory-b.memory || b.over != nil {
		return b.end("takes more than %d MiB of memory", maxMemory>>20)
	}
	b.memory += n
	return nil
}

// text counts the making of a text.
func (b *budget) text(n int) error {
	if n > maxText {
		return b.end("makes a text of more than %d KiB", maxText>>10)
	}
	return b.take(n)
}

// look counts the reading of a text.
func (b *budget) look(n int) error { return b.step(n / bytesOfStep) }

// must ends a script that has used up its budget.
func must(l *lua.LState, err error) {
	if err != nil {
		l.RaiseError("%s", err.Error())
	}
}
