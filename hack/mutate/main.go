// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Mutate shows whether the tests notice faults: it makes small changes to the code, one at a
// time, and runs the tests with each. A change that no test notices is printed as survived.
//
//	go run ./hack/mutate -n 50 -seed 7 ./pkg/judge ./pkg/planner
//
// It negates conditions, swaps comparisons and && with ||, and drops statements. The seed
// selects which of all possible changes are made. The working tree stays as it is: the go
// command reads the changed file through an overlay. A change that does not compile is
// replaced by another one. The tests of the changed package run first, then those of -also.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// fault is a change of the bytes from a position to another one of a file.
type fault struct {
	file     string
	line     int
	from, to int
	text     string
	what     string
}

// swaps are the operators that faults exchange.
var swaps = map[token.Token]token.Token{
	token.EQL: token.NEQ, token.NEQ: token.EQL,
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.LAND: token.LOR, token.LOR: token.LAND,
}

func main() {
	n := flag.Int("n", 50, "how many faults to try")
	seed := flag.Uint64("seed", 1, "selects the faults")
	also := flag.String("also", "./pkg/planner ./pkg/registry/...", "packages whose tests run if those of the changed package pass")
	flag.Parse()
	if err := run(flag.Args(), *n, *seed, strings.Fields(*also)); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(dirs []string, n int, seed uint64, also []string) error {
	var faults []fault
	for _, dir := range dirs {
		found, err := faultsOf(dir)
		if err != nil {
			return err
		}
		faults = append(faults, found...)
	}
	if len(faults) == 0 {
		return fmt.Errorf("no fault is possible in %v; name directories of packages, such as ./pkg/judge", dirs)
	}
	temp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	rand.New(rand.NewPCG(seed, seed)).Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	fmt.Printf("%d faults are possible, %d are tried\n", len(faults), min(n, len(faults)))
	tried, survived := 0, 0
	for _, f := range faults {
		if tried == n {
			break
		}
		result, err := try(f, temp, also)
		if err != nil {
			return err
		}
		if result == "" {
			continue // it does not compile
		}
		tried++
		if result == "survived" {
			survived++
		}
		fmt.Printf("%-60s %-50s %s\n", fmt.Sprintf("%s:%d", f.file, f.line), f.what, result)
	}
	fmt.Printf("%d of %d faults survived\n", survived, tried)
	return nil
}

// faultsOf returns all faults that are possible in the hand-written code of a package.
func faultsOf(dir string) ([]fault, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var faults []fault
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, content, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		if ast.IsGenerated(file) {
			continue
		}
		add := func(from, to token.Pos, text func(old string) string, verb string) {
			f := fault{file: name, line: set.Position(from).Line, from: set.Position(from).Offset, to: set.Position(to).Offset}
			old := string(content[f.from:f.to])
			f.text = text(old)
			f.what = verb + " " + firstLine(old)
			if verb == "swap" {
				f.what = old + " is " + f.text
			}
			faults = append(faults, f)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.IfStmt:
				add(node.Cond.Pos(), node.Cond.End(), func(old string) string { return "!(" + old + ")" }, "negate")
			case *ast.BinaryExpr:
				if other, swapped := swaps[node.Op]; swapped {
					end := node.OpPos + token.Pos(len(node.Op.String()))
					add(node.OpPos, end, func(string) string { return other.String() }, "swap")
				}
			case *ast.ExprStmt, *ast.IncDecStmt, *ast.BranchStmt:
				add(node.Pos(), node.End(), func(string) string { return "" }, "drop")
			case *ast.AssignStmt:
				if node.Tok != token.DEFINE {
					add(node.Pos(), node.End(), func(string) string { return "" }, "drop")
				}
			}
			return true
		})
	}
	return faults, nil
}

func firstLine(text string) string {
	line, _, more := strings.Cut(text, "\n")
	if len(line) > 40 {
		line, more = line[:40], true
	}
	if more {
		line += "…"
	}
	return line
}

// failed finds the first test that failed.
var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// try runs the tests with a fault. It returns "survived", or what noticed the fault; nothing if
// the fault does not compile.
func try(f fault, temp string, also []string) (string, error) {
	content, err := os.ReadFile(f.file)
	if err != nil {
		return "", err
	}
	absolute, err := filepath.Abs(f.file)
	if err != nil {
		return "", err
	}
	changed, overlay := filepath.Join(temp, "changed.go"), filepath.Join(temp, "overlay.json")
	text, err := json.Marshal(map[string]map[string]string{"Replace": {absolute: changed}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(changed, []byte(string(content[:f.from])+f.text+string(content[f.to:])), 0o600); err != nil {
		return "", err
	}
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		return "", err
	}
	own := "./" + filepath.ToSlash(filepath.Dir(filepath.Clean(f.file)))
	if err := exec.Command("go", "build", "-overlay", overlay, "./...").Run(); err != nil {
		return "", nil //nolint:nilerr // a fault that does not compile is no fault
	}
	for _, packages := range [][]string{{own}, also} {
		// A fault may make a loop endless: the timeout ends it.
		out, err := exec.Command("go", append([]string{"test", "-overlay", overlay, "-failfast", "-timeout", "10m"}, packages...)...).CombinedOutput()
		if err == nil {
			continue
		}
		if test := failed.FindStringSubmatch(string(out)); test != nil {
			return test[1], nil
		}
		if strings.Contains(string(out), "panic: test timed out") {
			return "timed out", nil
		}
		return "noticed", nil // a panic, or a test that does not compile
	}
	return "survived", nil
}
