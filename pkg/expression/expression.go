// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package expression evaluates what a user says of an answer: CEL over its code and its
// body. It is pure. The length of an expression and the cost of its evaluation are bounded.
package expression

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
)

const (
	// MaxLength is how long an expression may be.
	MaxLength = 1024
	// maxCost bounds the steps of an evaluation, as CEL counts them.
	maxCost = 100_000
	// Default is the expression of a check that has none.
	Default = "code == 200"
)

// Pass is an expression that is true of a good answer.
type Pass struct{ program cel.Program }

var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("code", cel.IntType), cel.Variable("body", cel.DynType),
		cel.CrossTypeNumericComparisons(true), cel.ParserExpressionSizeLimit(MaxLength), cel.ParserRecursionLimit(50),
	)
})

// Compile compiles an expression. An error says what is wrong in it.
func Compile(text string) (*Pass, error) {
	env, err := environment()
	if err != nil {
		return nil, err
	}
	if utf8.RuneCountInString(text) > MaxLength {
		return nil, fmt.Errorf("use at most %d characters", MaxLength)
	}
	ast, issues := env.Compile(text)
	if err := issues.Err(); err != nil {
		return nil, err
	}
	if out := ast.OutputType(); !out.IsExactType(cel.BoolType) && !out.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("it gives %s; give true or false", out)
	}
	program, err := env.Program(ast, cel.CostLimit(maxCost))
	if err != nil {
		return nil, err
	}
	return &Pass{program}, nil
}

// Of reports whether an answer is good. The body is what its JSON says, and text where it
// is no JSON. An error says why the expression says nothing about this answer.
func (p *Pass) Of(code int, body []byte) (good bool, err error) {
	value, _, err := p.program.Eval(map[string]any{"code": code, "body": Body(body)})
	if err != nil {
		return false, err
	}
	is, ok := value.(types.Bool)
	if !ok {
		return false, errors.New("it gives " + value.Type().TypeName() + ", neither true nor false")
	}
	return bool(is), nil
}

// Body is what a body says.
func Body(body []byte) any {
	var value any
	if json.Unmarshal(body, &value) != nil {
		return string(body)
	}
	return value
}
