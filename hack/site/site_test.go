// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"html"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	reference = regexp.MustCompile(` (href|src)="([^"]*)"`)
	anchor    = regexp.MustCompile(` id="([^"]*)"`)
	resource  = regexp.MustCompile(`<(?:link|script|img|iframe|source|object|embed)[^>]* (?:href|src)="(?:[a-z]+:)?//`)
)

// Each link and anchor of the site exists, links to the repository name files that it has, and no page loads anything from
// another host.
func TestSite(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	if err := build("../../docs", out, "test"); err != nil {
		t.Fatal(err)
	}
	pages := readSite(t, out)
	ids := map[string]map[string]bool{}
	for name, text := range pages {
		ids[name] = map[string]bool{"": true}
		for _, found := range anchor.FindAllStringSubmatch(text, -1) {
			if ids[name][found[1]] {
				t.Errorf("%s has the anchor %s twice", name, found[1])
			}
			ids[name][found[1]] = true
		}
		if found := resource.FindString(text); found != "" {
			t.Errorf("%s loads %s", name, found)
		}
	}
	for name, text := range pages {
		for _, found := range reference.FindAllStringSubmatch(text, -1) {
			checkLink(t, out, name, html.UnescapeString(found[2]), ids)
		}
	}
	sources, err := listPages("../../docs")
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range sources {
		if pages[pageURL(source)] == "" {
			t.Errorf("the site lacks %s", source)
		}
	}
	if style, err := os.ReadFile(filepath.Join(out, "style.css")); err != nil || strings.Contains(string(style), "url(") || strings.Contains(string(style), "@import") {
		t.Errorf("the style loads other files, or is missing: %v", err)
	}
}

// Each page is in the navigation, except for the single decisions.
func TestNavigation(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	if err := build("../../docs", out, ""); err != nil {
		t.Fatal(err)
	}
	first := readSite(t, out)["index.html"]
	navigation := first[strings.Index(first, "<nav"):strings.Index(first, "</nav>")]
	sources, err := listPages("../../docs")
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range sources {
		if path.Dir(source) == "." && source != home && strings.Count(navigation, `href="`+pageURL(source)+`"`) != 1 {
			t.Errorf("docs/%s lists %s not exactly once", home, source)
		}
	}
}

// The search finds texts of tables and of code.
func TestSearchIndex(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	if err := build("../../docs", out, ""); err != nil {
		t.Fatal(err)
	}
	index, err := os.ReadFile(filepath.Join(out, "search-index.js"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"CrashLoopBackOff", "kubectl weir init deployment/web", `"u":"runbook.html#`, `"p":"Runbook"`} {
		if !strings.Contains(string(index), text) {
			t.Errorf("the index of the search lacks %s", text)
		}
	}
}

// checkLink checks one link of a page.
func checkLink(t *testing.T, out, from, link string, ids map[string]map[string]bool) {
	t.Helper()
	if file, ok := strings.CutPrefix(link, repository+"/blob/HEAD/"); ok {
		file, _, _ = strings.Cut(file, "#")
		if _, err := os.Stat(filepath.Join("../..", file)); err != nil {
			t.Errorf("%s links to %s, which the repository lacks", from, file)
		}
		return
	}
	if strings.Contains(link, "://") {
		return
	}
	target, id, _ := strings.Cut(link, "#")
	to := from
	if target != "" {
		to = path.Join(path.Dir(from), target)
	}
	if _, err := os.Stat(filepath.Join(out, to)); err != nil {
		t.Errorf("%s links to %s, which does not exist", from, link)
	} else if ids[to] != nil && !ids[to][id] {
		t.Errorf("%s links to %s, which has no such anchor", from, link)
	}
}

// readSite returns the HTML of all pages.
func readSite(t *testing.T, out string) map[string]string {
	t.Helper()
	pages := map[string]string{}
	err := fs.WalkDir(os.DirFS(out), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".html") {
			return err
		}
		data, err := os.ReadFile(filepath.Join(out, name))
		pages[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}
