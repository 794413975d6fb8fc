// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// What the interpreter does by itself and without a limit is turned into calls
// of functions that count: joining texts, making tables, and setting entries by
// number. Their names are none that a script can spell.
const (
	callConcat = ".."
	callTable  = "{}"
	callKey    = "[]"
)

// maxJoined is how many texts one call joins; each takes a register.
const maxJoined = 50

func compile(script string) (*lua.FunctionProto, error) {
	if len(script) > maxScript {
		return nil, fmt.Errorf("%s is longer than %d KiB", chunkName, maxScript>>10)
	}
	chunk, err := parse.Parse(strings.NewReader(script), chunkName)
	if err == nil && len(chunk) == 0 {
		err = errors.New(chunkName + " is empty")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the script: %s", strings.Join(strings.Fields(err.Error()), " "))
	}
	r := &rewriter{}
	r.stmts(chunk)
	if r.deep {
		return nil, fmt.Errorf("%s is nested more than %d levels deep", chunkName, maxNesting)
	}
	proto, err := lua.Compile(chunk, chunkName)
	if err != nil {
		return nil, fmt.Errorf("compiling the script: %w", err)
	}
	return proto, nil
}

// rewriter walks through a script. It stops where it is too deep: the compiler
// would follow it there on a stack without end.
type rewriter struct {
	depth int
	deep  bool
}

// enter tells whether to go one level deeper; whoever does, leaves it again.
func (r *rewriter) enter() bool {
	r.depth++
	r.deep = r.deep || r.depth > maxNesting
	return !r.deep
}

func (r *rewriter) leave() { r.depth-- }

func (r *rewriter) stmts(all []ast.Stmt) {
	defer r.leave()
	if !r.enter() {
		return
	}
	for _, s := range all {
		r.stmt(s)
	}
}

func (r *rewriter) stmt(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.AssignStmt:
		for _, to := range s.Lhs {
			r.target(to)
		}
		r.exprs(s.Rhs)
	case *ast.LocalAssignStmt:
		r.exprs(s.Exprs)
	case *ast.FuncCallStmt:
		s.Expr = r.expr(s.Expr)
	case *ast.ReturnStmt:
		r.exprs(s.Exprs)
	case *ast.FuncDefStmt:
		s.Name.Func, s.Name.Receiver = r.expr(s.Name.Func), r.expr(s.Name.Receiver)
		r.stmts(s.Func.Stmts)
	case *ast.IfStmt:
		s.Condition = r.expr(s.Condition)
		r.stmts(s.Then)
		r.stmts(s.Else)
	default:
		r.loop(s)
	}
}

func (r *rewriter) loop(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.DoBlockStmt:
		r.stmts(s.Stmts)
	case *ast.WhileStmt:
		s.Condition = r.expr(s.Condition)
		r.stmts(s.Stmts)
	case *ast.RepeatStmt:
		r.stmts(s.Stmts)
		s.Condition = r.expr(s.Condition)
	case *ast.NumberForStmt:
		s.Init, s.Limit, s.Step = r.expr(s.Init), r.expr(s.Limit), r.expr(s.Step)
		r.stmts(s.Stmts)
	case *ast.GenericForStmt:
		r.exprs(s.Exprs)
		r.stmts(s.Stmts)
	}
}

// target is what is assigned to.
func (r *rewriter) target(e ast.Expr) {
	if at, ok := e.(*ast.AttrGetExpr); ok {
		at.Object, at.Key = r.expr(at.Object), r.key(at.Key)
	}
}

// key has a key counted, unless it is a name.
func (r *rewriter) key(e ast.Expr) ast.Expr {
	if _, name := e.(*ast.StringExpr); name || e == nil {
		return e
	}
	return call(e, callKey, r.expr(e))
}

func (r *rewriter) exprs(all []ast.Expr) {
	for i := range all {
		all[i] = r.expr(all[i])
	}
}

// expr is an expression with counting.
func (r *rewriter) expr(e ast.Expr) ast.Expr {
	if e == nil {
		return nil
	}
	defer r.leave()
	if !r.enter() {
		return e
	}
	switch e := e.(type) {
	case *ast.StringConcatOpExpr:
		return r.concat(e)
	case *ast.TableExpr:
		return r.table(e)
	case *ast.AttrGetExpr:
		e.Object, e.Key = r.expr(e.Object), r.expr(e.Key)
	case *ast.FuncCallExpr:
		e.Func, e.Receiver = r.expr(e.Func), r.expr(e.Receiver)
		r.exprs(e.Args)
	case *ast.FunctionExpr:
		r.stmts(e.Stmts)
	default:
		r.operator(e)
	}
	return e
}

func (r *rewriter) operator(e ast.Expr) {
	switch e := e.(type) {
	case *ast.LogicalOpExpr:
		e.Lhs, e.Rhs = r.expr(e.Lhs), r.expr(e.Rhs)
	case *ast.RelationalOpExpr:
		e.Lhs, e.Rhs = r.expr(e.Lhs), r.expr(e.Rhs)
	case *ast.ArithmeticOpExpr:
		e.Lhs, e.Rhs = r.expr(e.Lhs), r.expr(e.Rhs)
	case *ast.UnaryMinusOpExpr:
		e.Expr = r.expr(e.Expr)
	case *ast.UnaryNotOpExpr:
		e.Expr = r.expr(e.Expr)
	case *ast.UnaryLenOpExpr:
		e.Expr = r.expr(e.Expr)
	}
}

// concat joins a chain of texts in one call, or in several where it is long.
func (r *rewriter) concat(e *ast.StringConcatOpExpr) ast.Expr {
	parts := []ast.Expr{r.one(e.Lhs)}
	rest := e.Rhs
	for {
		next, ok := rest.(*ast.StringConcatOpExpr)
		if !ok {
			break
		}
		parts = append(parts, r.one(next.Lhs))
		rest = next.Rhs
	}
	parts = append(parts, r.one(rest))
	for len(parts) > maxJoined {
		parts = append([]ast.Expr{call(e, callConcat, parts[:maxJoined]...)}, parts[maxJoined:]...)
	}
	return call(e, callConcat, parts...)
}

// one is an expression that stands for one value: a call at the end of others
// would stand for all that it returns.
func (r *rewriter) one(e ast.Expr) ast.Expr {
	e = r.expr(e)
	switch e := e.(type) {
	case *ast.FuncCallExpr:
		e.AdjustRet = true
	case *ast.Comma3Expr:
		e.AdjustRet = true
	}
	return e
}

func (r *rewriter) table(e *ast.TableExpr) ast.Expr {
	for _, f := range e.Fields {
		f.Key, f.Value = r.key(f.Key), r.expr(f.Value)
	}
	n := &ast.NumberExpr{Value: strconv.Itoa(len(e.Fields))}
	n.SetLine(e.Line())
	return call(e, callTable, e, n)
}

func call(at ast.Expr, name string, args ...ast.Expr) ast.Expr {
	fn := &ast.IdentExpr{Value: name}
	fn.SetLine(at.Line())
	c := &ast.FuncCallExpr{Func: fn, Args: args, AdjustRet: true}
	c.SetLine(at.Line())
	c.SetLastLine(at.LastLine())
	return c
}
