// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"strconv"

	"github.com/yuin/gopher-lua/ast"
)

// stmt is a statement with counting. One that makes a function that knows itself
// becomes two.
func (r *rewriter) stmt(s ast.Stmt) []ast.Stmt {
	switch s := s.(type) {
	case *ast.AssignStmt:
		for i, to := range s.Lhs {
			s.Lhs[i] = r.target(to)
		}
		r.exprs(s.Rhs)
	case *ast.LocalAssignStmt:
		return r.local(s)
	case *ast.FuncCallStmt:
		s.Expr = r.expr(s.Expr)
	case *ast.ReturnStmt:
		r.exprs(s.Exprs)
	case *ast.FuncDefStmt:
		return []ast.Stmt{r.define(s)}
	case *ast.IfStmt:
		s.Condition = r.expr(s.Condition)
		s.Then, s.Else = r.stmts(s.Then), r.stmts(s.Else)
	default:
		r.loop(s)
	}
	return []ast.Stmt{s}
}

func (r *rewriter) loop(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.DoBlockStmt:
		s.Stmts = r.stmts(s.Stmts)
	case *ast.WhileStmt:
		s.Condition, s.Stmts = r.expr(s.Condition), r.stmts(s.Stmts)
	case *ast.RepeatStmt:
		s.Condition, s.Stmts = r.expr(s.Condition), r.stmts(s.Stmts)
	case *ast.NumberForStmt:
		s.Init, s.Limit, s.Step = r.expr(s.Init), r.expr(s.Limit), r.expr(s.Step)
		s.Stmts = r.stmts(s.Stmts)
	case *ast.GenericForStmt:
		r.exprs(s.Exprs)
		s.Stmts = r.stmts(s.Stmts)
	}
}

// local is "local f = function": the variable is there before the function.
func (r *rewriter) local(s *ast.LocalAssignStmt) []ast.Stmt {
	for _, name := range s.Names {
		r.word(name, s.Line())
	}
	if len(s.Names) == 1 && len(s.Exprs) == 1 {
		if fn, ok := s.Exprs[0].(*ast.FunctionExpr); ok {
			to := &ast.IdentExpr{Value: s.Names[0]}
			to.SetLine(s.Line())
			then := &ast.AssignStmt{Lhs: []ast.Expr{to}, Rhs: []ast.Expr{r.expr(fn)}}
			then.SetLine(s.Line())
			s.Exprs = nil
			return []ast.Stmt{s, then}
		}
	}
	r.exprs(s.Exprs)
	return []ast.Stmt{s}
}

// define is "function a.b()" or "function a:b()" as an assignment.
func (r *rewriter) define(s *ast.FuncDefStmt) ast.Stmt {
	to := s.Name.Func
	if s.Name.Method != "" {
		method := &ast.StringExpr{Value: s.Name.Method}
		method.SetLine(s.Line())
		to = &ast.AttrGetExpr{Object: s.Name.Receiver, Key: method}
		to.SetLine(s.Line())
		s.Func.ParList.Names = append([]string{"self"}, s.Func.ParList.Names...)
	}
	as := &ast.AssignStmt{Lhs: []ast.Expr{r.target(to)}, Rhs: []ast.Expr{r.expr(s.Func)}}
	as.SetLine(s.Line())
	as.SetLastLine(s.LastLine())
	return as
}

// target is what is assigned to. Its table and its key are both seen by one call,
// which returns the table; the next returns the key.
func (r *rewriter) target(e ast.Expr) ast.Expr {
	at, ok := e.(*ast.AttrGetExpr)
	switch {
	case !ok:
		return r.expr(e)
	case name(at.Key):
		at.Object, at.Key = r.expr(at.Object), r.expr(at.Key)
	default:
		at.Object = call(at, callPlace, r.one(at.Object), r.one(at.Key))
		at.Key = call(at, callKey)
	}
	return at
}

// name tells that an expression is a short text.
func name(e ast.Expr) bool {
	s, ok := e.(*ast.StringExpr)
	return ok && len(s.Value) <= short
}

