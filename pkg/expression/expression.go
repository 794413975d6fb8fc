// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package expression evaluates CEL conditions of users about the status code and the body of an HTTP response. It is
// pure. The length of an expression and the cost of its evaluation are limited.
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
	// MaxLength is the maximum length of an expression, in characters.
	MaxLength = 1024
	// maxCost limits the cost of an evaluation in CEL's cost units.
	maxCost = 100_000
	// Default is the expression of a check that has none.
	Default = "code == 200"
)

// Condition is a compiled expression that is true for a good response.
type Condition struct{ program cel.Program }

var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("code", cel.IntType), cel.Variable("body", cel.DynType),
		cel.CrossTypeNumericComparisons(true), cel.ParserExpressionSizeLimit(MaxLength), cel.ParserRecursionLimit(50),
	)
})

// Compile compiles an expression. The error describes what is wrong in the expression.
func Compile(text string) (*Condition, error) {
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
	return &Condition{program}, nil
}

// Evaluate reports whether a response is good. In the expression, body is the decoded JSON of the body, or its text if
// it is not JSON. An error means that the expression cannot judge this response.
func (p *Condition) Evaluate(code int, body []byte) (good bool, err error) {
	value, _, err := p.program.Eval(map[string]any{"code": code, "body": DecodeBody(body)})
	if err != nil {
		return false, err
	}
	is, ok := value.(types.Bool)
	if !ok {
		return false, errors.New("it gives " + value.Type().TypeName() + ", neither true nor false")
	}
	return bool(is), nil
}

// DecodeBody returns the decoded JSON of a body, or its text if it is not JSON.
func DecodeBody(body []byte) any {
	var value any
	if json.Unmarshal(body, &value) != nil {
		return string(body)
	}
	return value
}
