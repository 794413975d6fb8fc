// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestShape: a function of a draft changes it and returns nothing, and a function of
// facts answers and changes nothing of them.
func TestShape(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"*.go", "../batch/*.go", "../routing/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no files in %s: %v", pattern, err)
		}
		for _, name := range files {
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range file.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && !strings.HasSuffix(name, "_test.go") {
					judgeShape(t, set, fn)
				}
			}
		}
	}
}

// partsOfDrafts give what is to be changed, and report what was wanted already.
var partsOfDrafts = []string{"progress", "takeNetwork", "acts"}

func judgeShape(t *testing.T, set *token.FileSet, fn *ast.FuncDecl) {
	t.Helper()
	if pointerTo(fn, "draft") != "" && fn.Type.Results != nil && !slices.Contains(partsOfDrafts, fn.Name.Name) {
		t.Errorf("%s: %s changes a draft and returns something", set.Position(fn.Pos()), fn.Name.Name)
	}
	facts := pointerTo(fn, "facts")
	ast.Inspect(fn, func(n ast.Node) bool {
		if assign, ok := n.(*ast.AssignStmt); ok && facts != "" {
			for _, to := range assign.Lhs {
				if root(to) == facts {
					t.Errorf("%s: %s changes facts", set.Position(assign.Pos()), fn.Name.Name)
				}
			}
		}
		return true
	})
}

// pointerTo names the parameter or receiver that points to a type.
func pointerTo(fn *ast.FuncDecl, typeName string) string {
	fields := slices.Clone(fn.Type.Params.List)
	if fn.Recv != nil {
		fields = append(fields, fn.Recv.List...)
	}
	for _, field := range fields {
		star, ok := field.Type.(*ast.StarExpr)
		if !ok || len(field.Names) == 0 {
			continue
		}
		if id, ok := star.X.(*ast.Ident); ok && id.Name == typeName {
			return field.Names[0].Name
		}
	}
	return ""
}

// root is the variable that a selector begins with; empty where the variable itself is assigned.
func root(e ast.Expr) string {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if id, ok := sel.X.(*ast.Ident); ok {
		return id.Name
	}
	return root(sel.X)
}
