// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Size prints how many lines of code each package has, and how that changed since the last
// tag (or the commit in BASE). It counts hand-written Go in cmd, pkg and internal without
// tests, comments and blank lines. It reports and never fails.
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// grownBy is the share by which a package may grow before Size asks for a reason.
const grownBy = 0.1

var roots = []string{"cmd", "pkg", "internal"}

func main() {
	now, err := ofTree()
	if err != nil {
		fmt.Fprintln(os.Stderr, "size:", err)
		os.Exit(1)
	}
	base := os.Getenv("BASE")
	if base == "" {
		tag, _ := exec.Command("git", "describe", "--tags", "--abbrev=0").Output() // none in a shallow clone
		base = strings.TrimSpace(string(tag))
	}
	var before map[string]int
	if base != "" {
		if before, err = ofCommit(base); err != nil {
			fmt.Fprintf(os.Stderr, "size: cannot compare with %s: %v\n", base, err)
		}
	}
	printSizes(now, before, base)
}

// ofTree counts the lines of code of each package in the working tree.
func ofTree() (map[string]int, error) {
	lines := map[string]int{}
	for _, root := range roots {
		err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !counts(name) {
				return err
			}
			content, err := os.ReadFile(name)
			if err == nil {
				lines[path.Dir(name)] += codeLines(content)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return lines, nil
}

// ofCommit counts the lines of code of each package in a commit.
func ofCommit(commit string) (map[string]int, error) {
	archive, err := exec.Command("git", append([]string{"archive", "--format=tar", commit}, roots...)...).Output()
	if err != nil {
		return nil, err
	}
	lines, r := map[string]int{}, tar.NewReader(bytes.NewReader(archive))
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return nil, err
		}
		if header.Typeflag != tar.TypeReg || !counts(header.Name) {
			continue
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		lines[path.Dir(header.Name)] += codeLines(content)
	}
}

// counts reports whether a file is Go that is neither a test nor a helper of tests.
func counts(name string) bool {
	return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && !strings.HasSuffix(path.Dir(name), "test")
}

// codeLines counts the lines that have more than a comment. It is 0 for generated code.
func codeLines(content []byte) int {
	set := token.NewFileSet()
	if file, err := parser.ParseFile(set, "", content, parser.PackageClauseOnly|parser.ParseComments); err != nil || ast.IsGenerated(file) {
		return 0
	}
	var s scanner.Scanner
	file := set.AddFile("", set.Base(), len(content))
	s.Init(file, content, nil, 0)
	lines := map[int]bool{}
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return len(lines)
		}
		first := file.Line(pos)
		for line := first; line <= first+strings.Count(text, "\n"); line++ {
			if tok != token.SEMICOLON || text == ";" { // not one that the scanner inserts at the end of a line
				lines[line] = true
			}
		}
	}
}

// printSizes prints the lines of each package, and the packages that have grown most.
func printSizes(now, before map[string]int, base string) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	total, totalBefore := 0, 0
	var grown []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if now[name] == 0 {
			continue
		}
		total, totalBefore = total+now[name], totalBefore+before[name]
		fmt.Fprintf(w, "%d\t%s\t  %s\n", now[name], change(now[name], before, name), name)
		if was := before[name]; was > 0 && float64(now[name]-was) > grownBy*float64(was) {
			grown = append(grown, name)
		}
	}
	if before == nil {
		fmt.Fprintf(w, "%d\t\t  in all\n", total)
	} else {
		fmt.Fprintf(w, "%d\t%+d\t  in all, since %s\n", total, total-totalBefore, base)
	}
	_ = w.Flush() // to the standard output, as all of it
	if len(grown) > 0 {
		fmt.Printf("\nMore than %.0f %% larger than in %s; say why in the commit message: %s\n", 100*grownBy, base, strings.Join(grown, ", "))
	}
}

// change is the difference of a package to the commit that it is compared with.
func change(lines int, before map[string]int, name string) string {
	was, existed := before[name]
	switch {
	case before == nil || was == lines:
		return ""
	case !existed:
		return "new"
	}
	return fmt.Sprintf("%+d", lines-was)
}
