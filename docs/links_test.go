// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	codeBlock = regexp.MustCompile("(?ms)^```.*?^```|^    .*?$|`[^`\n]+`")
	pageLink  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	title     = regexp.MustCompile(`(?m)^#+ (.*)$`)
)

// The links of the pages beside docs lead to files and headings that exist. hack/site checks those of docs.
func TestLinks(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"} {
		text := codeBlock.ReplaceAllString(readPage(t, "../"+name), "")
		for _, found := range pageLink.FindAllStringSubmatch(text, -1) {
			target, anchor, hasAnchor := strings.Cut(found[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			if target == "" {
				target = name
			}
			file := filepath.Join("..", target)
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, target)
			} else if hasAnchor && !anchorsOf(t, file)[anchor] {
				t.Errorf("%s links to %s, which has no such heading", name, found[1])
			}
		}
	}
}

// anchorsOf returns the anchors of a page, as GitHub makes them.
func anchorsOf(t *testing.T, file string) map[string]bool {
	t.Helper()
	anchors := map[string]bool{}
	for _, found := range title.FindAllStringSubmatch(readPage(t, file), -1) {
		anchors[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, found[1])] = true
	}
	return anchors
}
