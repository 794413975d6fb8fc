// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Size answers: how large is the code, and where does it grow?
//
// It counts hand-written Go of cmd, pkg and internal without tests, by package, and
// the words of docs. Below it are the largest file, function and type, each beside
// what it should have at most. It reports; it never fails.
package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// The most that there should be.
const (
	mostLines    = 30_500
	mostFile     = 350
	mostFunction = 50
	mostMethods  = 25
	mostWords    = 28_700
)

// count is what was found.
type count struct {
	packages  map[string]int // lines
	files     map[string]int // lines
	functions map[string]int // lines
	methods   map[string]int // of a type
	words     int
}

func main() {
	c := &count{packages: map[string]int{}, files: map[string]int{}, functions: map[string]int{}, methods: map[string]int{}}
	for _, dir := range []string{"cmd", "pkg", "internal", "docs"} {
		if err := filepath.WalkDir(dir, c.read); err != nil {
			fmt.Fprintln(os.Stderr, "size:", err)
			os.Exit(1)
		}
	}
	c.print()
}

func (c *count) read(path string, d fs.DirEntry, err error) error {
	if err != nil || d.IsDir() {
		return err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	switch {
	case strings.HasPrefix(path, "docs/") && strings.HasSuffix(path, ".md"):
		c.words += len(bytes.Fields(content))
	case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
		return c.readGo(path, content)
	}
	return nil
}

func (c *count) readGo(path string, content []byte) error {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, content, parser.ParseComments)
	if err != nil || ast.IsGenerated(file) || strings.HasSuffix(filepath.Dir(path), "test") {
		return err
	}
	lines := bytes.Count(content, []byte("\n"))
	c.packages[filepath.Dir(path)] += lines
	c.files[path] = lines
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := filepath.Dir(path) + "." + f.Name.Name
		if f.Recv != nil {
			receiver := strings.TrimPrefix(string(content[set.Position(f.Recv.List[0].Type.Pos()).Offset:set.Position(f.Recv.List[0].Type.End()).Offset]), "*")
			of := filepath.Dir(path) + "." + receiver
			c.methods[of]++
			name = of + "." + f.Name.Name
		}
		c.functions[name] = set.Position(f.End()).Line - set.Position(f.Pos()).Line + 1
	}
	return nil
}

func (c *count) print() {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	sum := 0
	for _, name := range slices.Sorted(maps.Keys(c.packages)) {
		sum += c.packages[name]
		fmt.Fprintf(w, "%d\t  %s\n", c.packages[name], name)
	}
	_ = w.Flush() // to the standard output, as all of it
	fmt.Println()
	w = tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "lines\t%d\tof %d\n", sum, mostLines)
	for _, row := range []struct {
		what  string
		of    map[string]int
		limit int
	}{{"longest file", c.files, mostFile}, {"longest function", c.functions, mostFunction}, {"most methods", c.methods, mostMethods}} {
		name := largest(row.of)
		over := 0
		for _, n := range row.of {
			if n > row.limit {
				over++
			}
		}
		fmt.Fprintf(w, "%s\t%d\tof %d\t%s\t%d above\n", row.what, row.of[name], row.limit, name, over)
	}
	fmt.Fprintf(w, "words of docs\t%d\tof %d\n", c.words, mostWords)
	_ = w.Flush()
}

func largest(of map[string]int) string {
	return slices.MaxFunc(slices.Sorted(maps.Keys(of)), func(a, b string) int { return of[a] - of[b] })
}