// small tells that nothing in an expression is longer than a short text.
func small(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.NumberExpr:
		return len(e.Value) <= short
	case *ast.NilExpr, *ast.TrueExpr, *ast.FalseExpr, *ast.UnaryLenOpExpr, *ast.UnaryNotOpExpr, *ast.RelationalOpExpr:
		return true
	}
	return name(e)
}

// text is an expression that may be a long text, which is counted.
func (r *rewriter) text(e ast.Expr) ast.Expr {
	if small(e) {
		return r.expr(e)
	}
	return call(e, callText, r.one(e))
}

// number is an operand: a text is read as a number.
func (r *rewriter) number(e ast.Expr) ast.Expr {
	if _, computed := e.(*ast.ArithmeticOpExpr); computed {
		return r.expr(e)
	}
	return r.text(e)
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
		e.Object, e.Key = r.expr(e.Object), r.text(e.Key)
	case *ast.FuncCallExpr:
		r.word(e.Method, e.Line())
		e.Func, e.Receiver = r.expr(e.Func), r.expr(e.Receiver)
		r.exprs(e.Args)
	case *ast.FunctionExpr:
		e.Stmts = r.stmts(e.Stmts)
		return call(e, callMade, e)
	case *ast.Comma3Expr:
		c := call(e, callAll, e)
		c.AdjustRet, e.AdjustRet = e.AdjustRet, false
		return c
	default:
		r.term(e)
	}
	return e
}

// term is an expression that stays what it is.
func (r *rewriter) term(e ast.Expr) {
	switch e := e.(type) {
	case *ast.IdentExpr:
		r.word(e.Value, e.Line())
	case *ast.NumberExpr:
		r.literal(e.Value)
	case *ast.StringExpr:
		r.literal(e.Value)
	default:
		r.operator(e)
	}
}

func (r *rewriter) operator(e ast.Expr) {
	switch e := e.(type) {
	case *ast.LogicalOpExpr:
		e.Lhs, e.Rhs = r.expr(e.Lhs), r.expr(e.Rhs)
	case *ast.RelationalOpExpr:
		// A comparison ends with the shorter text.
		if small(e.Rhs) {
			e.Lhs, e.Rhs = r.expr(e.Lhs), r.expr(e.Rhs)
		} else {
			e.Lhs, e.Rhs = r.text(e.Lhs), r.expr(e.Rhs)
		}
	case *ast.ArithmeticOpExpr:
		e.Lhs, e.Rhs = r.number(e.Lhs), r.number(e.Rhs)
		if e.Operator == "%" {
			e.Rhs = call(e, callMod, r.single(e.Rhs))
		}
	case *ast.UnaryMinusOpExpr:
		e.Expr = r.number(e.Expr)
	case *ast.UnaryNotOpExpr:
		e.Expr = r.expr(e.Expr)
	case *ast.UnaryLenOpExpr:
		e.Expr = call(e, callLength, r.one(e.Expr))
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
func (r *rewriter) one(e ast.Expr) ast.Expr { return r.single(r.expr(e)) }

func (r *rewriter) single(e ast.Expr) ast.Expr {
	if c, ok := e.(*ast.FuncCallExpr); ok {
		c.AdjustRet = true
	}
	return e
}

func (r *rewriter) table(e *ast.TableExpr) ast.Expr {
	for _, f := range e.Fields {
		switch {
		case f.Key == nil || name(f.Key):
			f.Key = r.expr(f.Key)
		default:
			f.Key = call(f.Key, callRoom, r.one(f.Key))
		}
		f.Value = r.expr(f.Value)
	}
	n := &ast.NumberExpr{Value: strconv.Itoa(len(e.Fields))}
	n.SetLine(e.Line())
	return call(e, callTable, e, n)
}

func call(at ast.Expr, name string, args ...ast.Expr) *ast.FuncCallExpr {
	fn := &ast.IdentExpr{Value: name}
	fn.SetLine(at.Line())
	c := &ast.FuncCallExpr{Func: fn, Args: args, AdjustRet: true}
	c.SetLine(at.Line())
	c.SetLastLine(at.LastLine())
	return c
}
