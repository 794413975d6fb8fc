// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Each text of the index of messages is in the code, and each event and condition of the code is in the index.
func TestMessages(t *testing.T) {
	t.Parallel()
	page := readPage(t, "messages.md")
	own, _, found := strings.Cut(page, "## From Kubernetes and kubectl")
	if !found {
		t.Fatal("messages.md has no section about the texts of Kubernetes")
	}
	texts, sources := codeTexts(t)
	messages, identifiers, _ := strings.Cut(own, "## Events")
	for _, text := range firstCells(messages) {
		for part := range strings.SplitSeq(text, "…") {
			if part = strings.TrimSpace(part); len(part) > 3 && !strings.Contains(texts, part) {
				t.Errorf("messages.md lists %q, and no text of the code has %q", text, part)
			}
		}
	}
	if len(firstCells(messages)) < 40 {
		t.Errorf("messages.md has only %d messages: the test does not find them", len(firstCells(messages)))
	}
	listed := map[string]bool{}
	for _, name := range firstCells(identifiers) {
		listed[name] = true
	}
	for _, condition := range rollouts.ConditionTypes {
		if !listed[string(condition)] {
			t.Errorf("messages.md lacks the condition %s", condition)
		}
	}
	reasons := eventReason.FindAllStringSubmatch(sources, -1)
	if len(reasons) < 20 {
		t.Errorf("the code has only %d events: the test does not find them", len(reasons))
	}
	for _, reason := range reasons {
		if !listed[reason[1]] {
			t.Errorf("messages.md lacks the event %s", reason[1])
		}
	}
}

// eventReason matches the reason of an event where the code sends it, or its constant.
var eventReason = regexp.MustCompile(`(?:\.(?:announce|warn)\(|addEvent\(\w+, |recordWarning\(w, |\bEvent[A-Z]\w*\s*= )"([A-Z]\w+)"`)

var (
	firstCell = regexp.MustCompile(`(?m)^\| ([^|]+) \|`)
	codeSpan  = regexp.MustCompile("`([^`]+)`")
)

// firstCells returns the code in the first cells of all tables.
func firstCells(page string) []string {
	var all []string
	for _, cell := range firstCell.FindAllStringSubmatch(page, -1) {
		for _, code := range codeSpan.FindAllStringSubmatch(cell[1], -1) {
			all = append(all, code[1])
		}
	}
	return all
}

// codeTexts returns all texts of the code of pkg, one per line, and the code. Texts that are joined by + count as one.
func codeTexts(t *testing.T) (texts, sources string) {
	t.Helper()
	var all, code strings.Builder
	err := filepath.WalkDir("../pkg", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && d.Name() == "generated" {
			return err
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(d.Name(), "zz_generated") {
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		code.Write(source)
		file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			text, isText := literal(n)
			if isText {
				all.WriteString(text + "\n")
			}
			return !isText
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String(), code.String()
}

// literal returns the text of a literal, or of literals that are joined by +.
func literal(n ast.Node) (string, bool) {
	switch v := n.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(v.Value)
		return text, v.Kind == token.STRING && err == nil
	case *ast.BinaryExpr:
		left, ok := literal(v.X)
		right, also := literal(v.Y)
		return left + right, ok && also && v.Op == token.ADD
	}
	return "", false
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The table of refusals in verbs.md quotes texts of the code, with values of an example.
func TestRefusals(t *testing.T) {
	t.Parallel()
	_, rest, found := strings.Cut(readPage(t, "verbs.md"), "| state | text of the refusal")
	table, _, _ := strings.Cut(rest, "\n\n")
	texts, _ := codeTexts(t)
	rows := strings.Split(table, "\n")
	if !found || len(rows) < 12 {
		t.Fatalf("verbs.md has a table of %d refusals: the test does not find it", len(rows))
	}
	for _, row := range rows[2:] {
		for _, code := range codeSpan.FindAllStringSubmatch(row, -1) {
			for _, part := range exampleValue.Split(code[1], -1) {
				if part = strings.Trim(part, " ;,()"); len(part) > 8 && !strings.Contains(texts, part) {
					t.Errorf("verbs.md quotes %q, and no text of the code has %q", code[1], part)
				}
			}
		}
	}
}

// exampleValue matches the values of the example: a revision, a user, a step, a state and a phase.
var exampleValue = regexp.MustCompile(`6f9d5b7c8d| by alice|\b\d+\b|\bStep[A-Z]\w+|, or promote| yet; wait for|\bHealthy\b|the rollout is being deleted`)
